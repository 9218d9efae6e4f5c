"""A request's events on their way, and what became of them."""

from collections.abc import Callable, Mapping, Sequence

from connectors.http.refusal import HttpReply
from walflow import Block, Codec, Frames, Outlet, Receipt, StreamId
from walflow.world import wall_ns


class NotTaken(Exception):
    """The flow takes no events now; none of this request was taken."""


class RestNotSent(Exception):
    """The rest of a request, whose sender was told that it is not safe."""


class RequestOutcome:
    """Of all events of a request. `cause`: why they failed; None: all are acked.
    `reply`: the answer that the flow made."""

    __slots__ = ("_waiting", "cause", "reply", "settled")

    def __init__(self) -> None:
        self.settled = False
        self.reply: HttpReply | None = None
        self.cause: BaseException | None = None
        self._waiting: list[Callable[[], None]] = []

    def then(self, call: Callable[[], None]) -> None:
        """Calls `call` once the events have an outcome: possibly at once."""
        if self.settled:
            call()
        else:
            self._waiting.append(call)

    def settle(self, cause: BaseException | None) -> None:
        self.settled = True
        self.cause = cause
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()


class Departures:
    """Sends blocks, and waits where the window is full."""

    def __init__(self, out: Outlet) -> None:
        self._out = out
        self._waiting: list[_Departure] = []
        out.on_ready(self._wake)

    def send(
        self,
        stream: StreamId,
        frames: Sequence[Frames],
        codec: Codec,
        meta: Mapping[str, object],
        settled: Callable[[Receipt], None],
        sent: Callable[[], None],
    ) -> None:
        """All of them are one request. `settled` is called once, when the last of them is; `sent` once all are in the
        flow. Raises NotTaken where none was sent: then `settled` is called before."""
        if len(frames) == 1:
            receipts = [Receipt(settled, frames[0].count)]
        else:
            sizes = [some.count for some in frames]
            receipts = Receipt(settled, sum(sizes)).split(sizes)
        now = wall_ns()
        blocks = [
            Block(stream, some, codec, receipt, ingest_ns=now, meta=meta)
            for some, receipt in zip(frames, receipts, strict=True)
        ]
        departure = _Departure(blocks, sent)
        if departure.go(self._out):
            return
        if not departure.sent_some:
            departure.give_up()
            raise NotTaken
        self._waiting.append(departure)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, []
        for departure in waiting:
            departure.give_up()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting += [departure for departure in waiting if not departure.go(self._out)]


class _Departure:
    __slots__ = ("_blocks", "_next", "_sent")

    def __init__(self, blocks: Sequence[Block], sent: Callable[[], None]) -> None:
        self._blocks = blocks
        self._next = 0
        self._sent = sent

    @property
    def sent_some(self) -> bool:
        return self._next > 0

    def go(self, out: Outlet) -> bool:
        """Sends the blocks. True once all are sent."""
        while self._next < len(self._blocks):
            if not out.send(self._blocks[self._next]):
                return False
            self._next += 1
        self._sent()
        return True

    def give_up(self) -> None:
        for block in self._blocks[self._next :]:
            block.receipt.fail(RestNotSent("the flow took no more events of the request"))
