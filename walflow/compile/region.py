"""Selects that are linked -> one function that takes a block of events at a time.

A region begins at a place (an input of a pipeline, an output of an operator) and ends at its exits; between them lie
streams. Each event passes depth first through all selects, in the order of the file, before the next one: what leaves by
an exit stands in the order of the events. A select that fails ends its own branch of that event. The function never
touches receipts: it says for each exit which events leave by it, by their numbers in the block, and the caller
accounts for them. It reads no clock, and keeps nothing from one block to the next.

    region = Region("main::way/in", "in", {"in": [Rule(None, where, None, "out", span)]})
    compiled = compile_region(region)
    outcome = compiled.run(compiled.reader.decode(frames, codec), call)
    outcome.rows["out"].numbers

`compiled.source` is what runs. `walflow check --python` prints it, and a traceback shows it.
"""

import linecache
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Final, NamedTuple

from walflow.compile.expressions import GLOBALS, OPERATORS, Base, Expressions, Here, Keys
from walflow.compile.listing import Listing, Table
from walflow.compile.program import CallOf, Term, walk
from walflow.compile.reads import BlockDecoder, Decoded, ReadShape, bind_whole
from walflow.diagnostics import Span
from walflow_kernel.errors import CannotEvaluate
from walflow_kernel.moment import Moment

LONGEST_SHOWN: Final = 80  # characters of a constant
DEEPEST: Final = 10  # indents within which a stream's selects stand in line


class Rule(NamedTuple):
    """One select. `what` is None for `event` as it is, `where` and `having` for no condition. `where` sees the event that
    came, `having` what was made of it. `to` is a place of the region, or an exit."""

    what: Term | None
    where: Term | None
    having: Term | None
    to: str
    span: Span | None = None


class Region(NamedTuple):
    """`places`: the selects from each, in the order of the file. None leads back to itself."""

    name: str
    entry: str
    places: Mapping[str, Sequence[Rule]]

    @property
    def exits(self) -> list[str]:
        targets = dict.fromkeys(rule.to for rules in self.places.values() for rule in rules)
        return [target for target in targets if target not in self.places]

    @property
    def repeated(self) -> frozenset[str]:
        """The exits by which one event may leave more than once: several ways of selects lead there."""
        ways = Counter({self.entry: 1})
        open = Counter(rule.to for rules in self.places.values() for rule in rules)
        ready = [name for name in self.places if not open[name]]
        for name in ready:
            for rule in self.places.get(name, ()):
                ways[rule.to] = min(ways[rule.to] + ways[name], 2)
                open[rule.to] -= 1
                if not open[rule.to]:
                    ready.append(rule.to)
        return frozenset(exit for exit in self.exits if ways[exit] > 1)


class BlockCall(NamedTuple):
    """What the events of one block have in common. `kept(n)` is event n for an exit where others are made anew;
    `positions`: where each stands, for what is drawn by chance."""

    moment: Moment
    positions: Sequence[int]
    meta: dict[str, object]
    metas: Sequence[Mapping[str, object]] | None
    kept: Callable[[int], object]


class Rows(NamedTuple):
    """What leaves by one exit. `numbers`: the event that each came of, never falling. `values` is None where all are
    events as they came."""

    numbers: Sequence[int]
    values: Sequence[object] | None


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
    made: frozenset[str]  # exits by which something leaves that is not as it came
    repeated: frozenset[str]  # exits by which one event may leave more than once
    _run: Any

    def run(self, decoded: Decoded, call: BlockCall) -> BlockOutcome:
        refused = [Refusal(number, reason, 0) for number, reason in decoded.refused]
        found, more, dropped = self._run(decoded.numbers, decoded.events, *call)
        rows = {exit: Rows(*pair) for exit, pair in zip(self.exits, found, strict=True)}
        return BlockOutcome(rows, [*refused, *(Refusal(*one) for one in more)], dropped)

    @property
    def listing(self) -> str:
        """The source, under what its names stand for."""
        shown = [f"# {name} = {ascii(value)[:LONGEST_SHOWN]}" for name, value in self.constants.items()]
        return "\n".join([f"# {_printable(self.name)}", *shown, self.source])

    def span(self, line: int) -> Span | None:
        """Where in a flow file a line of the source comes from."""
        return self.spans[line - 1] if 0 < line <= len(self.spans) else None


def compile_region(region: Region) -> Compiled:
    return _Compiling(region).compiled()


