"""Requests that were sent before, recognised by their `Idempotency-Key`."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from connectors.http.delivery import RequestOutcome
from connectors.http.refusal import HttpRefusal

REPLY_BYTES: Final = 64 << 20  # of answers that flows made, all together


class KnownRequest(NamedTuple):
    """`answer`: what its sender was told, or will be."""

    until: float
    digest: bytes
    outcome: RequestOutcome
    answer: bytes


class KeyWindow:
    """The last `most` keys of the last `seconds`, in memory. A request that failed is forgotten: it may come again."""

    def __init__(self, seconds: float, most: int, time: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._time = time
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

    def keep(self, key: str, digest: bytes, outcome: RequestOutcome, answer: bytes) -> None:
        while len(self._known) >= self._most:
            self._forget_oldest()
        known = KnownRequest(self._time() + self._seconds, digest, outcome, answer)
        self._known[key] = known
        outcome.then(lambda: self._settled(key, known))

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


def _size(known: KnownRequest) -> int:
    return len(known.outcome.reply.body) if known.outcome.settled and known.outcome.reply is not None else 0
