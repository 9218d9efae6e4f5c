"""The state of a bucket, and what it makes of some rows: as rows of Spark's,
with where each stands and when it was made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.region import Column, RefusedRow, RowBlock
from pyspark_walflow.stage import ROWS
from walflow_kernel.kept import NotAState, pack, unpack
from walflow_kernel.shipped import Keeping
from walflow_kernel.state import State

_arrow: Any = pa

BEFORE: Final = -1  # the anchor of what comes of no event of these rows: the event before them


@dataclass
class BucketState:
    """`cells`: of the pipeline's nodes. `position`: of the last event; `nth`: how many rows it has made, by port.
    `time`: no later event is older."""

    cells: State
    position: int | None = None
    time: int = 0
    nth: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def new(cls, keeping: Keeping) -> "BucketState":
        return cls(unpack(keeping.begins))

    @classmethod
    def of(cls, data: bytes, keeping: Keeping, source: str) -> "BucketState":
        """Raises WalflowError for a state of another pipeline, or of another version."""
        try:
            identity, cells, position, time, nth = unpack(data)
        except NotAState as error:
            raise WalflowError(
                f"pipeline {source}: the checkpoint has a state that cannot be read: {error}"
            ) from None
        if identity != keeping.identity:
            raise WalflowError(
                f"pipeline {source}: the checkpoint has the state of another pipeline, or of this one before it was "
                "changed: give this one a checkpoint of its own, or put back what was changed"
            )
        return cls(cells, position, time, nth)

    def packed(self, keeping: Keeping) -> bytes:
        return pack((keeping.identity, self.cells, self.position, self.time, self.nth))


class LeavingPort(NamedTuple):
    """Of one port. `anchors`: for each row the number of the event that it is told with, or `BEFORE`; `times`: when
    time has caused it, None for what an event has made."""

    anchors: list[int]
    times: list[int | None]
    values: list[object]
    metas: list[str | None]


class RefusedAt(NamedTuple):
    anchor: int
    time: int | None
    row: RefusedRow


@dataclass
class BucketResults:
    """Of some rows, in the order in which they were made."""

    rows: RowBlock | None
    metas: Sequence[str | None]  # as they came
    ports: dict[str, LeavingPort] = field(default_factory=dict[str, LeavingPort])
    refused: list[RefusedAt] = field(default_factory=list[RefusedAt])

    def port(self, name: str) -> LeavingPort:
        if name not in self.ports:
            self.ports[name] = LeavingPort([], [], [], [])
        return self.ports[name]


class Told:
    """Positions, and what stands behind what at one position. `count`: of the rows that `results` are of."""

    def __init__(
        self, state: BucketState, results: BucketResults, columns: dict[str, Column] | None, count: int
    ) -> None:
        self._state = state
        self._times = results.rows.times if results.rows is not None else ()
        self._positions: Sequence[int | None] = () if columns is None else columns["position"].to_pylist()
        self._last = count - 1  # BEFORE, where there are no events
        self._seen: dict[str, tuple[int, int]] = {}  # by port: the last anchor, and how many rows it has

    def rows(
        self,
        port: str,
        counted_as: str,
        anchors: Sequence[int],
        times: Sequence[int | None],
        metas: Sequence[str | None],
        value: Column,
        error: Column,
    ) -> pa.RecordBatch:
        nth: list[int] = []
        before, count = self._seen.get(counted_as) or (BEFORE, self._state.nth.get(counted_as, 0))
        for anchor in anchors:
            if anchor != before:
                before, count = anchor, 0
            nth.append(count)
            count += 1
        self._seen[counted_as] = before, count
        positions = [self._state.position if anchor < 0 else self._positions[anchor] for anchor in anchors]
        stamps = [self._times[anchor] if time is None else time for anchor, time in zip(anchors, times, strict=True)]
        arrays: list[Column] = [
            _arrow.repeat(port, len(anchors)),
            pa.array(positions, pa.int64()),
            pa.array(nth, pa.int32()),
            pa.array(stamps, pa.int64()),
            pa.array(metas, pa.string()),
            value,
            error,
        ]
        batch: pa.RecordBatch = _arrow.RecordBatch.from_arrays(arrays, schema=ROWS)
        return batch

    def end(self) -> None:
        state = self._state
        if self._last >= 0:
            state.position, state.nth = self._positions[self._last], {}
        state.nth |= {port: count for port, (anchor, count) in self._seen.items() if anchor == self._last}
