"""What a pipeline that runs on Spark has made, as the daemon's blocks again. It stands behind the log of results."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

import msgspec

from walflow.codecs import JSON
from walflow.contract import Ports
from walflow.event import Block, Frames, Node
from walflow.framing import LINES
from walflow.operators.operator import Operator, OperatorContext


class Envelope(msgspec.Struct):
    """`pyspark_walflow.stage.run_enveloped` writes it. `value` of a rejected one is an error event."""

    port: str
    ingest_ns: int
    rejected: bool
    meta: dict[str, Any] | None
    value: msgspec.Raw


class _Error(msgspec.Struct):
    error: str
    at: str | None = None
    event: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_envelopes: Final = msgspec.json.Decoder(Envelope)
_error: Final = msgspec.json.Decoder(_Error)


class FromSpark(Operator):
    """It has no name in flow files: `walflow.plan.on_spark` puts it into a pipeline with
    `#!config engine = "spark"`."""

    example: ClassVar[str] = ""
    whole: ClassVar[bool] = False

    outputs: tuple[str, ...]

    def ports_used(self) -> Ports:
        return Ports(("in",), self.outputs)

    def node(self, place: OperatorContext) -> Node:
        return _Opened(place)


class _Opened:
    def __init__(self, place: OperatorContext) -> None:
        self._exits = {port: out.to for port, out in place.exits.items()}
        self._err = place.err

    def accept(self, block: Block) -> None:
        envelopes = [_envelopes.decode(payload) for payload in block.frames.payloads()]
        runs = [list(run) for _, run in groupby(enumerate(envelopes), lambda one: _alike(one[1]))]
        block.receipt.fork(len(runs) - 1)
        for run in runs:
            numbers, some = [number for number, _ in run], [one for _, one in run]
            if some[0].rejected:
                self._reject(_part(block, numbers, [b""] * len(some), some), some)
            else:
                values = [bytes(one.value) for one in some]
                self._exits[some[0].port].accept(_part(block, numbers, values, some))

    def _reject(self, block: Block, some: Sequence[Envelope]) -> None:
        errors = [_error.decode(one.value) for one in some]
        self._err.take(block, [one.error for one in errors], _Rejected(errors))


def _alike(one: Envelope) -> tuple[str, int, bool]:
    return one.port, one.ingest_ns, one.rejected


def _part(block: Block, numbers: Sequence[int], values: Sequence[bytes], some: Sequence[Envelope]) -> Block:
    metas = [one.meta or {} for one in some]
    frames = Frames(LINES.join(values), len(values), LINES)
    part = block.picked(numbers, frames, JSON, block.receipt.pick(numbers), metas if any(metas) else None)
    part.ingest_ns = some[0].ingest_ns
    return part


class _Rejected:
    def __init__(self, errors: Sequence[_Error]) -> None:
        self._errors = errors

    def at(self, number: int) -> str | None:
        return self._errors[number].at

    def event(self, number: int) -> bytes | None:
        event = self._errors[number].event
        return None if isinstance(event, msgspec.UnsetType) else bytes(event)

    def raw(self, number: int) -> bytes:
        """Spark has them, and has sent what it could."""
        return b""
