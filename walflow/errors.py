"""The errors that walflow names, by situation."""


class WalflowError(Exception):
    """An error that walflow reports to a person in one line. Its text is that line."""


class CannotDecode(WalflowError):
    """The codec cannot decode the bytes of an event. The event is rejected, and the stream continues."""


class CannotEncode(WalflowError):
    """The codec cannot encode this value. The event is rejected, because another attempt would fail too."""


class DirectoryLocked(WalflowError):
    """Another process uses a directory that only one process may use (exit 75)."""


class Unusable(WalflowError):
    """Files that walflow needs cannot be used. The message names the file and the command to run (exit 74)."""


class Misconfigured(WalflowError):
    """A flow file has a mistake that only its start can find,
    for example a query that Spark cannot parse (exit 78)."""


class Unavailable(WalflowError):
    """Another process uses a resource of the machine that only one process may use,
    for example an address (exit 69)."""


class DiskFull(WalflowError):
    """There is no space, descriptor or memory now. No event was acked; the same work may be done again later."""


class ReadFailed(WalflowError):
    """The disk fails to read a file now. What stands there is not known to be damaged, so nothing is given up; the
    same read may be tried again later."""


class FailStop(WalflowError):
    """A write or a sync of a log failed: no event may be acked any more (exit 74).

    After a failed fsync the kernel marks the pages clean. So a second fsync would succeed and prove nothing (Rebello
    et al., "Can Applications Recover from fsync Failures?", ATC 2020).
    """


class LogFull(WalflowError):
    """A record does not fit the rest of the log's budget. Nothing was written; ack some positions, write a
    checkpoint, and append it again."""


class Blameless(WalflowError):
    """A sink failed an event, and no event is to blame: it counts as no attempt."""


class LettersShut(Blameless):
    """A rejected event cannot be kept as a letter now. Its log sends it again."""


class OneOfMany(WalflowError):
    """A sink fails all that was under way, and cannot tell which event is to blame. It counts as an
    attempt only of an event that was under way alone."""


class PeerAway(OneOfMany):
    """There is no connection to the peer; an event that fails so again, while others get through, may be what ends
    the connections. Newer events wait for those that failed so, and the order is kept."""


class HandedBack(WalflowError):
    """A sink has only events that failed, and cannot tell whether its peer is away or these are bad:
    newer events may pass them."""
