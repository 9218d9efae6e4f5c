"""Term -> statements of Python. The fast path of each expression is in line and tests exact types.

The code is statements with temporaries, not nested expressions: CPython allows 200 parentheses and 20 nested blocks.
What nests deeper than INLINE becomes a function of its own.

A path that the head of the code has bound may lead to no value, or to a number out of range. Its Operand is `raw`: it
may be used only in `type(p1) is str`. `_sound` checks it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

from walflow.compile.listing import Listing, Table
from walflow.compile.program import (
    AggregateOf,
    Argument,
    ArrayOf,
    BinaryOf,
    CallOf,
    Change,
    Const,
    DropOf,
    EmitOf,
    ForOf,
    InvokeOf,
    KeyBy,
    KeyStep,
    LetOf,
    LocalTerm,
    MatchOf,
    MergeOf,
    PackOf,
    PatchOf,
    PresentOf,
    ReadPath,
    RecordOf,
    RecurOf,
    ReturnOf,
    StepsOf,
    Term,
    TextOf,
    UnaryOf,
    WholeTerm,
    has_effects,
)
from walflow.diagnostics import Span
from walflow_kernel.generated import NAMES

INLINE: Final = 15  # indents
SHORT: Final = 256  # characters of a string that need not be counted

Keys = tuple[str, ...]
Further = AggregateOf | MatchOf | ForOf | InvokeOf | StepsOf | LetOf | EmitOf | DropOf | ReturnOf | RecurOf


@dataclass
class Base:
    """The local that holds `event` or `$` at a place of the code; None if it is not needed whole. Also the locals of
    its paths."""

    name: str | None
    paths: Mapping[Keys, str] = field(default_factory=dict[Keys, str])


@dataclass
class Here:
    """The place at which an expression is evaluated. `state`: of a script that has one. `group`: of a select with
    `group by` or windows. `window`, `frame`, `groups`: of a window that is closed."""

    event: Base
    meta: Base
    state: Base | None = None
    group: Base | None = None
    window: Base | None = None
    frame: str = ""
    groups: str = ""

    def base(self, root: str) -> Base:
        known = {"event": self.event, "$": self.meta, "state": self.state, "group": self.group, "window": self.window}
        found = known[root]
        assert found is not None, "what reads it stands where it has a value"
        return found


class Operand(NamedTuple):
    """`name`: a local or a constant. `steps`: for a raw operand, the name in the table of the text of its path.
    `kept`: it is part of the state, so a copy is made where it may be kept."""

    name: str
    steps: str | None = None
    kind: type | None = None  # where it is known at load
    is_const: bool = False
    kept: bool = False


SCALAR_NAMES: Final = frozenset(
    {"bool", "integer", "float", "number", "string", "binary", "null"}
)  # of what functions give
_ORDER: Final = frozenset({"<", "<=", ">", ">="})
_LOGICAL: Final = frozenset({"==", "!=", "xor"}) | _ORDER


class Expressions:
    """Writes to `listing`. Temporaries are numbered throughout. Helpers are collected in `helpers`."""

    def __init__(self, table: Table, helpers: list[Listing], *, weighs: bool = False) -> None:
        self.table = table
        self.weighs = weighs  # what is made, as it may be much larger than the event
        self.listing = Listing()
        self._helpers = helpers
        self._count = 0

    @staticmethod
    def slot(number: int) -> str:
        """The local of a name in a script, a function or a pattern."""
        return f"d{number}"

    def temporary(self, letter: str = "t") -> str:
        assert letter not in Table.LETTERS
        self._count += 1
        return f"{letter}{self._count}"

    def atom(self, term: Term, here: Here) -> str:
        """The name of its value."""
        return self.sound(self.operand(term, here), term.span)

    def operand(self, term: Term, here: Here) -> Operand:
        if self.listing.depth > INLINE and not _is_simple(term) and not has_effects(term):
            return self._outlined(term, here)
        match term:
            case Const():
                return Operand(self.table.constant(term.value), None, type(term.value), True)
            case WholeTerm():
                return self._whole(term, here)
            case ReadPath():
                return self._read(term, here)
            case TextOf():
                return self._text(term, here)
            case ArrayOf():
                items = [self.atom(item, here) for item in term.items]
                return self.made(f"[{', '.join(items)}]", term.span, list)
            case RecordOf():
                fields = [(self.atom(key, here), self.atom(value, here)) for key, value in term.fields]
                return self.made(f"{{{', '.join(f'{key}: {value}' for key, value in fields)}}}", term.span, dict)
            case CallOf():
                return self._call(term, here)
            case UnaryOf():
                return self._unary(term, here)
            case BinaryOf():
                return self._binary(term, here)
            case PresentOf():
                return self._present(term, here)
            case MergeOf():
                of = self.atom(term.of, here)
                return self.made(f"merged({of}, {self.atom(term.spec, here)})", term.span, dict)
            case PatchOf():
                return self._patch(term, here)
            case PackOf():
                return self._pack(term, here)
            case LocalTerm():
                return self.local(term)
            case _:
                return self.further(term, here)

    def local(self, term: LocalTerm) -> Operand:
        raise NotImplementedError

    def further(self, term: Further, here: Here) -> Operand:
        """What sets locals, or has effects."""
        raise NotImplementedError

    # ---- names

    def put(self, code: str, span: Span, kind: type | None = None) -> Operand:
        name = self.temporary()
        self.listing.put(f"{name} = {code}", span)
        return Operand(name, None, kind)

    def made(self, code: str, span: Span, kind: type | None = None) -> Operand:
        """A value with others in it."""
        return self.weighed(self.put(code, span, kind), span)

    def weighed(self, operand: Operand, span: Span) -> Operand:
        if self.weighs:
            self.listing.put(f"weigh({operand.name}, weights)", span)
        return operand

    def compares(self, left: str, right: str, span: Span) -> None:
        """Before it does."""
        if self.weighs:
            self.listing.put(f"compared({left}, {right}, weights)", span)

    def uses(self, names: Iterable[str], span: Span) -> None:
        """Before they are walked."""
        for name in names if self.weighs else ():
            self.listing.put(f"used({name}, weights)", span)

    def sound(self, operand: Operand, span: Span) -> str:
        name, steps = operand.name, operand.steps
        if steps is None:
            return name
        if operand.kept:
            plain = f"type({name}) in SMALL or type({name}) is str and len({name}) < {SHORT}"
            return self.put(f"{name} if {plain} else {checked(operand)}", span).name
        plain = f"type({name}) in PLAIN or type({name}) is int and LEAST <= {name} <= MOST"
        return self.put(f"{name} if {plain} else taken({name}, {steps})", span).name

    def _outlined(self, term: Term, here: Here) -> Operand:
        outer = self.listing
        inner = self.listing = Listing(1)
        result = self.atom(term, here)
        inner.put(f"return {result}", term.span)
        self.listing = outer
        name = f"h{len(self._helpers)}"
        needs = ", ".join(inner.needs())
        inner.lines.insert(0, f"def {name}({needs}):")
        inner.spans.insert(0, term.span)
        self._helpers.append(inner)
        return self.put(f"{name}({needs})", term.span)

    # ---- paths

    def _whole(self, term: WholeTerm, here: Here) -> Operand:
        name = here.base(term.root).name
        assert name is not None, "the analysis has found that it is needed"
        return Operand(name, "SOMEWHERE", kept=term.root == "state")

    def _read(self, term: ReadPath, here: Here) -> Operand:
        keys = bound_keys(term)
        if keys and isinstance(term.of, WholeTerm | LocalTerm):
            steps = tuple(step.step for step in term.steps[: len(keys)])
            operand = Operand(self._bound(term.of, keys, here, term.span), self.table.add("s", steps))
        elif isinstance(term.of, WholeTerm):
            operand = Operand(self._whole(term.of, here).name)
        else:
            operand = self.operand(term.of, here)
            if not operand.kept:
                operand = Operand(self.sound(operand, term.span))
        for step in term.steps[len(keys) :]:
            shown = self.table.add("s", step.step)
            of = operand.name
            if operand.steps not in {None, "SOMEWHERE"}:
                of = self.put(f"found({of}, {operand.steps})", term.span).name
            if isinstance(step, KeyStep):
                code = f"member({of}, {self.table.constant(step.key)}, {shown})"
            elif isinstance(step, KeyBy):
                code = f"member_by({of}, {self.atom(step.key, here)}, {shown})"
            else:
                begin = self.atom(step.begin, here)
                code = f"part({of}, {begin}, {self.atom(step.end, here)}, {shown})"
            operand = Operand(self.put(code, term.span).name, "SOMEWHERE")
        return operand._replace(kept=is_kept(term.of))

    def _bound(self, of: WholeTerm | LocalTerm, keys: Keys, here: Here, span: Span) -> str:
        """The local of a path, which may lead to no value."""
        if isinstance(of, LocalTerm):
            return self.put(self.reached(self.local(of).name, keys), span).name
        base = here.base(of.root)
        if keys in base.paths:
            return base.paths[keys]
        return self.put(self.reached(self._whole(of, here).name, keys), span).name

    def reached(self, name: str, keys: Keys) -> str:
        """The value that a path leads to, from a local that holds the value itself."""
        full = f"reach({name}, {self.table.add('k', keys)})"
        first, *deeper = keys
        if deeper:
            return full
        return f"{name}.get({self.table.constant(first)}, ABSENT) if type({name}) is dict else {full}"

    def _present(self, term: PresentOf, here: Here) -> Operand:
        of = term.of
        if isinstance(of, LocalTerm) and not of.sure:
            return self.put(f"{self.slot(of.slot)} is {'not ' if term.wanted else ''}ABSENT", term.span, bool)
        if not isinstance(of, ReadPath):
            return Operand(self.table.constant(term.wanted), None, bool, True)
        if isinstance(of.of, WholeTerm | LocalTerm) and len(bound_keys(of)) == len(of.steps):
            name = self._read(of, here).name
            there = f"{name} is not ABSENT and type({name}) is not Lost"
            absent = f"{name} is ABSENT or type({name}) is Lost"
            return self.put(there if term.wanted else absent, term.span, bool)
        name = self.temporary()
        with self.listing.block("try:"):
            self._read(of, here)
            self.listing.put(f"{name} = {term.wanted}", term.span)
        with self.listing.block("except Missing:"):
            self.listing.put(f"{name} = {not term.wanted}", term.span)
        return Operand(name, None, bool)

    # ---- operators

    def _unary(self, term: UnaryOf, here: Here) -> Operand:
        name = self.atom(term.operand, here)
        operand = Operand(name)
        for symbol in term.symbols:
            full = f"unary({self.table.constant(symbol)}, {operand.name})"
            if symbol == "not":
                operand = self.put(f"not {operand.name} if type({operand.name}) is bool else {full}", term.span, bool)
            else:
                operand = self.put(full, term.span)
        return operand

    def _binary(self, term: BinaryOf, here: Here) -> Operand:
        symbol = term.rest[0][0]
        if symbol in {"and", "or"}:
            return self._shorten(symbol, [term.first, *(operand for _, operand in term.rest)], here, term.span)
        left = self.operand(term.first, here)
        for symbol, operand in term.rest:
            if left.steps is not None and not _is_simple(operand):
                left = Operand(self.sound(left, term.span))  # its own error comes first
            left = self._applied(symbol, left, self.operand(operand, here), term.span)
        return left

    def _shorten(self, symbol: str, operands: list[Term], here: Here, span: Span) -> Operand:
        """From left to right until one side decides: `present event.a and event.a > 1`."""
        name = self.temporary()
        self.verdict(symbol, name, operands[0], here)
        for operand in operands[1:]:
            with self.listing.block(f"if {name}:" if symbol == "and" else f"if not {name}:", span):
                self.verdict(symbol, name, operand, here)
        return Operand(name, None, bool)

    def verdict(self, symbol: str, name: str, term: Term, here: Here) -> None:
        found = self.operand(term, here)
        if found.kind is bool:
            self.listing.put(f"{name} = {found.name}", term.span)
            return
        full = f"boolean({self.table.constant(symbol)}, {checked(found)})"
        self.listing.put(f"{name} = {found.name} if type({found.name}) is bool else {full}", term.span)

    def _applied(self, symbol: str, left: Operand, right: Operand, span: Span) -> Operand:
        full = f"{NAMES[symbol]}({checked(left)}, {checked(right)})"
        if symbol in {"+", "-", "*"}:
            guard = _guard([(left, int), (right, int)])
            if guard is None:
                return self.made(full, span) if symbol == "+" else self.put(full, span)
            name = self.put(f"{left.name} {symbol} {right.name} if {guard} else BEYOND", span).name
            with self.listing.block(f"if not LEAST <= {name} <= MOST:", span):
                self.listing.put(f"{name} = {full}", span)
                if symbol == "+":
                    self.weighed(Operand(name), span)
            return Operand(name)
        if symbol == "%" and right.is_const and right.kind is int and cast("int", self.table.names[right.name]) > 0:
            whole = f"type({left.name}) is int and 0 <= {left.name} <= MOST"
            return self.put(f"{left.name} % {right.name} if {whole} else {full}", span)
        quick = self._quick_comparison(symbol, left, right)
        if symbol in {"==", "!="} and not (left.is_const or right.is_const):
            self.compares(checked(left), checked(right), span)
        kind = bool if symbol in _LOGICAL else None
        return self.put(full if quick is None else f"{quick} else {full}", span, kind)

    def _quick_comparison(self, symbol: str, left: Operand, right: Operand) -> str | None:
        const = next((one for one in (right, left) if one.is_const), None)
        code = f"{left.name} {symbol} {right.name}"
        if symbol in {"==", "!="}:
            if const is not None and const.kind is type(None):
                other = left if const is right else right
                return f"{symbol == '=='} if {other.name} is None"
            kind: type = str if const is None or const.kind is None else const.kind
            guard = _guard([(left, kind), (right, kind)]) if kind in {str, int, bool} else None
            return None if guard is None else f"{code} if {guard}"
        if symbol in _ORDER:
            if const is not None and const.kind in {int, float}:
                other = left if const is right else right
                whole = _guard([(other, int)])
                return None if whole is None else f"{code} if {whole} or type({other.name}) is float"
            guard = _guard([(one, int if const is None else str) for one in (left, right)])
            return None if guard is None else f"{code} if {guard}"
        return None

    # ---- what is made

    def _text(self, term: TextOf, here: Here) -> Operand:
        names: list[str] = []
        for part in term.parts:
            if isinstance(part, str):
                names.append(self.table.constant(part))
                continue
            found = self.operand(part, here)
            if found.kind is str:
                names.append(found.name)
                continue
            quick = f"{found.name} if type({found.name}) is str"
            names.append(self.put(f"{quick} else spliced({checked(found)})", part.span).name)
        return self.put(f"joined([{', '.join(names)}])", term.span, str)

    def _call(self, term: CallOf, here: Here) -> Operand:
        names = [self._argument(term, at, here) for at in range(len(term.arguments))]
        given = [self._given(name, argument) for name, argument in zip(names, term.arguments, strict=True)]
        if term.function.when != "load":
            given = ["now", *given]
        self.uses([name for name in names if name not in self.table.names], term.span)
        name = self.temporary()
        with self.listing.block("try:"):
            self.listing.put(f"{name} = {self.table.add('f', term.function.apply)}({', '.join(given)})", term.span)
        with self.listing.block("except CannotApply as why:"):
            self.listing.put(f"raise named({self.table.constant(term.name)}, why) from None", term.span)
        return Operand(name) if term.function.gives in SCALAR_NAMES else self.weighed(Operand(name), term.span)

    def _argument(self, call: CallOf, at: int, here: Here) -> str:
        term = call.arguments[at].term
        operand = self.operand(term, here)
        if not operand.kept or call.function.gives not in SCALAR_NAMES:
            return self.sound(operand, term.span)
        # its result contains no part of the state, and no expression changes the state: `let` is a statement
        return self.sound(operand._replace(kept=False), term.span)

    def _given(self, name: str, argument: Argument) -> str:
        if argument.take is None:
            return name
        taken = f"{self.table.add('k', argument.take)}({name})"
        return taken if argument.kind is None else f"{name} if type({name}) is {argument.kind.__name__} else {taken}"

    def _pack(self, term: PackOf, here: Here) -> Operand:
        fields: list[str] = []
        for value, put in term.fields:
            name = self.atom(value, here)
            fields.append(self.put(f"{self.table.add('b', put)}({name})", value.span).name)
        return self.put(f"packed([{', '.join(fields)}])", term.span, bytes)

    def _patch(self, term: PatchOf, here: Here) -> Operand:
        of = self.operand(term.of, here)
        if of.kept:
            of = Operand(self.sound(of, term.span))
        full = f"record_of({self.table.constant('patch')}, {checked(of)})"
        record = self.put(
            f"({of.name} if type({of.name}) is dict else {full}).copy()"
            if of.kind is not dict
            else f"{of.name}.copy()",
            term.span,
            dict,
        )
        for change in term.changes:
            self._change(record.name, change, here, term.span)
        return self.weighed(record, term.span)

    def _change(self, record: str, change: Change, here: Here, span: Span) -> None:
        put = self.listing.put
        if change.key is None:
            assert change.value is not None
            put(f"{change.word}_all({record}, {self.atom(change.value, here)})", span)
            return
        key = self.atom(change.key, here)
        match change.word:
            case "erase":
                put(f"{record}.pop({key}, None)", span)
                return
            case "insert":
                with self.listing.block(f"if {key} in {record}:", span):
                    put(f"vacant({self.table.constant('insert')}, {record}, {key})", span)
            case "update":
                with self.listing.block(f"if {key} not in {record}:", span):
                    put(f"occupied({record}, {key})", span)
            case "default":
                assert change.value is not None
                with self.listing.block(f"if {key} not in {record}:", span):
                    put(f"{record}[{key}] = {self.atom(change.value, here)}", span)
                return
            case _:
                pass
        assert change.value is not None
        value = self.atom(change.value, here)
        if change.word in {"move", "copy"}:
            put(f"{change.word}({record}, {key}, {value})", span)
        elif change.word == "merge":
            put(f"merge_at({record}, {key}, {value})", span)
        else:
            put(f"{record}[{key}] = {value}", span)


def bound_keys(term: ReadPath) -> Keys:
    """The keys of a path that the head of the code binds: strings, directly after the event."""
    keys: list[str] = []
    for step in term.steps:
        if (
            not isinstance(term.of, WholeTerm | LocalTerm)
            or not isinstance(step, KeyStep)
            or not isinstance(step.key, str)
        ):
            break
        keys.append(step.key)
    return tuple(keys)


def _is_simple(term: Term) -> bool:
    """It needs no statement, so nothing can fail before it is used."""
    if isinstance(term, ReadPath):
        return isinstance(term.of, WholeTerm) and len(bound_keys(term)) == len(term.steps)
    return isinstance(term, Const | WholeTerm)


def is_kept(term: Term) -> bool:
    """Its value is part of the state."""
    while isinstance(term, ReadPath):
        term = term.of
    return isinstance(term, WholeTerm) and term.root == "state"


def checked(operand: Operand) -> str:
    if operand.steps is None:
        return operand.name
    return lent(operand.name, operand.steps) if operand.kept else f"taken({operand.name}, {operand.steps})"


def lent(name: str, steps: str = "SOMEWHERE") -> str:
    """A value of the state for what may keep it."""
    return f"lent({name}, {steps}, room)"


def _guard(operands: list[tuple[Operand, type]]) -> str | None:
    """The condition of the fast path. None: never."""
    found: list[str] = []
    for operand, kind in operands:
        if operand.kind is not None:
            if operand.kind is not kind:
                return None
            continue
        found.append(f"type({operand.name}) is {kind.__name__}")
        if kind is int and operand.steps is not None:
            found.append(f"LEAST <= {operand.name} <= MOST")
    return " and ".join(found) if found else "True"
