"""A select with windows, or with `group by` -> statements.

Of an event: which group it belongs to, by the text of its values; what the aggregates are given of it; then the
group's frame takes it (`walflow_kernel.windows.frame`). The usual aggregates are in line. What a closed window gives
is made by a function of its own, one for each window of the select, as events and time close windows alike.

    w2 = K0.get(p0) if type(p0) is str else None
    if w2 is None:
        w2 = O0([p0])
    w2[2] += 1
    w2[4] += p1
    if w2[2] >= c3:
        D0_0(i, w2, None)
        if holds_nothing(w2):
            forget(w2, G0, K0)
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from walflow.compile.effects import Effects, ScriptExits
from walflow.compile.expressions import Base, Here, checked
from walflow.compile.listing import Listing
from walflow.compile.program import AggregateInput, FrameOf, TickedOf, VerdictOf, WholeTerm, WindowsOf, walk
from walflow.diagnostics import Span
from walflow_kernel.state import Cell, cell as cell_of
from walflow_kernel.windows import groups
from walflow_kernel.windows.frame import COUNT, FILL, HEARD, NEXT, NEXT_TICK, SLOTS
from walflow_kernel.windows.measure import AFTER, BEFORE, OPEN
from walflow_kernel.windows.ticks import RUN_BYTES, ticked_cell

Result = Callable[[Here], None]
Failing = Callable[[Base], AbstractContextManager[None]]
"""What stands within may fail, without an event. It is given the local of the metadata."""

RESULT_BYTES: Final = 256  # of a window, beside what its aggregates have collected: an estimate


class _Grouped(NamedTuple):
    """Code: the values of `group by`; what finds the frame of values that were seen before, None where nothing does;
    and the local of the group's array, where it is asked for."""

    values: str
    known: str | None
    array: str


class WindowNames(NamedTuple):
    """Of one select in the code: its number, and the local of its cell."""

    number: int
    cell: str

    @property
    def groups(self) -> str:
        return f"G{self.number}"

    @property
    def known(self) -> str:
        return f"K{self.number}"

    @property
    def owner(self) -> str:
        return f"Q{self.number}"

    @property
    def open(self) -> str:
        return f"O{self.number}"

    def waiting(self, frame: int) -> str:
        return f"A{self.number}_{frame}"

    def close(self, frame: int) -> str:
        return f"D{self.number}_{frame}"

    @property
    def tick(self) -> str:
        return f"T{self.number}"


def begin_of(of: WindowsOf) -> dict[str, object]:
    """What a select with windows keeps at first."""
    return {"groups": {}, "waiting": [[] for _ in of.frames], "late": 0}


def begin_with(of: VerdictOf | TickedOf) -> Callable[[], Cell]:
    """Makes the state of a window anew."""
    return partial(ticked_cell if isinstance(of, TickedOf) else cell_of, of.begins)


