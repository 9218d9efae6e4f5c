"""The steps of a writer, without a receiver: a generator asks, whoever drives it answers. So a database on a thread,
one behind a socket and the model in the tests go the same way, and a test can stop between any two steps.

    writing = opening(keys, log, clock)
    step = next(writing)                    # ReadFrontier, Keep, Begin, Take, Put or Rest
    step = writing.send(answer)             # ... until StopIteration, with what it came to
"""

from collections.abc import Callable, Generator
from typing import Final, Literal, NamedTuple, TypeGuard

import msgspec

from walflow.errors import WalflowError
from walflow.frontier.judge import LogView, LogWentBack, OtherWriter, ReceiverWentBack, Verdict, judged
from walflow.frontier.keys import RefusedOpening, WriterKeys
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
    """This process is the writer, until its token is gone from the receiver. `lost`: positions that the receiver had
    confirmed, has not now, and does not get again."""

    frontier: Frontier
    keys: WriterKeys
    lost: int = 0


class FrontierRefused(WalflowError):
    """The sink must not write. `verdict` says why."""

    def __init__(self, verdict: LogWentBack | ReceiverWentBack | OtherWriter) -> None:
        moved = isinstance(verdict, OtherWriter) and verdict.moved_to
        super().__init__(told(verdict) if moved else f"{told(verdict)}; {TO_DO[type(verdict)]}")
        self.verdict = verdict


TO_DO: Final = {
    LogWentBack: "`walflow frontier accept` goes on",
    ReceiverWentBack: "`walflow frontier accept` goes on, with --resend or --keep",
    OtherWriter: "stop it, then `walflow frontier take` goes on",
}


def opening(
    keys: WriterKeys, log: LogView, clock: Callable[[], float]
) -> Generator[Step, Answer, FrontierTaken | LogWentBack | ReceiverWentBack | OtherWriter]:
    """Becomes the writer. Waits for another one as long as it shows signs of life. Nothing is taken before `judged`
    finds nothing that went back, and it is judged again once it is ours: what was on its way has landed by then."""
    seen: OtherWriter | None = None
    since = clock()
    while True:
        frontier = yield ReadFrontier()
        verdict = judged(frontier, keys, log)
        if _refuses(verdict, keys, log):
            yield Keep(refused(keys, verdict, frontier))
            return verdict
        tokens = frozenset(keys.tokens)
        if frontier is not None and frontier.token not in tokens:
            other = OtherWriter(frontier.epoch, frontier.beat, frontier.moved_to)
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
            yield Keep(refused(keys, verdict, taken))
            return verdict
        if isinstance(verdict, LogWentBack):
            taken = yield Put(taken.known_in(log.spans))
            if taken is None:
                continue
        keys = keys.taken(taken)
        yield Keep(keys)
        return FrontierTaken(taken, keys, _lost(verdict, log))


def refused(
    keys: WriterKeys, verdict: LogWentBack | ReceiverWentBack | OtherWriter, seen: Frontier | None
) -> WriterKeys:
    """What an operator is shown of it, and decides by."""
    who: Literal["log", "receiver", "neither"] = "neither"
    if isinstance(verdict, LogWentBack):
        who = "log"
    elif isinstance(verdict, ReceiverWentBack):
        who = "receiver"
    return msgspec.structs.replace(keys, refusal=RefusedOpening(who, told(verdict), seen))


def _lost(verdict: Verdict, log: LogView) -> int:
    if not isinstance(verdict, ReceiverWentBack):
        return 0
    begin, end = max(verdict.has, log.low), verdict.confirmed
    sent = sum(max(0, min(last, end) - max(first - 1, begin)) for first, last in log.spans.values())
    return max(0, end - verdict.has - sent)


def _refuses(
    verdict: Verdict, keys: WriterKeys, log: LogView
) -> TypeGuard[LogWentBack | ReceiverWentBack | OtherWriter]:
    if isinstance(verdict, OtherWriter):
        return bool(verdict.moved_to)
    if isinstance(verdict, LogWentBack):
        return not (keys.accepts or log.relaxed)
    return isinstance(verdict, ReceiverWentBack) and keys.accepts not in ("resend", "keep")


def after_lost_token(frontier: Frontier | None, keys: WriterKeys) -> OtherWriter | ReceiverWentBack:
    """A commit or a sign of life found that the frontier has not our token any more."""
    if frontier is None or frontier.epoch < keys.epoch:
        return ReceiverWentBack(frontier.highest if frontier is not None else 0, keys.confirmed.position)
    return OtherWriter(frontier.epoch, frontier.beat, frontier.moved_to)


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
        case OtherWriter(_, _, moved_to) if moved_to:
            return f"the sink is called {moved_to} now, and goes on in the table under this name"
        case OtherWriter(epoch):
            return (
                f"another process writes the events of this log, since its run {epoch}: "
                "a copy of the log's directory is in use"
            )
