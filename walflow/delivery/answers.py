"""For a connector that answers each event with events, for example of a lookup:
the event is acked once its answer is."""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from walflow.codecs import JSON
from walflow.contract import Inlet, Outlet
from walflow.errors import CannotEncode
from walflow.event import Block, Frames
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.world import wall_ns


def meta_of_one(asked: Block) -> Mapping[str, object]:
    """The metadata of the event of a block that has one event."""
    return asked.event_meta(0)


class WaitingAnswer(NamedTuple):
    asked: Block
    frames: Frames
    metas: Sequence[Mapping[str, object]]


class AnswerEvents:
    """What the flow does not accept now waits. The events that were asked with are not acked meanwhile, so the window
    of their source limits how much that is."""

    def __init__(self, inlet: Inlet, out: Outlet) -> None:
        self._inlet = inlet
        self._out = out
        self._stream = out.stream({}) if out.linked else None
        self._waiting: deque[WaitingAnswer] = deque()
        self._open: dict[Receipt, Block] = {}  # answers that are not settled, and what was asked with
        self._sending = False
        if out.linked:
            out.on_ready(self._send_waiting)

    def __repr__(self) -> str:
        return f"<AnswerEvents of {self._inlet.name}, {len(self._waiting)} wait, {len(self._open)} are not settled>"

    def give(self, asked: Block, values: Sequence[object], metas: Sequence[Mapping[str, object]]) -> None:
        """Answers a block of one event. `metas`: of each value; `$correlation` of the event is added. Where nothing
        is linked to `out`, or there are no values, the event is acked at once."""
        if self._stream is None or not values:
            self._inlet.ack(asked)
            return
        try:
            data = LINES.join([JSON.encode(value) for value in values])
        except CannotEncode as error:
            self._inlet.reject(asked, f"the answer is no event: {error}")
            return
        came = meta_of_one(asked)
        shared = {"correlation": came["correlation"]} if "correlation" in came else {}
        metas = [{**shared, **one} for one in metas]
        self._waiting.append(WaitingAnswer(asked, Frames(data, len(values), LINES), metas))
        self._send_waiting()

    def close(self, reason: BaseException) -> None:
        """The run is over. What is not settled by now fails,
        and what becomes of its answers has no effect any more."""
        asked = [*(waiting.asked for waiting in self._waiting), *self._open.values()]
        self._waiting.clear()
        if self._stream is not None:
            self._stream.close()
        for receipt in list(self._open):
            self._forget(receipt)
        for one in asked:
            self._inlet.fail(one, reason)

    def _send_waiting(self) -> None:
        if self._sending:  # an answer may settle while it is being sent
            return
        self._sending = True
        try:
            while self._waiting and self._send(self._waiting[0]):
                self._waiting.popleft()
        finally:
            self._sending = False

    def _send(self, answer: WaitingAnswer) -> bool:
        assert self._stream is not None
        frames, metas = answer.frames, answer.metas
        receipt = Receipt(partial(self._settled, answer.asked), frames.count)
        block = Block(self._stream.id, frames, JSON, receipt, ingest_ns=wall_ns(), meta={}, event_metas=metas)
        self._open[receipt] = answer.asked
        if self._out.send(block):
            return True
        self._forget(receipt)
        return False

    def _forget(self, receipt: Receipt) -> None:
        self._open.pop(receipt, None)
        receipt.withdraw()

    def _settled(self, asked: Block, receipt: Receipt) -> None:
        self._open.pop(receipt, None)
        if receipt.cause is None:
            self._inlet.ack(asked)
        else:
            self._inlet.fail(asked, receipt.cause)
