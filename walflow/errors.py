"""The situations that walflow names, and whose they are."""


class WalflowError(Exception):
    """Anything walflow reports to a person in one line. Its text is that line."""


class CannotDecode(WalflowError):
    """An event's bytes are not what its codec wants. The event is rejected, the stream goes on."""


class CannotEncode(WalflowError):
    """A codec has no bytes for this value. The event is rejected; the same will happen next time."""


class DirectoryLocked(WalflowError):
    """Another process holds a directory that belongs to one process at a time (exit 75)."""


class Unusable(WalflowError):
    """Files walflow needs are not what they must be. The line names the file and the command to run (exit 74)."""


class Misconfigured(WalflowError):
    """A flow file has a mistake that only its start could find: a query that Spark cannot parse, say (exit 78)."""


class Unavailable(WalflowError):
    """Something of the machine that only one process may have, an address say, is another one's (exit 69)."""


class DiskFull(WalflowError):
    """No space, no descriptors or no memory now. Nothing was promised; the same work may be done again later."""


class FailStop(WalflowError):
    """A write or a sync of a log failed: nothing may be acknowledged any more (exit 74).

    After a failed fsync the kernel marks the pages clean, so a retry would succeed and prove nothing
    (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020).
    """


class LogFull(WalflowError):
    """A record does not fit what is left of the log's budget. Nothing was written; ack some positions, checkpoint,
    and append it again."""
