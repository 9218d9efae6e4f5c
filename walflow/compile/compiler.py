"""Selects that are linked -> one function that takes a block of events at a time.

A region begins at a place (an input of a pipeline, an output of an operator) and ends at its exits; between them lie
streams. Each event passes depth first through all selects, in the order of the file, before the next one: what leaves
by an exit stands in the order of the events. A select that fails ends its own branch of that event. The function
never touches receipts: it says for each exit which events leave by it, by their numbers in the block, and the caller
accounts for them. It reads no clock. What nodes keep from one event to the next stands in a `State` that the caller
hands over, one for all regions of a pipeline: two of them may lead to one script. Each node changes its own cell in
place.

    region = Region("main::way/in", "in", {"in": [Rule(None, where, None, "out", span)]})
    compiled = compile_region(region)
    state = compiled.new_state()
    outcome = compiled.run(compiled.reader.decode(frames, codec), call, state)
    outcome.rows["out"].numbers
    outcome = compiled.tick(state, now_ns)

`compiled.source` is what runs. `walflow check --python` prints it, and a traceback shows it.
"""

import linecache
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Final, NamedTuple

from walflow.compile import frames
from walflow.compile.compiled import Compiled
from walflow.compile.effects import DROPPED, Effects, Leaving, ScriptExits
from walflow.compile.expressions import Base, Here, Keys
from walflow.compile.frames import WindowCode, tick_code
from walflow.compile.growth import grows
from walflow.compile.listing import Listing, Table, printable
from walflow.compile.program import CallOf, ScriptOf, Term, WholeTerm, WindowsOf, functions, walk
from walflow.compile.reads import BlockDecoder, ReadShape, bind_whole
from walflow.compile.region import Onward, Region, Rule, node_of, window_place
from walflow_kernel.generated import define
from walflow_kernel.state import Cell, cell

DEEPEST: Final = 10  # indents up to which the selects of a stream are in line


def compile_region(region: Region) -> Compiled:
    return _Compiler(region, weighs=grows(region)).compiled()


