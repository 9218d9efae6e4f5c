"""A compiled region: what it is given, and what it says of a block."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from walflow.compile.listing import printable
from walflow.compile.reads import BlockDecoder, Decoded
from walflow.diagnostics import Span
from walflow_kernel.moment import Moment
from walflow_kernel.state import Cell, Room, State, snapshot
from walflow_kernel.windows.frame import Frame, open_frames, opened_at
from walflow_kernel.windows.ticks import earliest

LONGEST_SHOWN: Final = 80  # characters of a constant


class BlockCall(NamedTuple):
    """What all events of a block share. `kept(n)` is event n for an exit at which other events are new. `positions`:
    the position of each event, for random numbers."""

    moment: Moment
    positions: Sequence[int]
    meta: dict[str, object]
    metas: Sequence[Mapping[str, object]] | None
    kept: Callable[[int], object]


NO_EVENT: Final = -1  # the number of a row that time has caused, and no event of the block


class Rows(NamedTuple):
    """What leaves by one exit. `numbers`: for each row the event that it was made of; they never decrease. `values`
    is None if all events are unchanged, `metas` is None if no metadata has changed."""

    numbers: Sequence[int]
    values: Sequence[object] | None
    metas: Sequence[Mapping[str, object]] | None = None


class Refusal(NamedTuple):
    """`line`: of the generated source."""

    number: int
    reason: str
    line: int


class BlockOutcome(NamedTuple):
    """`dropped`: how often an event came to a place where no select took it."""

    rows: Mapping[str, Rows]
    refused: Sequence[Refusal]
    dropped: int


@dataclass(frozen=True, eq=False)
class Compiled:
    name: str
    exits: Sequence[str]
    reader: BlockDecoder
    source: str
    spans: Sequence[Span | None]  # of each line of the source
    constants: Mapping[str, object]
    reads_meta: bool
    draws: bool
    asks: bool  # what time it is
    weighs: bool  # what it makes, as that may be much larger than what came
    made: frozenset[str]  # exits by which changed events leave
    repeated: frozenset[str]  # exits by which one event may leave more than once
    begins: Mapping[str, Cell]  # the first state of each node that keeps state
    windowed: Sequence[str]  # those that are windows
    ticking: Sequence[str]  # those of them that time closes
    intervals: Mapping[str, Sequence[int | None]]  # of each of their windows, None for one that time does not close
    _run: Any
    names: Mapping[str, object]  # that the source has
    _weighing: "Callable[[], Compiled] | None" = None

    @cached_property
    def weighing(self) -> "Compiled":
        """The same, for events so large that what it makes of one may be too large."""
        return self if self._weighing is None else self._weighing()

    @property
    def has_state(self) -> bool:
        return bool(self.begins)

    def new_state(self) -> State:
        return snapshot(self.begins)

    def run(
        self,
        decoded: Decoded,
        call: BlockCall,
        state: State | None = None,
        room: Room | None = None,
        *,
        flush: bool = False,
    ) -> BlockOutcome:
        """Changes the state. A region that has state must be given one. `room`: it may stop before the end of the
        block, and then says where. Without, it looks at all of it. `flush`: open windows are closed first."""
        found, more, dropped = self._run(decoded.numbers, decoded.events, *call, state, room, flush)
        end = None if room is None else room[1]
        refused = [Refusal(number, reason, 0) for number, reason in decoded.refused if end is None or number < end]
        rows = {exit: Rows(*pair) for exit, pair in zip(self.exits, found, strict=True)}
        return BlockOutcome(rows, [*refused, *(Refusal(*one) for one in more)], dropped)

    def tick(self, state: State, now_ns: int, room: Room | None = None) -> BlockOutcome:
        """What leaves because of time alone: no later event is older than `now_ns`. The numbers of the rows are
        NO_EVENT. `room`: it may stop where the results are that large; then `due` says that there is more."""
        return self.run(Decoded((), ()), BlockCall(Moment(now_ns), (), {}, None, _nothing_kept), state, room)

    def flush(self, state: State, now_ns: int, room: Room | None = None) -> BlockOutcome:
        """As if each open window were closed. `room`: it may stop where the results are that large;
        then `has_groups`."""
        call = BlockCall(Moment(now_ns), (), {}, None, _nothing_kept)
        return self.run(Decoded((), ()), call, state, room, flush=True)

    def has_groups(self, state: State) -> bool:
        """Whether a window is open, or one behind it."""
        return any(state[place][0]["groups"] for place in self.windowed)

    def open_windows(self, state: State) -> list[Frame]:
        """Those that hold events."""
        return [frame for place in self.windowed for frame in open_frames(state[place][0])]

    def due(self, state: State) -> int | None:
        """When `tick` has something to do, in nanoseconds; None: not before an event comes."""
        return earliest([waiting for place in self.ticking for waiting in state[place][0]["waiting"]])

    def oldest(self, state: State) -> int | None:
        """When the oldest window by interval opened that is still open, in nanoseconds; None: there is none."""
        found = [opened_at(state[place][0], self.intervals[place]) for place in self.ticking]
        return min((opened for opened in found if opened is not None), default=None)

    @property
    def listing(self) -> str:
        """The source, with the values of its names."""
        shown = [f"# {name} = {ascii(value)[:LONGEST_SHOWN]}" for name, value in self.constants.items()]
        return "\n".join([f"# {printable(self.name)}", *shown, self.source])

    def span(self, line: int) -> Span | None:
        """The place in a flow file that a line of the source comes from."""
        return self.spans[line - 1] if 0 < line <= len(self.spans) else None


def _nothing_kept(number: int) -> object:
    raise AssertionError("no event came")
