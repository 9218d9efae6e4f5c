"""Answers that the flow makes: an event that comes back is the answer of its request, or a part of it.

Each event of a request has the request's number in its metadata, `$http_server.request_id`. What comes back with that
number is kept until all of it is here, and then sent as one answer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from connectors.http.batches import EVENT_TYPES, TYPES
from connectors.http.body import Kind
from connectors.http.delivery import RequestOutcome
from connectors.http.media_types import MediaTypes
from connectors.http.refusal import HttpRefusal, HttpReply, RefusedEvent
from connectors.http.reply_head import BadReply, ReplyHead, head_of, request_of
from connectors.http.request import HttpRequest
from connectors.http.server import HttpServerKeys
from walflow import Block, CannotDecode, CannotEncode, Codec, Inlet, Outlet, Timer
from walflow.world import dice

NO_ANSWER: Final = "the events are taken, but the flow gave no answer"


class AwaitedReply:
    """One request: `expected` events were sent, `parts` are what came back. `acked`: the source half has all acks."""

    __slots__ = (
        "acked",
        "codec",
        "deadline",
        "expected",
        "head",
        "kind",
        "number",
        "outcome",
        "parts",
        "refused",
        "request",
        "size",
    )

    def __init__(
        self, number: int, request: HttpRequest, kind: Kind, expected: int, outcome: RequestOutcome, deadline: float
    ) -> None:
        self.number = number
        self.request = request
        self.kind: Kind = kind
        self.expected = expected
        self.outcome = outcome
        self.deadline = deadline
        self.refused: Sequence[RefusedEvent] = ()
        self.acked = False
        self.head: ReplyHead | None = None  # of the first event that came back
        self.codec: Codec | None = None  # the one that its content type wants, where that decides
        self.parts: list[bytes] = []
        self.size = 0

    def __repr__(self) -> str:
        return f"<AwaitedReply {self.number}, {len(self.parts)} of {self.expected} events>"


class FlowReplies:
    """All requests that wait for their answers. `refused` makes an answer of a refusal."""

    def __init__(
        self,
        config: HttpServerKeys,
        inlet: Inlet,
        out: Outlet,
        types: MediaTypes | None,
        refused: Callable[[HttpRefusal], HttpReply],
    ) -> None:
        self._config = config
        self._inlet = inlet
        self._out = out
        self._types = types
        self._refused = refused
        self._taken = config.answer == "taken"
        self._seconds = config.ack_timeout / 1e9
        # Events of an earlier run may come back, from a log. A random beginning tells their numbers from ours.
        self._next = dice().getrandbits(52)
        self._awaited: dict[int, AwaitedReply] = {}  # the oldest first
        self._timer: Timer | None = None
        self._orphaned = inlet.counter("orphaned_events_total")

    def __repr__(self) -> str:
        return f"<FlowReplies {len(self._awaited)} requests>"

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._awaited.clear()

    def expect(
        self,
        request: HttpRequest,
        kind: Kind,
        events: int,
        outcome: RequestOutcome,
        refused: Sequence[RefusedEvent],
    ) -> AwaitedReply:
        """`refused`: events of it that are bad, and were not sent."""
        number = self._next
        self._next += 1
        deadline = self._out.scheduler.time() + self._seconds
        awaited = AwaitedReply(number, request, kind, events, outcome, deadline)
        awaited.refused = refused
        self._awaited[number] = awaited
        if self._timer is None:
            self._timer = self._out.scheduler.call_later(self._seconds, self._expire)
        return awaited

    # what comes back

    def accept(self, block: Block) -> None:
        """It is acked before its answer is sent: the acks of a request's events may be what its answer waits for."""
        messages = self._inlet.messages(block)
        touched: dict[int, AwaitedReply] = {}
        if block.event_metas is None:
            reasons = [self._take(block.timed_codec, messages, block.meta, touched)]
        else:
            pairs = zip(messages, block.event_metas, strict=True)
            reasons = [
                self._take(block.timed_codec, [message], {**block.meta, **meta}, touched) for message, meta in pairs
            ]
        self._settle(block, reasons)
        for awaited in touched.values():
            if len(awaited.parts) >= awaited.expected and (awaited.acked or self._taken):
                self._finish(awaited)

    def _take(
        self, came_in: Codec, messages: Sequence[bytes], meta: Mapping[str, object], touched: dict[int, AwaitedReply]
    ) -> str:
        """Why they are no answer, or "". `touched`: the requests that have a part of their answers now."""
        awaited = self._awaited.get(request_of(meta))
        if awaited is None:
            self._orphaned.value += len(messages)
            return ""
        try:
            if awaited.head is None:
                awaited.head = head_of(meta)
                if self._types is not None:
                    awaited.codec = self._types.codec_of(awaited.head.content_type)
            if awaited.codec is not None:
                messages = [_recoded(message, came_in, awaited.codec) for message in messages]
            awaited.parts += messages
            self._keep(awaited, sum(map(len, messages)))
            touched[awaited.number] = awaited
        except BadReply as bad:
            self._answer(awaited, self._refused(HttpRefusal(500, f"the flow's answer cannot be sent: {bad}")))
            return f"no answer to a request: {bad}"
        except HttpRefusal as refusal:
            self._answer(awaited, self._refused(refusal))
        return ""

    def _keep(self, awaited: AwaitedReply, size: int) -> None:
        """Raises BadReply and HttpRefusal."""
        awaited.size += size
        if awaited.size > self._config.max_body_bytes:
            raise BadReply(f"it has more than max_body_bytes, {self._config.max_body_bytes}")
        assert awaited.request.reading is not None
        awaited.request.reading.add(size)

    def _settle(self, block: Block, reasons: Sequence[str]) -> None:
        if not any(reasons):
            self._inlet.ack(block)
        elif len(reasons) == 1:
            self._inlet.reject(block, reasons[0])
        else:
            for part, reason in zip(block.split([1] * block.frames.count), reasons, strict=True):
                if reason:
                    self._inlet.reject(part, reason)
                else:
                    self._inlet.ack(part)

    # what becomes of the request

    def settled(self, awaited: AwaitedReply, cause: BaseException | None) -> None:
        """Its events are acked, or have failed."""
        awaited.acked = True
        if cause is not None:
            self._forget(awaited)
            if not awaited.outcome.settled:
                awaited.outcome.settle(cause)
        elif awaited.number not in self._awaited:
            self._too_late(awaited)
        elif len(awaited.parts) >= awaited.expected or not self._inlet.upstream.behind_log:
            self._finish(awaited)  # without a log in between, nothing comes behind the last ack

    def _finish(self, awaited: AwaitedReply) -> None:
        if awaited.number not in self._awaited:  # its acks have finished it
            return
        if awaited.head is None:
            self._answer(awaited, self._refused(HttpRefusal(500, NO_ANSWER)))
            return
        body, content_type = self._body(awaited)
        status, headers, said_type = awaited.head
        if awaited.refused:
            numbers = ", ".join(str(event.number) for event in awaited.refused[:100])
            headers += f"Refused-Events: {numbers}\r\n"
        self._answer(awaited, HttpReply(status, body, headers, content_type=said_type or content_type))

    def _body(self, awaited: AwaitedReply) -> tuple[bytes, str]:
        codec = (awaited.codec or self._out.codec).name
        single = EVENT_TYPES.get(codec, "application/octet-stream")
        if self._types is not None and awaited.codec is not None:
            single = self._types.type_of(awaited.codec)
        if self._inlet.encoded or codec not in EVENT_TYPES:
            return b"".join(awaited.parts), single if awaited.codec is not None else "application/octet-stream"
        if awaited.kind == "array":
            return b"[" + b",".join(awaited.parts) + b"]", TYPES["array"]
        if awaited.kind == "lines" or len(awaited.parts) > 1:
            lines = [
                part.replace(b"\n", b" ").replace(b"\r", b" ") if codec == "json" else part for part in awaited.parts
            ]
            return b"".join(line + b"\n" for line in lines), TYPES["lines"] if codec == "json" else single
        return awaited.parts[0], single

    def _answer(self, awaited: AwaitedReply, reply: HttpReply) -> None:
        if self._forget(awaited):
            awaited.outcome.reply = reply
            awaited.outcome.settle(None)

    def _too_late(self, awaited: AwaitedReply) -> None:
        if not awaited.outcome.settled:
            awaited.outcome.reply = self._refused(HttpRefusal(504, f"{NO_ANSWER} within {self._seconds:g} s"))
            awaited.outcome.settle(None)

    def _forget(self, awaited: AwaitedReply) -> bool:
        """Whether the reply was awaited. It is awaited no more."""
        if self._awaited.pop(awaited.number, None) is None:
            return False
        awaited.request.release()
        awaited.parts = []
        return True

    def _expire(self) -> None:
        self._timer = None
        now = self._out.scheduler.time()
        while self._awaited:
            oldest = next(iter(self._awaited.values()))
            if oldest.deadline > now:
                self._timer = self._out.scheduler.call_later(oldest.deadline - now, self._expire)
                return
            self._forget(oldest)
            if oldest.acked:  # if not, its connection says so, and its key waits for the acks
                self._too_late(oldest)


def _recoded(message: bytes, came_in: Codec, wanted: Codec) -> bytes:
    """Raises BadReply."""
    if came_in is wanted and wanted.transparent:
        return message
    try:
        return wanted.encode(came_in.decode(message))
    except (CannotDecode, CannotEncode) as error:
        raise BadReply(str(error)) from None