class WindowCode:
    """One select at a place. `make` writes expressions. What is called `result` writes the target, `having` and what
    follows them."""

    def __init__(self, of: WindowsOf, place: str, number: int, cell: str, make: Effects) -> None:
        self.of = of
        self.place = place
        self.names = WindowNames(number, cell)
        self._make = make
        make.table.names[self.names.owner] = groups.Known()

    @property
    def ticks(self) -> bool:
        """Time alone may close one of its windows."""
        return any(frame.timed for frame in self.of.frames)

    @property
    def intervals(self) -> list[int | None]:
        """Of each window, None for one that time alone does not close."""
        return [None if frame.measure is not None else frame.interval for frame in self.of.frames]

    @property
    def _listing(self) -> Listing:
        return self._make.listing

    # ---- in the head of the function

    def head(self, listing: Listing) -> None:
        names = self.names
        if not self.of.frames:
            return
        listing.put(f'{names.groups} = {names.cell}[0]["groups"]')
        listing.put(f"{names.known} = known_of({names.owner}, {names.groups})")
        for at in range(len(self.of.frames)):
            listing.put(f'{names.waiting(at)} = {names.cell}[0]["waiting"][{at}]')

    def functions(self, result: Result, failing: Failing) -> list[Listing]:
        """What opens a group, what closes each of its windows,
        and what a tick does where there is a script for it."""
        outer = self._make.listing
        found = [self._opening()]
        for at in reversed(range(len(self.of.frames))):
            self._make.listing = Listing(0)
            self._closing(at, result)
            found.append(self._make.listing)
        tick = self.of.frames[0].tick
        if tick is not None:
            self._make.listing = Listing(0)
            self._ticking(tick, failing)
            found.append(self._make.listing)
        self._make.listing = outer
        return found

    def _opening(self) -> Listing:
        listing, names = Listing(0), self.names
        with listing.block(f"def {names.open}(values):"):
            listing.put("group = with_text(values)", self.of.span)
            listing.put(f"found = {names.groups}.get(group[-1])")
            with listing.block("if found is None:"):
                most, bound = self._make.table.constant(self.of.most), self._make.table.constant(self.of.max_bytes)
                listing.put(f"check_room({names.groups}, {most}, {names.cell}, {bound})", self.of.span)
                frame = "None"
                for _ in self.of.frames:
                    frame = f"[group, {frame}, 0, 0{self._start()}]"
                listing.put(f"found = {names.groups}[group[-1]] = {frame}")
                listing.put(f"{names.cell}[1] += group_bytes(group, {self._frame_bytes})")
            listing.put(f"remember(found, {names.known})")
            listing.put("return found")
        return listing

    @property
    def _frame_bytes(self) -> int:
        slots = sum(len(one()) for one in self.of.start)
        return groups.bytes_of_frames(len(self.of.frames), slots)

    @property
    def _growing(self) -> list[AggregateInput]:
        return [one for one in self.of.inputs if one.aggregate.held is not None]

    def _held(self, frame: str) -> str:
        """Code: the bytes of what the slots of a frame have collected."""
        parts = [f"{self._make.table.add('f', one.aggregate.held)}({frame}, {one.at})" for one in self._growing]
        return " + ".join(parts)

    def forget(self, frame: str) -> str:
        names = self.names
        return f"forget({frame}, {names.groups}, {names.known}, {names.cell}, {self._frame_bytes})"

    def _start(self) -> str:
        return "".join(f", *{self._make.table.add('f', one)}()" for one in self.of.start)

    def _closing(self, at: int, result: Result) -> None:
        frame, listing, make = self.of.frames[at], self._listing, self._make
        with listing.block(f"def {self.names.close(at)}(i, w, measures):"):
            listing.put("nonlocal dropped")
            listing.comment(frame.span)
            meta = make.temporary("m")
            listing.put(f"{meta} = {{}}")
            group = make.temporary("g")
            listing.put(f"{group} = w[0]")
            here = Here(Base(None), Base(meta))
            here.group, here.window = Base(group), Base(make.table.constant(frame.name))
            here.frame, here.groups = "w", self.names.groups
            listing.put(f"room[0] -= {RESULT_BYTES}")
            if self._growing:
                listing.put(f"h = {self._held('w')}")
                listing.put("room[0] -= h")
            result(here)
            if at + 1 < len(self.of.frames):
                self._feed(at + 1)
            listing.put(f"w[{COUNT}] = 0" if frame.verdict else f"w[{COUNT}] = w[{FILL}] = 0")
            if self._growing:
                listing.put(f"{self.names.cell}[1] -= h")
            if self.of.start:
                listing.put(f"w[{SLOTS}:] = [{self._start()[2:]}]")

    def _ticking(self, tick: VerdictOf, failing: Failing) -> None:
        """A script that fails runs again once an event of its group has come."""
        listing, make, names = self._listing, self._make, self.names
        kept = f"w[{FILL}]"
        with listing.block(f"def {names.tick}(i, w):"):
            listing.put("nonlocal dropped")
            listing.put(f"room[0] -= {RUN_BYTES}")
            listing.put(f"{kept}[{NEXT_TICK}] = 0")
            meta = make.temporary("m")
            listing.put(f"{meta} = {{}}")
            with failing(Base(meta)):
                span = self.of.frames[0].span
                verdict = self._run(kept, tick, span, Here(Base("None"), Base(meta)))
                with listing.block(f"if {verdict} == {OPEN}:"):
                    listing.put(f"wait_on({names.waiting(0)}, w, now.ingest_ns)")
                with listing.block("else:"):
                    self._closed_by_script("w", "None")

    def _closed_by_script(self, frame: str, measures: str) -> None:
        """The state begins anew."""
        listing, names = self._listing, self.names
        listing.put(f"{names.close(0)}(i, {frame}, {measures})")
        listing.put(f"{names.cell}[1] -= {frame}[{FILL}][1]")
        listing.put(f"{frame}[{FILL}] = 0")
        with listing.block(f"if holds_nothing({frame}):"):
            listing.put(self.forget(frame))

    def _feed(self, at: int) -> None:
        """What this window held goes into the one behind it."""
        frame, listing, table = self.of.frames[at], self._listing, self._make.table
        listing.put(f"p = w[{NEXT}]")
        span = self.of.span
        if frame.interval is not None:
            now = "at" if frame.measure is None else f"measures[{at}]"
            self._due("p", at, now, "measures")
        if self._growing:
            listing.put(f"{self.names.cell}[1] -= {self._held('p')}")
        for one in self.of.inputs:
            listing.put(f"{table.add('f', one.aggregate.merge)}(p, {one.at}, w)", span)
        if self._growing:
            listing.put(f"{self.names.cell}[1] += {self._held('p')}")
        listing.put(f"p[{COUNT}] += w[{COUNT}]")
        if frame.size is not None:
            listing.put(f"p[{FILL}] += {'1' if frame.measure is None else f'measures[{at}]'}")
            with listing.block(f"if p[{FILL}] >= {table.constant(frame.size)}:"):
                listing.put(f"{self.names.close(at)}(i, p, measures)")

    def _due(self, frame: str, at: int, now: str, measures: str) -> None:
        """Before an event goes in: a window that is due is closed, a new one opens."""
        listing, of = self._listing, self.of.frames[at]
        interval = self._make.table.constant(of.interval)
        with listing.block(f"if {frame}[{FILL}] <= {now}:"):
            with listing.block(f"if {frame}[{COUNT}]:"):
                listing.put(f"{self.names.close(at)}(i, {frame}, {measures})")
            listing.put(f"{frame}[{FILL}] = {now} + {interval}")
            if of.measure is None:
                listing.put(f"wait({self.names.waiting(at)}, {frame})")
        if of.measure is not None and at == 0:
            with listing.block(f"elif {now} < {frame}[{FILL}] - {interval}:"):
                listing.put(f'{self.names.cell}[0]["late"] += 1')

    # ---- of an event

    def event(self, here: Here, result: Result) -> None:
        """`result`: of a select without windows, for each group of the event."""
        with self._grouped(here) as group:
            inside = replace(here, group=Base(group.array))
            if not self.of.frames:
                result(inside)
                return
            measures = [self._measure(frame, inside) for frame in self.of.frames]
            self._added(group, measures, self._values(inside), inside)

    @contextmanager
    def _grouped(self, here: Here) -> Generator[_Grouped]:
        """What stands within runs for each group of the event."""
        keys, make, listing = self.of.keys, self._make, self._listing
        span = self.of.span
        if any(key.each for key in keys):
            parts = ", ".join(f"({make.atom(key.value, here)}, {key.each})" for key in keys)
            values = make.temporary("g")
            with listing.block(f"for {values} in combined(({parts},)):", span):
                yield _Grouped(values, None, self._group(values))
            return
        names = [make.atom(key.value, here) for key in keys]
        values = f"[{', '.join(names) or 'None'}]"
        strings = " and ".join(f"type({name}) is str" for name in names)
        key = names[0] if len(names) == 1 else f"({', '.join(names)})" if names else "None"
        known = f"{self.names.known}.get({key})"
        yield _Grouped(values, f"{known} if {strings} else None" if strings else known, self._group(values))

    def _group(self, values: str) -> str:
        """The local of the group's array, where it is asked for."""
        if not self._asks_for_group():
            return ""
        group = self._make.temporary("g")
        self._listing.put(f"{group} = with_text({values})", self.of.span)
        return group

    def _asks_for_group(self) -> bool:
        terms = [one.value for one in self.of.inputs]
        asks = any(isinstance(part, WholeTerm) and part.root == "group" for term in terms for part in walk(term))
        return asks or not self.of.frames

    def _measure(self, frame: FrameOf, here: Here) -> str:
        if frame.measure is None:
            return "None"
        name = self._make.atom(frame.measure, here)
        quick = f"{name} if type({name}) is int and 0 <= {name}"
        return self._make.put(f"{quick} else measured({name})", frame.measure.span).name

    def _values(self, here: Here) -> list[str]:
        """What the aggregates are given; of one expression once."""
        known: dict[tuple[int, bool], str] = {}
        for one in self.of.inputs:
            key = id(one.value), one.takes_number
            if key not in known:
                known[key] = self._number(one, here) if one.takes_number else self._make.atom(one.value, here)
        return [known[id(one.value), one.takes_number] for one in self.of.inputs]

    def _number(self, one: AggregateInput, here: Here) -> str:
        make, span = self._make, one.value.span
        found = make.operand(one.value, here)
        name = found.name
        whole = f"type({name}) is int" + (f" and LEAST <= {name} <= MOST" if found.steps is not None else "")
        full = f"number({make.table.constant(one.name)}, {checked(found)})"
        return make.put(f"{name} if {whole} or type({name}) is float else {full}", span).name

    def _added(self, group: "_Grouped", measures: Sequence[str], values: Sequence[str], here: Here) -> None:
        make, listing, names, table = self._make, self._listing, self.names, self._make.table
        first = self.of.frames[0]
        frame = make.temporary("w")
        if group.known is None:
            listing.put(f"{frame} = {names.open}({group.values})", self.of.span)
        else:
            listing.put(f"{frame} = {group.known}")
            with listing.block(f"if {frame} is None:", self.of.span):
                listing.put(f"{frame} = {names.open}({group.values})", self.of.span)
        handed = f"({', '.join(measures)},)" if any(one.measure for one in self.of.frames[1:]) else "None"
        verdict = None if first.verdict is None else self._verdict(frame, first.verdict, first.span, here)
        if first.interval is not None:
            self._due(frame, 0, "at" if first.measure is None else measures[0], handed)
        if self._growing:
            bound = table.constant(self.of.max_bytes)
            full = f"{names.cell}[1] >= {bound}"
            if first.size is not None:  # the event that closes its window makes room
                used = f"{frame}[{COUNT}] + 1" if first.measure is None else f"{frame}[{FILL}] + {measures[0]}"
                full += f" and {used} < {table.constant(first.size)}"
            with listing.block(f"if {full}:"):
                listing.put(f"raise too_large({bound})", self.of.span)
        for one, value in zip(self.of.inputs, values, strict=True):
            if one.aggregate.check is not None:
                span = one.value.span
                listing.put(f"{table.add('f', one.aggregate.check)}({frame}, {one.at}, {value})", span)
        if verdict is not None:
            with listing.block(f"if {verdict} == {BEFORE} and {frame}[{COUNT}]:"):
                listing.put(f"{names.close(0)}(i, {frame}, {handed})")
        listing.put(f"{frame}[{COUNT}] += 1")
        for one, value in zip(self.of.inputs, values, strict=True):
            self._add(one, frame, value)
        if verdict is not None:
            with listing.block(f"if {verdict} == {AFTER}:"):
                self._closed_by_script(frame, handed)
            if first.tick is not None:
                with listing.block(f"elif {frame}[{FILL}][{HEARD}] != at:"):
                    listing.put(f"hear({names.waiting(0)}, {frame}, at)")
        if first.size is None:
            return
        filled = COUNT
        if first.measure is not None:
            filled = FILL
            listing.put(f"{frame}[{FILL}] += {measures[0]}")
        with listing.block(f"if {frame}[{filled}] >= {table.constant(first.size)}:"):
            listing.put(f"{names.close(0)}(i, {frame}, {handed})")
            with listing.block(f"if holds_nothing({frame}):"):
                listing.put(self.forget(frame))

    def _verdict(self, frame: str, of: VerdictOf | TickedOf, span: Span, here: Here) -> str:
        """The local that says whether the window closes, and before or after this event."""
        listing, cell = self._listing, self.names.cell
        kept = f"{frame}[{FILL}]"
        with listing.block(f"if not {kept}:"):
            begins = self._make.table.add("f", begin_with(of))
            listing.put(f"{kept} = {begins}()")
            listing.put(f"{cell}[1] += {kept}[1]")
        return self._run(kept, of, span, here)

    def _run(self, kept: str, of: VerdictOf | TickedOf, span: Span, here: Here) -> str:
        """A script of a window with a `state`, which is in the cell `kept`. The local of its verdict."""
        make, listing, cell = self._make, self._listing, self.names.cell
        before, state = make.temporary("g"), make.temporary("a")
        listing.put(f"{before} = {kept}[1]")
        listing.put(f"{state} = {kept}[0]")
        for slot in of.unsure:
            listing.put(f"{make.slot(slot)} = ABSENT")
        exits = make.exits = ScriptExits(make.temporary("o"), make.temporary("w"))
        make.cell, make.bound = kept, self.of.max_bytes
        with listing.block("try:"), listing.block("while True:"):
            make.operand(of.body, replace(here, state=Base(state)))
        with listing.block("finally:"):
            listing.put(f"{cell}[1] += {kept}[1] - {before}")
        return make.put(f"verdict_of({exits.made})", span).name

    def _add(self, one: AggregateInput, frame: str, value: str) -> None:
        at, put, make = one.at, self._listing.put, self._make
        match one.aggregate.keeps:
            case "sum":
                put(f"{frame}[{at}] += {value}")
            case "min" | "max" as which:
                sign = "<" if which == "min" else ">"
                with self._listing.block(f"if {frame}[{COUNT}] == 1 or {value} {sign} {frame}[{at}]:"):
                    put(f"{frame}[{at}] = {value}")
            case "spread":
                distance = make.temporary()
                put(f"{distance} = {value} - {frame}[{at}]")
                put(f"{frame}[{at}] += {distance} / {frame}[{COUNT}]")
                put(f"{frame}[{at + 1}] += {distance} * ({value} - {frame}[{at}])")
            case "last":
                self._keep(frame, at, value)
            case "first":
                with self._listing.block(f"if {frame}[{COUNT}] == 1:"):
                    self._keep(frame, at, value)
            case _:
                put(f"{self.names.cell}[1] += {make.table.add('f', one.aggregate.add)}({frame}, {at}, {value})")

    def _keep(self, frame: str, at: int, value: str) -> None:
        put = self._listing.put
        with self._listing.block(f"if type({value}) not in SMALL or type({frame}[{at}]) not in SMALL:"):
            put(f"{self.names.cell}[1] += size_of({value}) - size_of({frame}[{at}])")
        put(f"{frame}[{at}] = {value}")