class _Compiling:
    def __init__(self, region: Region) -> None:
        self._region = region
        self._table = Table()
        self._helpers: list[Listing] = []
        self._streams: list[Listing] = []
        self._named: dict[tuple[str, bool], str] = {}
        self._expressions = Expressions(self._table, self._helpers)
        self._into = Counter(rule.to for rules in region.places.values() for rule in rules)
        self._exits = region.exits
        made = self._made_places()
        self._mixed = {
            rule.to
            for name, rules in region.places.items()
            for rule in rules
            if rule.to not in region.places and (rule.what is not None or name in made)
        }
        kept = self._reached([region.entry], lambda rule: rule.what is None)
        kept_terms = [term for name in kept for rule in region.places[name] for term in _at_event(rule)]
        all_terms = [term for rules in region.places.values() for rule in rules for term in _terms(rule)]
        self.reader = BlockDecoder(ReadShape.of(kept_terms, "event"), self._table)
        self._meta = ReadShape.of(all_terms, "$")
        self._draws = any(
            isinstance(t, CallOf) and t.function.when == "chance" for term in all_terms for t in walk(term)
        )
        self._meta_paths, self._meta_keys = self._locals(self._meta, "m")

    def _made_places(self) -> list[str]:
        """Where events come that are not as they came."""
        begin = [rule.to for rules in self._region.places.values() for rule in rules if rule.what is not None]
        return self._reached(
            [name for name in dict.fromkeys(begin) if name in self._region.places], lambda rule: True
        )

    def _reached(self, found: list[str], by: Callable[[Rule], bool]) -> list[str]:
        for name in found:
            for rule in self._region.places[name]:
                if by(rule) and rule.to in self._region.places and rule.to not in found:
                    found.append(rule.to)
        return found

    def _locals(self, shape: ReadShape, letter: str) -> tuple[dict[Keys, str], dict[Keys, str]]:
        paths = {keys: self._expressions.temporary(letter) for keys in shape.paths}
        return paths, {keys: self._table.add("k", keys) for keys in shape.paths}

    # ---- the function

    def compiled(self) -> Compiled:
        body = self._listing = self._expressions.listing = Listing(2)
        if self._reads_meta:
            body.put("m = meta if metas is None else {**meta, **metas[i]}")
            bind_whole(body, "m", self._meta_paths, self._meta_keys, self._table)
        if self._draws:
            body.put("now.seed(positions[i])")
        self.reader.bind(body, "e")
        self._place(self._region.entry, Base("e" if self.reader.whole else None, self.reader.paths), "e", kept=True)
        whole = Listing()
        with whole.block("def run(numbers, events, now, positions, meta, metas, kept):"):
            self._head(whole)
            for inner in [*self._helpers, *self._streams]:
                whole.add(inner)
            whole.put("for i, e in zip(numbers, events):")
            whole.lines += body.lines
            whole.spans += body.spans
            found = ", ".join(
                f"(n{at}, {f'v{at}' if exit in self._mixed else 'None'})" for at, exit in enumerate(self._exits)
            )
            whole.put(f"return [{found}], refused, dropped")
        return self._made(whole)

    @property
    def _reads_meta(self) -> bool:
        return self._meta.whole or bool(self._meta.paths)

    def _head(self, listing: Listing) -> None:
        for at, exit in enumerate(self._exits):
            listing.put(f"n{at} = []")
            listing.put(f"x{at} = n{at}.append")
            if exit in self._mixed:
                listing.put(f"v{at} = []")
                listing.put(f"y{at} = v{at}.append")
        listing.put("refused = []")
        listing.put("refuse = refused.append")
        listing.put("dropped = 0")

    def _made(self, whole: Listing) -> Compiled:
        source = "\n".join(whole.lines) + "\n"
        file = f"<walflow {_printable(self._region.name)} {next(_numbers)}>"

        def line(error: BaseException) -> int:
            return _line(error.__traceback__, file)

        scope: dict[str, Any] = {**GLOBALS, **OPERATORS, **self._table.names, "line": line}
        exec(compile(source, file, "exec"), scope)  # noqa: S102 - made of a fixed alphabet, see listing.py
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
            frozenset(self._mixed),
            self._region.repeated,
            scope["run"],
        )

    # ---- its parts

    def _place(self, name: str, event: Base, local: str, *, kept: bool) -> None:
        rules = self._region.places[name]
        if not rules:
            self._listing.put("dropped += 1")
            return
        taken = self._expressions.temporary("g") if len(rules) > 1 else None
        if taken is not None:
            self._listing.put(f"{taken} = False")
        for rule in rules:
            if rule.span is not None:
                self._listing.comment(rule.span)
            self._rule(rule, event, local, taken, kept=kept)
        if taken is not None:
            with self._listing.block(f"if not {taken}:"):
                self._listing.put("dropped += 1")

    def _rule(self, rule: Rule, event: Base, local: str, taken: str | None, *, kept: bool) -> None:
        if rule.what is None and rule.where is None and rule.having is None:
            self._deliver(rule.to, event, local, taken, kept=kept)
            return
        with self._listing.block("try:"):
            with self._held("where", rule.where, event, taken):
                if rule.what is None:
                    with self._held("having", rule.having, event, taken):
                        self._deliver(rule.to, event, local, taken, kept=kept)
                else:
                    self._make(rule, event, taken)
        for errors, reason in (
            ("CannotEvaluate as error", "str(error)"),
            ("(RecursionError, MemoryError) as error", "TOO_DEEP"),
        ):
            with self._listing.block(f"except {errors}:"):
                if taken is not None:
                    self._listing.put(f"{taken} = True")
                self._listing.put(f"refuse((i, {reason}, line(error)))")

    def _make(self, rule: Rule, event: Base, taken: str | None) -> None:
        assert rule.what is not None
        value = self._expressions.atom(rule.what, Here(event, self._meta_base))
        local = self._expressions.temporary("w")
        self._listing.put(f"{local} = {value}", rule.span)
        made = self._bound([rule.having] if rule.having else [], local)
        with self._held("having", rule.having, made, taken):
            self._deliver(rule.to, made, local, taken, kept=False)

    @property
    def _meta_base(self) -> Base:
        return Base("m", self._meta_paths)

    def _bound(self, terms: Sequence[Term], local: str) -> Base:
        """A value that was made, and its paths that `terms` read."""
        paths, keypaths = self._locals(ReadShape.of(terms, "event"), "q")
        bind_whole(self._listing, local, paths, keypaths, self._table)
        return Base(local, paths)

    @contextmanager
    def _held(self, word: str, condition: Term | None, event: Base, taken: str | None) -> Generator[None]:
        """What stands within runs where the condition holds."""
        if condition is None:
            yield
            return
        found = self._expressions.operand(condition, Here(event, self._meta_base))
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

    def _deliver(self, to: str, event: Base, local: str, taken: str | None, *, kept: bool) -> None:
        if taken is not None:
            self._listing.put(f"{taken} = True")
        if to not in self._region.places:
            at = self._exits.index(to)
            self._listing.put(f"x{at}(i)")
            if to in self._mixed:
                self._listing.put(f"y{at}({'kept(i)' if kept else local})")
        elif self._into[to] == 1 and self._listing.depth < DEEPEST:
            self._place(to, event if kept else self._rebound(to, local), local, kept=kept)
        else:
            meta = ", m" if self._reads_meta else ""
            self._listing.put(f"{self._stream(to, kept=kept)}(i, {local}{meta})")

    def _rebound(self, place: str, local: str) -> Base:
        return self._bound([term for rule in self._region.places[place] for term in _at_event(rule)], local)

    def _stream(self, place: str, *, kept: bool) -> str:
        """The function of a stream that several selects lead to."""
        if (place, kept) not in self._named:
            name = self._named[place, kept] = f"s{len(self._named)}"
            outer = self._listing
            inner = self._listing = self._expressions.listing = Listing(1)
            local = "e" if kept else "w"
            if self._reads_meta:
                bind_whole(inner, "m", self._meta_paths, self._meta_keys, self._table)
            if kept:
                self.reader.bind(inner, "e")
                event = Base("e" if self.reader.whole else None, self.reader.paths)
            else:
                event = self._rebound(place, "w")
            self._place(place, event, local, kept=kept)
            self._listing = self._expressions.listing = outer
            inner.lines[:0] = [f"def {name}(i, {local}{', m' if self._reads_meta else ''}):", "    nonlocal dropped"]
            inner.spans[:0] = [None, None]
            self._streams.append(inner)
        return self._named[place, kept]


def _terms(rule: Rule) -> list[Term]:
    return [term for term in (rule.what, rule.where, rule.having) if term is not None]


def _at_event(rule: Rule) -> list[Term]:
    """What sees the event as it comes to the select."""
    return [term for term in (rule.what, rule.where, rule.having if rule.what is None else None) if term is not None]


def _line(trace: TracebackType | None, file: str) -> int:
    found = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in text)


_numbers = count(1)

__all__ = [
    "BlockCall",
    "BlockOutcome",
    "CannotEvaluate",
    "Compiled",
    "Refusal",
    "Region",
    "Rows",
    "Rule",
    "compile_region",
]
