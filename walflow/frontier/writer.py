"""The steps of a writer, without a receiver: a generator asks, whoever drives it answers. So a database on a thread,
one behind a socket and the model in the tests go the same way, and a test can stop between any two steps.

    writing = opening(keys, log, clock)
    step = next(writing)                    # ReadFrontier, Keep, Begin, Take, Put or Rest
    step = writing.send(answer)             # ... until StopIteration, with what it came to
"""

from collections.abc import Callable, Generator
from typing import Final, NamedTuple, TypeGuard

from walflow.errors import WalflowError
from walflow.frontier.judge import LogView, LogWentBack, OtherWriter, ReceiverWentBack, Verdict, judged
from walflow.frontier.keys import WriterKeys
from walflow.frontier.value import Frontier

RENEWED: Final = 20.0  # seconds between two signs of life
PATIENCE: Final = 60.0  # seconds without one, after which another writer counts as gone
LOOKS: Final = 5.0  # seconds between two looks at it


class ReadFrontier(NamedTuple):
    """Read the frontier, change nothing. Answer: it, or None."""


class Keep(NamedTuple):
    """Write these keys to disk. Answer: None, once they are there."""

    keys: WriterKeys


class Begin(NamedTuple):
    """Store this frontier if there is none, in a commit of its own. Answer: what there is now."""

    frontier: Frontier


class Take(NamedTuple):
    """In one UPDATE, committed by itself: if the frontier has one of `tokens`, it gets `token`, the next epoch and
    the next beat. It waits for an older transaction that holds the row. Answer: the frontier as it is after that, or
    None: it has none of these tokens."""

    tokens: frozenset[str]
    token: str


class Put(NamedTuple):
    """Store this frontier in place of the one with the same token, in a commit of its own.
    Answer: it, or None: the token is gone."""

    frontier: Frontier


class Rest(NamedTuple):
    """Wait so many seconds; `why` is for the operator. Answer: None."""

    seconds: float
    why: str


Step = ReadFrontier | Keep | Begin | Take | Put | Rest
Answer = Frontier | None


class FrontierTaken(NamedTuple):
    """This process is the writer, until its token is gone from the receiver."""

    frontier: Frontier
    keys: WriterKeys


class FrontierRefused(WalflowError):
    """The sink must not write. `verdict` says why."""

    def __init__(self, verdict: LogWentBack | ReceiverWentBack | OtherWriter) -> None:
        super().__init__(told(verdict))
        self.verdict = verdict


def opening(
    keys: WriterKeys, log: LogView, clock: Callable[[], float]
) -> Generator[Step, Answer, FrontierTaken | LogWentBack | ReceiverWentBack]:
    """Becomes the writer. Waits for another one as long as it shows signs of life. Nothing is taken before `judged`
    finds nothing that went back, and it is judged again once it is ours: what was on its way has landed by then."""
    seen: OtherWriter | None = None
    since = clock()
    while True:
        frontier = yield ReadFrontier()
        verdict = judged(frontier, keys, log)
        if _refuses(verdict, keys, log):
            return verdict
        tokens = frozenset(keys.tokens)
        if frontier is not None and frontier.token not in tokens:
            other = OtherWriter(frontier.epoch, frontier.beat)
            if other != seen:
                seen, since = other, clock()
            if clock() - since < PATIENCE and not keys.takes:
                yield Rest(LOOKS, told(other))
                continue
            tokens = frozenset((frontier.token,))
        keys = keys.with_token()
        yield Keep(keys)
        if frontier is None:
            taken = yield Begin(Frontier(epoch=keys.epoch + 1, token=keys.newest, beat=1))
        else:
            taken = yield Take(tokens, keys.newest)
        if taken is None or taken.token != keys.newest:
            continue  # it changed meanwhile, or another one was first
        verdict = judged(taken, keys, log)
        if _refuses(verdict, keys, log):
            return verdict
        if isinstance(verdict, LogWentBack):
            taken = yield Put(taken.known_in(log.spans))
            if taken is None:
                continue
        keys = keys.taken(taken)
        yield Keep(keys)
        return FrontierTaken(taken, keys)


def _refuses(verdict: Verdict, keys: WriterKeys, log: LogView) -> TypeGuard[LogWentBack | ReceiverWentBack]:
    if isinstance(verdict, LogWentBack):
        return not (keys.accepts or log.relaxed)
    return isinstance(verdict, ReceiverWentBack) and not keys.accepts


def after_lost_token(frontier: Frontier | None, keys: WriterKeys) -> OtherWriter | ReceiverWentBack:
    """A commit or a sign of life found that the frontier has not our token any more."""
    if frontier is None or frontier.epoch < keys.epoch:
        return ReceiverWentBack(frontier.highest if frontier is not None else 0, keys.confirmed.position)
    return OtherWriter(frontier.epoch, frontier.beat)


def told(verdict: LogWentBack | ReceiverWentBack | OtherWriter) -> str:
    """For the operator, in a line."""
    match verdict:
        case LogWentBack(has, next_):
            return (
                f"the receiver has position {has} of this log, and the log's next position is {next_}, or it has "
                "another event there: the log was restored from a copy, or lost events"
            )
        case ReceiverWentBack(has, confirmed):
            return (
                f"the receiver has confirmed position {confirmed} of this log, and has position {has} now: it was "
                "restored from a copy, emptied, or lost commits in a failover"
            )
        case OtherWriter(epoch, _):
            return (
                f"another process writes the events of this log, since its run {epoch}: "
                "a copy of the log's directory is in use"
            )
