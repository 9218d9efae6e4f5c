"""Requests that were sent before, recognised by their `Idempotency-Key`."""

from collections import Counter as Tally, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from connectors.http.delivery import RequestOutcome
from connectors.http.refusal import HttpRefusal, HttpReply, answer
from walflow import Recalled
from walflow.world import wall_ns

LOGGED: Final = ("http_server", "idempotency")  # where the metadata of an event has what `logged` says
REPLY_BYTES: Final = 64 << 20  # of answers that flows made, all together


class LoggedKey(msgspec.Struct, frozen=True):
    """What the metadata of each event of a request has of its key. `number`: of the request. Two of one key that were
    both broken off are not one whole."""

    key: str
    digest: str
    events: int
    number: int


class KnownRequest(NamedTuple):
    """`answer`: what its sender was told, or will be."""

    until: float
    digest: bytes
    outcome: RequestOutcome
    answer: bytes


class KeyWindow:
    """The last `most` keys of the last `seconds`, in memory.
    A request that failed is forgotten: it may come again."""

    def __init__(self, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._time = clock
        self._known: OrderedDict[str, KnownRequest] = OrderedDict()  # the oldest first
        self._bytes = 0  # of the flow's answers among them

    def __repr__(self) -> str:
        return f"<KeyWindow {len(self._known)} of {self._most} keys>"

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: str, digest: bytes) -> KnownRequest | None:
        """Raises HttpRefusal for another body under the same key."""
        self._forget_old()
        known = self._known.get(key)
        if known is not None and known.digest != digest:
            raise HttpRefusal(422, "this Idempotency-Key came before, with another body")
        return known

    def keep(self, key: str, digest: bytes, outcome: RequestOutcome, said: bytes) -> None:
        while len(self._known) >= self._most:
            self._forget_oldest()
        known = KnownRequest(self._time() + self._seconds, digest, outcome, said)
        self._known[key] = known
        outcome.then(lambda: self._settled(key, known))

    def recall(self, events: Iterable[Recalled], reply: HttpReply | None) -> int:
        """Keys of requests of an earlier run, all of whose events are in the log. Returns how many. `reply`: their
        answer, if it is not the usual one."""
        counts: Tally[LoggedKey] = Tally()
        newest: dict[LoggedKey, int] = {}
        for value, of_them, ingest_ns in events:
            if (found := _logged(value)) is not None:
                counts[found] += of_them
                newest[found] = ingest_ns
        whole = sorted((found for found in newest if counts[found] >= found.events), key=newest.__getitem__)
        now, wall = self._time(), wall_ns() / 1e9
        for found in whole[-self._most :]:
            outcome = RequestOutcome()
            outcome.reply = reply
            outcome.settle(None)
            age = min(max(0.0, wall - newest[found] / 1e9), self._seconds)
            until, said = now + self._seconds - age, answer({"events": found.events})
            self._known[found.key] = KnownRequest(until, bytes.fromhex(found.digest), outcome, said)
        return len(whole)

    def _settled(self, key: str, known: KnownRequest) -> None:
        if self._known.get(key) is not known:
            return
        if known.outcome.cause is not None:
            del self._known[key]
        self._bytes += _size(known)
        while self._bytes > REPLY_BYTES:
            self._forget_oldest()

    def _forget_old(self) -> None:
        now = self._time()
        while self._known and next(iter(self._known.values())).until < now:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, known = self._known.popitem(last=False)
        self._bytes -= _size(known)


def logged(key: str, digest: bytes, events: int, number: int) -> Mapping[str, object]:
    return {"key": key, "digest": digest.hex(), "events": events, "number": number}


def _logged(value: object) -> LoggedKey | None:
    """The other way round. None: it is not ours."""
    try:
        found = msgspec.convert(value, LoggedKey)
        bytes.fromhex(found.digest)
    except (msgspec.ValidationError, ValueError):
        return None
    return found


def _size(known: KnownRequest) -> int:
    return len(known.outcome.reply.body) if known.outcome.settled and known.outcome.reply is not None else 0
