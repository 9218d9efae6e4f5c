"""Answers of a server as events. A request's events are acked once those of its answer are."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from connectors.http.batches import Parcel
from connectors.http.media_types import MediaTypes
from walflow import Block, CannotEncode, Codec, Frames, Outlet, Receipt
from walflow.framing import frames_of
from walflow.world import wall_ns

Settled = Callable[[BaseException | None], None]


class ResponseEvents:
    """`send` gives the events of one answer to the flow."""

    def __init__(self, out: Outlet, types: MediaTypes | None) -> None:
        self._out = out
        self._types = types
        self._stream = out.stream({})
        self._open: set[Receipt] = set()
        self._room = asyncio.Event()
        out.on_ready(self._room.set)

    def __repr__(self) -> str:
        return f"<ResponseEvents of {self._out.name}>"

    def close(self) -> None:
        """What is not settled by now has no effect any more."""
        self._stream.close()
        for whole in list(self._open):
            self._forget(whole)

    def _forget(self, whole: Receipt) -> None:
        self._open.discard(whole)
        whole.withdraw()

    def _settled(self, settled: Settled, whole: Receipt) -> None:
        self._open.discard(whole)
        settled(whole.cause)

    async def send(
        self, body: bytes, content_type: str, meta: Mapping[str, object], problem: str, settled: Settled
    ) -> None:
        """Returns once they are in the flow. `problem`: why there is none. `settled` gets the first failure, or None.
        If this is cancelled, nothing was sent, and `settled` is not called."""
        codec = self._out.codec if self._types is None else self._types.codec_of(content_type)
        good, bad = self._judged(body, codec, problem)
        sizes = [*([good.count] if good is not None else []), *[1] * len(bad)]
        if not sizes:
            settled(None)
            return
        whole = Receipt(partial(self._settled, settled), sum(sizes))
        self._open.add(whole)
        parts = whole.split(sizes)
        if good is not None:
            try:
                await self._send(self._block(good, codec, meta, parts[0]))
            except BaseException:
                for part in parts:
                    part.withdraw()
                self._forget(whole)
                raise
        for (payload, reason), part in zip(bad, parts[len(parts) - len(bad) :], strict=True):
            data, framing = frames_of([payload])
            self._out.reject(self._block(Frames(data, 1, framing), codec, meta, part), reason)

    async def _send(self, block: Block) -> None:
        while not self._out.send(block):
            self._room.clear()
            await self._room.wait()

    def _block(self, frames: Frames, codec: Codec, meta: Mapping[str, object], receipt: Receipt) -> Block:
        return Block(self._stream.id, frames, codec, receipt, ingest_ns=wall_ns(), meta=meta)

    def _judged(self, body: bytes, codec: Codec, problem: str) -> tuple[Frames | None, Sequence[tuple[bytes, str]]]:
        if problem:
            return None, [(body, problem)]
        bad: list[tuple[bytes, str]] = []
        events: list[bytes] = []
        for event, refused in self._cut(body, codec):
            if refused is not None:
                bad.append((event, refused))
            else:
                events.append(event)
        if not events:
            return None, bad
        data, framing = frames_of(events)
        verdict = codec.validate(data, framing, len(events))
        return verdict.good, [*bad, *verdict.bad]

    def _cut(self, body: bytes, codec: Codec) -> Sequence[tuple[bytes, str | None]]:
        """Without a body, the event is null."""
        if self._out.framed:
            pieces = self._out.cut(body)
            return [
                (one.event or b"", one.refused) for one in pieces if one.event is not None or one.refused is not None
            ]
        if body:
            return [(body, None)]
        try:
            return [(codec.encode(None), None)]
        except CannotEncode as error:
            return [(b"", str(error))]


def meta_of(parcel: Parcel, status: int, headers: Mapping[str, Sequence[str]]) -> Mapping[str, object]:
    """As tremor has it: `$correlation` of the request's first event comes back."""
    meta: dict[str, object] = {"response": {"status": status, "headers": headers}}
    first = parcel.blocks[0]
    came = first.event_meta(0)
    if "correlation" in came:
        meta["correlation"] = came["correlation"]
    return meta