class _Compiler:
    def __init__(self, region: Region, *, weighs: bool) -> None:
        self._region = region
        self._table = Table()
        self._helpers: list[Listing] = []
        self._streams: list[Listing] = []
        self._named: dict[tuple[str, bool], str] = {}
        self._weighs = weighs
        self._expressions = Effects(self._table, self._helpers, weighs=self._weighs)
        names = [*region.places, *region.scripts]
        self._into = Counter(one.to for name in names for one in region.onward(name))
        self._exits = region.exits
        made = self._made_places()
        self._mixed = {
            rule.to
            for name, rules in region.places.items()
            for rule in rules
            if not region.has(rule.to) and (rule.what is not None or name in made)
        }
        kept = self._reached([region.entry], lambda way: way.kept)
        kept_terms = [term for name in kept for term in self._at_event(name)]
        all_terms = [term for rules in region.places.values() for rule in rules for term in _terms(rule)]
        all_terms += [script.body for script in region.scripts.values()]
        all_terms += [one.body for one in functions(all_terms) if one.body is not None]
        self._cells: dict[str, str] = {}  # for each node that keeps state, the local of its cell
        self._begins: dict[str, Cell] = {}
        self._codes: dict[str, WindowCode] = {}  # of selects with windows, or with `group by`, by their places
        has_windows = any(rule.windows and rule.windows.frames for rules in region.places.values() for rule in rules)
        self._sets_meta = has_windows or any(script.sets_meta for script in region.scripts.values())
        self.reader = BlockDecoder(ReadShape.of(kept_terms, "event"), self._table)
        self._meta = ReadShape.of(all_terms, "$")
        asked = {t.function.when for term in all_terms for t in walk(term) if isinstance(t, CallOf)}
        self._draws = "chance" in asked
        self._asks = bool(asked & {"time", "event"})
        self._meta_paths, self._meta_keys = self._locals(self._meta, "m")

    def _made_places(self) -> list[str]:
        """The places at which events come that are not unchanged."""
        names = [*self._region.places, *self._region.scripts]
        begin = [way.to for name in names for way in self._region.onward(name) if not way.kept]
        return self._reached([name for name in dict.fromkeys(begin) if self._region.has(name)], lambda way: True)

    def _reached(self, found: list[str], by: Callable[[Onward], bool]) -> list[str]:
        for name in found:
            for way in self._region.onward(name):
                if by(way) and self._region.has(way.to) and way.to not in found:
                    found.append(way.to)
        return found

    def _at_event(self, place: str) -> list[Term]:
        """What sees the event as it comes to the place."""
        script = self._region.scripts.get(place)
        rules = self._region.places.get(place, ())
        found = [script.body] if script is not None else [term for rule in rules for term in _at_event(rule)]
        can_fail = found or [term for rule in rules for term in _terms(rule)]
        # an error that goes on has the event in it
        return [*found, *([WholeTerm("event", can_fail[0].span)] if can_fail and self._region.err_of(place) else [])]

    def _locals(self, shape: ReadShape, letter: str) -> tuple[dict[Keys, str], dict[Keys, str]]:
        paths = {keys: self._expressions.temporary(letter) for keys in shape.paths}
        return paths, {keys: self._table.add("k", keys) for keys in shape.paths}

    # ---- the function

    def compiled(self) -> Compiled:
        body = self._listing = self._expressions.listing = Listing(2)
        if self._reads_meta:
            body.put("m = meta if metas is None else {**meta, **metas[i]}")
        if self._reads_meta and not self._sets_meta:
            bind_whole(body, "m", self._meta_paths, self._meta_keys, self._table)
        if self._draws:
            body.put("now.seed(positions[i])")
        self.reader.bind(body, "e")
        came = Base("e" if self.reader.whole else None, self.reader.paths)
        self._place(self._region.entry, _Event(came, "e", self._meta_base, kept=True))
        whole = Listing()
        with whole.block(
            "def run(numbers, events, now, positions, meta, metas, kept, state, room=None, flush=False):"
        ):
            self._head(whole)
            for place, local in self._cells.items():
                whole.put(f"{local} = state[{self._table.constant(place)}]")
            if self._weighs:
                whole.put("weights = {}")
            if self._cells or self._weighs:
                with whole.block("if room is None:"):
                    whole.put("room = [BOUNDLESS, None]")
            for code in self._codes.values():
                code.head(whole)
            for inner in [*self._helpers, *self._streams]:
                whole.add(inner)
            tick_code([*self._codes.values()], whole, draws=self._draws)
            whole.put("for i, e in zip(numbers, events):")
            if self._cells or self._weighs:
                with whole.block("    if room[0] < 0:"):
                    whole.put("    room[1] = i")
                    whole.put("    break")
            if self._weighs:
                whole.put("    weights.clear()")
            whole.lines += body.lines
            whole.spans += body.spans
            metas = "z" if self._sets_meta else ""
            found = ", ".join(
                f"(n{at}, {f'v{at}' if exit in self._mixed else 'None'}, {(metas and f'z{at}') or None})"
                for at, exit in enumerate(self._exits)
            )
            whole.put(f"return [{found}], refused, dropped")
        return self._made(whole)

    @property
    def _reads_meta(self) -> bool:
        return self._meta.whole or bool(self._meta.paths) or self._sets_meta

    def _head(self, listing: Listing) -> None:
        for at, exit in enumerate(self._exits):
            listing.put(f"n{at} = []")
            listing.put(f"x{at} = n{at}.append")
            if exit in self._mixed:
                listing.put(f"v{at} = []")
                listing.put(f"y{at} = v{at}.append")
            if self._sets_meta:
                listing.put(f"z{at} = []")
        listing.put("refused = []")
        listing.put("refuse = refused.append")
        listing.put("dropped = 0")

    def _made(self, whole: Listing) -> Compiled:
        source = "\n".join(whole.lines) + "\n"
        file = f"<walflow {printable(self._region.name)} {next(_numbers)}>"

        run = define(file, source, self._table.names)
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        constants = {name: value for name, value in self._table.names.items() if name[0] == "c"}
        return Compiled(
            self._region.name,
            self._exits,
            self.reader,
            source,
            whole.spans,
            constants,
            self._reads_meta,
            self._draws,
            self._asks,
            self._weighs,
            frozenset(self._mixed),
            self._region.repeated,
            self._begins,
            [code.place for code in self._codes.values() if code.of.frames],
            [code.place for code in self._codes.values() if code.ticks],
            {code.place: code.intervals for code in self._codes.values() if code.ticks},
            run,
            self._table.names,
            None if self._weighs else lambda: _Compiler(self._region, weighs=True).compiled(),
        )

    # ---- its parts

    def _cell(self, place: str, begins: Cell) -> str:
        """The local that holds the state of the node at this place, throughout the function."""
        if place not in self._cells:
            self._cells[place] = f"l{len(self._cells)}"
            self._begins[place] = begins
        return self._cells[place]

    def _place(self, name: str, came: "_Event") -> None:
        if name in self._region.scripts:
            self._script(name, self._region.scripts[name], came)
            return
        rules = self._region.places[name]
        if not rules:
            self._listing.put("dropped += 1")
            return
        taken = self._expressions.temporary("g") if len(rules) > 1 else None
        if taken is not None:
            self._listing.put(f"{taken} = False")
        for number, rule in enumerate(rules):
            if rule.span is not None:
                self._listing.comment(rule.span)
            self._rule(rule, name, number, came, taken)
        if taken is not None:
            with self._listing.block(f"if not {taken}:"):
                self._listing.put("dropped += 1")

    def _rule(self, rule: Rule, place: str, number: int, came: "_Event", taken: str | None) -> None:
        if rule.plain:
            self._deliver(rule.to, came, taken)
            return
        with self._failing(place, came, taken), self._held("where", rule.where, came.here, taken):
            if rule.windows is not None:
                self._grouped(place, number, rule, rule.windows, came, taken)
            else:
                self._make(rule, came, came.here, taken)

    @contextmanager
    def _failing(self, place: str, came: "_Event", taken: str | None) -> Generator[None]:
        """What stands within may fail."""
        err = self._region.err_of(place)
        reason_local = self._expressions.temporary("u") if err else None
        if reason_local is not None:
            self._listing.put(f"{reason_local} = None")
        with self._listing.block("try:"):
            yield
        for errors, reason in ERRORS:
            with self._listing.block(f"except {errors}:"):
                if taken is not None:
                    self._listing.put(f"{taken} = True")
                if reason_local is not None:
                    self._listing.put(f"{reason_local} = {reason}")
                else:
                    self._listing.put(f"refuse((i, {reason}, line(error)))")
        if err is not None and reason_local is not None:
            with self._listing.block(f"if {reason_local} is not None:"):
                made = self._expressions.temporary("w")
                self._listing.put(f"{made} = {self._error(reason_local, came.event)}")
                self._deliver(err, _Event(Base(made), made, came.meta, kept=False), None)

    def _error(self, reason: str, event: Base) -> str:
        table = self._expressions.table
        return f"{{{table.constant('error')}: {reason}, {table.constant('event')}: {event.name}}}"

    def _make(self, rule: Rule, came: "_Event", here: Here, taken: str | None) -> None:
        if rule.what is None:
            with self._held("having", rule.having, here, taken):
                self._deliver(rule.to, came, taken)
            return
        value = self._expressions.atom(rule.what, here)
        local = self._expressions.temporary("w")
        self._listing.put(f"{local} = {value}", rule.span)
        made = _Event(self._bound([rule.having] if rule.having else [], local), local, came.meta, kept=False)
        with self._held("having", rule.having, replace(here, event=made.event), taken):
            self._deliver(rule.to, made, taken)

    def _grouped(
        self, source: str, number: int, rule: Rule, of: WindowsOf, came: "_Event", taken: str | None
    ) -> None:
        """A select with windows takes the event.
        What each gives is made by a function, once for all ways that lead here."""
        place = window_place(source, number)
        if not of.frames:
            once = WindowCode(of, place, len(self._codes), "", self._expressions)
            self._codes.setdefault(place, once)
            left = taken or self._expressions.temporary("g")
            if taken is None:
                self._listing.put(f"{left} = False")
            once.event(came.here, lambda here: self._make(rule, came, here, left))
            if taken is None:
                with self._listing.block(f"if not {left}:"):
                    self._listing.put("dropped += 1")
            return
        if taken is not None:
            self._listing.put(f"{taken} = True")
        if place not in self._codes:
            local = self._cell(place, cell(frames.begin_of(of)))
            code = self._codes[place] = WindowCode(of, place, len(self._codes), local, self._expressions)
            outer = self._listing
            self._streams += code.functions(
                lambda here: self._closed(source, rule, here), lambda meta: self._at_tick(source, meta)
            )
            self._listing = outer
        self._codes[place].event(came.here, self._never)

    def _closed(self, source: str, rule: Rule, here: Here) -> None:
        """A window's result: its own metadata, and no event to account for."""
        self._listing = self._expressions.listing
        taken = self._expressions.temporary("g")
        result = _Event(Base("None"), "None", here.meta, kept=False)
        with self._failing(source, result, None):
            self._make(rule, result, here, taken)

    @contextmanager
    def _at_tick(self, source: str, meta: Base) -> Generator[None]:
        """A script for ticks, whose error has no event."""
        self._listing = self._expressions.listing
        with self._failing(source, _Event(Base("None"), "None", meta, kept=False), None):
            yield

    def _never(self, here: Here) -> None:
        raise AssertionError("a window gives something when it is closed")

    def _script(self, name: str, script: ScriptOf, came: "_Event") -> None:
        make, listing = self._expressions, self._listing
        exits = make.exits = ScriptExits(make.temporary("o"), make.temporary("w"))
        event, meta = came.event, came.meta
        listing.comment(script.span)
        if script.sets_event:
            event = Base(make.temporary("e"))
            listing.put(f"{event.name} = {came.event.name}")
        if script.sets_meta:
            meta = Base(make.temporary("m"))
            listing.put(f"{meta.name} = {came.meta.name}")
        for slot in script.unsure:
            listing.put(f"{make.slot(slot)} = ABSENT")
        state = self._kept(name, script) if script.keeps else None
        with listing.block("try:"), listing.block("while True:"):
            make.operand(script.body, Here(event, meta, state))
        err = self._region.err_of(name)
        own_err = err == f"{node_of(name)}/err"
        failed = exits.number(Leaving("err" if own_err else _AROUND, kept=False)) if err else -1
        for errors, reason in ERRORS:
            with listing.block(f"except {errors}:"):
                listing.put(f"{exits.verdict} = {failed}")
                if failed > 0:
                    listing.put(f"{exits.made} = {self._error(reason, event)}")
                else:
                    listing.put(f"refuse((i, {reason}, line(error)))")
        word = "if"
        for number, way in enumerate(exits.ways, 1):
            with listing.block(f"{word} {exits.verdict} == {number}:"):
                place = err if err and way.port == _AROUND else f"{node_of(name)}/{way.port}"
                if way.kept:
                    self._deliver(place, came._replace(meta=meta), None)
                else:
                    self._deliver(place, _Event(Base(exits.made), exits.made, meta, kept=False), None)
            word = "elif"
        if exits.drops:
            with listing.block(f"{word} {exits.verdict} == {DROPPED}:"):
                listing.put("dropped += 1")

    def _kept(self, name: str, script: ScriptOf) -> Base:
        make = self._expressions
        make.cell, make.bound = self._cell(node_of(name), cell(script.begins)), script.bound
        local = make.temporary("a")
        self._listing.put(f"{local} = {make.cell}[0]")
        return Base(local)

    @property
    def _meta_base(self) -> Base:
        return Base("m", {} if self._sets_meta else self._meta_paths)

    def _bound(self, terms: Sequence[Term], local: str) -> Base:
        """Binds a value that was made, and the paths of it that `terms` read."""
        paths, keypaths = self._locals(ReadShape.of(terms, "event"), "q")
        bind_whole(self._listing, local, paths, keypaths, self._table)
        return Base(local, paths)

    @contextmanager
    def _held(self, word: str, condition: Term | None, here: Here, taken: str | None) -> Generator[None]:
        """The code within runs if the condition holds."""
        if condition is None:
            yield
            return
        found = self._expressions.operand(condition, here)
        span = condition.span
        if found.kind is bool:
            with self._listing.block(f"if {found.name}:", span):
                yield
        else:
            with self._listing.block(f"if {found.name} is True:", span):
                yield
            value = found.name if found.steps is None else f"taken({found.name}, {found.steps})"
            with self._listing.block(f"elif {found.name} is not False:", span):
                self._listing.put(f"raise no_verdict({self._table.constant(word)}, {value})", span)
        if taken is None:
            with self._listing.block("else:"):
                self._listing.put("dropped += 1")

    def _deliver(self, to: str, came: "_Event", taken: str | None) -> None:
        if taken is not None:
            self._listing.put(f"{taken} = True")
        if not self._region.has(to):
            at = self._exits.index(to)
            self._listing.put(f"x{at}(i)")
            if to in self._mixed:
                self._listing.put(f"y{at}({'kept(i)' if came.kept else came.local})")
                if self._weighs and not came.kept:
                    self._listing.put(f"room[0] -= weigh({came.local}, weights)")
            if self._sets_meta:
                self._listing.put(f"z{at}.append({came.meta.name})")
        elif self._into[to] == 1 and self._listing.depth < DEEPEST:
            self._place(to, came if came.kept else came._replace(event=self._rebound(to, came.local)))
        else:
            meta = f", {came.meta.name}" if self._reads_meta else ""
            self._listing.put(f"{self._stream(to, kept=came.kept)}(i, {came.local}{meta})")

    def _rebound(self, place: str, local: str) -> Base:
        return self._bound(self._at_event(place), local)

    def _stream(self, place: str, *, kept: bool) -> str:
        """The function of a place that several ways lead to."""
        if (place, kept) not in self._named:
            name = self._named[place, kept] = f"r{len(self._named)}"
            outer = self._listing
            inner = self._listing = self._expressions.listing = Listing(1)
            local = "e" if kept else "w"
            if self._reads_meta and not self._sets_meta:
                bind_whole(inner, "m", self._meta_paths, self._meta_keys, self._table)
            if kept:
                self.reader.bind(inner, "e")
                event = Base("e" if self.reader.whole else None, self.reader.paths)
            else:
                event = self._rebound(place, "w")
            self._place(place, _Event(event, local, self._meta_base, kept))
            self._listing = self._expressions.listing = outer
            inner.lines[:0] = [f"def {name}(i, {local}{', m' if self._reads_meta else ''}):", "    nonlocal dropped"]
            inner.spans[:0] = [None, None]
            self._streams.append(inner)
        return self._named[place, kept]


_AROUND: Final = "/"  # no port has such a name


class _Event(NamedTuple):
    """The event at a place of the code. `local` holds it, as far as it is decoded. `kept`: it is unchanged."""

    event: Base
    local: str
    meta: Base
    kept: bool

    @property
    def here(self) -> Here:
        return Here(self.event, self.meta)


ERRORS: Final = (
    ("CannotEvaluate as error", "str(error)"),
    ("(RecursionError, MemoryError) as error", "TOO_DEEP"),
)


def _terms(rule: Rule) -> list[Term]:
    terms = [term for term in (rule.what, rule.where, rule.having) if term is not None]
    return terms if rule.windows is None else [*terms, *rule.windows.event_terms]


def _at_event(rule: Rule) -> list[Term]:
    """What sees the event as it comes to the select."""
    if rule.windows is not None:
        seen = [] if rule.windows.frames else [rule.what or WholeTerm("event", rule.windows.span)]
        return [*seen, *rule.windows.event_terms, *([] if rule.where is None else [rule.where])]
    return [term for term in (rule.what, rule.where, rule.having if rule.what is None else None) if term is not None]


_numbers = count(1)