def tick_code(codes: Sequence[WindowCode], listing: Listing, *, draws: bool) -> None:
    """Before the events: what is due by the time they came at is closed."""
    kept = [code for code in codes if code.of.frames]
    if kept:
        listing.put("at = now.ingest_ns")
        with listing.block("if flush:"):
            listing.put("i = -1")
            for code in kept:
                with listing.block(f"for first in [*{code.names.groups}.values()]:"):
                    with listing.block("if room[0] < 0:"):
                        listing.put("break")
                    listing.put("frame = first")
                    for number in range(len(code.of.frames)):
                        with listing.block(f"if frame[{COUNT}]:"):
                            listing.put(f"{code.names.close(number)}(i, frame, {(0,) * len(code.of.frames)})")
                        if code.of.frames[number].verdict is not None:
                            with listing.block(f"if frame[{FILL}]:"):
                                listing.put(f"{code.names.cell}[1] -= frame[{FILL}][1]")
                        listing.put(f"frame[{FILL}] = 0")
                        if number + 1 < len(code.of.frames):
                            listing.put(f"frame = frame[{NEXT}]")
                    listing.put(code.forget("first"))
    lists = [(code, at) for code in codes for at, frame in enumerate(code.of.frames) if frame.timed]
    if not lists:
        return
    waiting = ", ".join(code.names.waiting(at) for code, at in lists)
    listing.put("i = -1")
    listing.put("until = now.ingest_ns")
    with listing.block(f"for at, which, group in due_by(until, ({waiting},), room):"):
        listing.put("now.ingest_ns = at")
        if draws:
            listing.put("now.seed(at)")
        for number, (code, at) in enumerate(lists):
            names = code.names
            with listing.block(f"{'el' if number else ''}if which == {number}:"):
                listing.put(f"first = frame = {names.groups}.get(group)")
                with listing.block("if first is not None:"):
                    if code.of.frames[at].tick is not None:
                        with listing.block("if ticks_at(frame, at):"):
                            listing.put(f"{names.tick}(i, frame)")
                        continue
                    for _ in range(at):
                        listing.put(f"frame = frame[{NEXT}]")
                    with listing.block(f"if 0 < frame[{FILL}] <= at:"):
                        with listing.block(f"if frame[{COUNT}]:"):
                            listing.put(f"{names.close(at)}(i, frame, None)")
                        listing.put(f"frame[{FILL}] = 0")
                        with listing.block("if holds_nothing(first):"):
                            listing.put(code.forget("first"))
    listing.put("at = now.ingest_ns = until")
