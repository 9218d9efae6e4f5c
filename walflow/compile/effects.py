"""Terms that set locals, or have effects -> statements: `let`, `match`, `for`, functions, the ends of a script.

A script is a loop that runs once, so `emit` and `drop` leave it by `break` from any depth. A `for` on the way checks
whether the script was left.

A case of `match` is tested by one expression, so cases are a chain of `elif`. Cases with a guard, or with expressions
in their patterns, test a flag instead. So does a chain that is too long for Python.

`let` never changes a value in place: it makes new records around the assigned value. So no name ever sees a change
made by another name, and what has left a script stays as it was.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from walflow.compile.expressions import Base, Expressions, Further, Here, Keys, Operand, is_kept, lent
from walflow.compile.listing import Listing
from walflow.compile.program import (
    AggregateOf,
    ArrayOf,
    CaseOf,
    DropOf,
    EmitOf,
    ForOf,
    FunctionOf,
    InvokeOf,
    KeyStep,
    LetOf,
    LocalTerm,
    MatchOf,
    RecurOf,
    ReturnOf,
    StepsOf,
    Term,
    WholeTerm,
    ends,
    walk,
)
from walflow.diagnostics import Span
from walflow_kernel.generated import NAMES
from walflow_kernel.patterns import (
    Anything,
    Equals,
    EqualsGiven,
    Extracts,
    FieldTest,
    Pattern,
    RecordPattern,
    TuplePattern,
)
from walflow_kernel.records import MOST_TURNS

LONGEST_CHAIN: Final = 50  # of `elif`; CPython ends at 3,000


class Leaving(NamedTuple):
    """A way out of a script. `kept`: the event leaves unchanged."""

    port: str
    kept: bool


DROPPED: Final = 0


@dataclass
class ScriptExits:
    """`verdict`: the local that says how the script ended: DROPPED, or the number of one of `ways`, from 1 on.
    `made`: the local with what leaves."""

    verdict: str
    made: str
    ways: list[Leaving] = field(default_factory=list[Leaving])
    drops: bool = False

    def number(self, way: Leaving) -> int:
        if way not in self.ways:
            self.ways.append(way)
        return self.ways.index(way) + 1


class _Tested(NamedTuple):
    """An expression that tests whether a pattern matches, and one for the value that the pattern makes."""

    test: str
    made: str


_FITS: Final = "True"


class Effects(Expressions):
    """`functions`: the functions written in the language, as Python functions beside the helpers."""

    exits: ScriptExits | None = None
    cell = ""  # of the script: where its state stands
    bound = 0  # bytes that it may have
    _functions: Mapping[FunctionOf, str] = {}
    _unjudged: frozenset[str] = frozenset()  # locals that may hold a number out of range

    def local(self, term: LocalTerm) -> Operand:
        name = self.slot(term.slot)
        if not term.sure:
            with self.listing.block(f"if {name} is ABSENT:", term.span):
                self.listing.put(f"raise unset({self.table.constant(term.name)})", term.span)
        return Operand(name, "SOMEWHERE" if name in self._unjudged else None)

    def _name(self, local: LocalTerm, code: str) -> None:
        """Names a value that a pattern or `for` has found within another value. It is checked where it is read."""
        name = self.slot(local.slot)
        self._unjudged |= {name}
        self.listing.put(f"{name} = {code}", local.span)

    def further(self, term: Further, here: Here) -> Operand:
        match term:
            case MatchOf():
                return self._match(term, here)
            case ForOf():
                return self._for(term, here)
            case InvokeOf():
                names = [self.atom(argument, here) for argument in term.arguments]
                return self.put(f"{self._function(term.function)}({', '.join(names)})", term.span)
            case StepsOf():
                return self._steps(term.steps, here)
            case AggregateOf():
                return self._aggregate(term, here)
            case LetOf():
                return self._let(term, here)
            case EmitOf():
                return self._emit(term, here)
            case DropOf():
                assert self.exits is not None
                self.exits.drops = True
                self.listing.put(f"{self.exits.verdict} = {DROPPED}", term.span)
                return self._left("break")
            case ReturnOf():
                value = self.atom(term.value, here)
                return self._left(f"return {value}")
            case RecurOf():
                names = [self.atom(argument, here) for argument in term.arguments]
                return self._left("continue", [self.slot(at + 1) for at in range(len(names))], names)

    def _aggregate(self, term: AggregateOf, here: Here) -> Operand:
        if term.aggregate is None:
            return self.put(f"len({here.groups})", term.span, int)
        result, option = self.table.add("f", term.aggregate.result), self.table.constant(term.option)
        return self.put(f"{result}({here.frame}, {term.at}, {option})", term.span)

    def _left(self, way: str, targets: Sequence[str] = (), values: Sequence[str] = ()) -> Operand:
        if targets:
            self.listing.put(f"{', '.join(targets)} = {', '.join(values)}")
        self.listing.put(way)
        return Operand("None")

    def _steps(self, steps: Sequence[Term], here: Here) -> Operand:
        found = Operand("None")
        for step in steps:
            found = self.operand(step, here)
            if ends(step):
                break
        return found

    def _body(self, body: Term, result: str, here: Here) -> None:
        """Of a case: its value becomes `result`, unless it ends what it is in."""
        if ends(body):
            self.operand(body, here)
        else:
            self.listing.put(f"{result} = {self.atom(body, here)}", body.span)

    # ---- let

    def _let(self, term: LetOf, here: Here) -> Operand:
        value = self.atom(term.value, here)
        if isinstance(term.target, WholeTerm) and term.target.root == "state":
            return self._let_state(term, value, here)
        if isinstance(term.target, WholeTerm):
            name = here.base(term.target.root).name
            assert name is not None, "what is assigned to is needed whole"
        else:
            name = self.slot(term.target.slot) if not term.steps else self.local(term.target).name
        if not term.steps:
            self.listing.put(f"{name} = {value}", term.span)
            return Operand(value)
        first = term.steps[0]
        if len(term.steps) == 1 and isinstance(first, KeyStep):
            step = self.table.add("s", first.step)
            copied = self.put(f"{{**{name}}} if type({name}) is dict else opened({name}, {step})", term.span).name
            self.listing.put(f"{copied}[{self.table.constant(first.key)}] = {value}", term.span)
            self.weighed(Operand(copied), term.span)
            self.listing.put(f"{name} = {copied}", term.span)
            return Operand(value)
        keys = [
            self.table.constant(step.key) if isinstance(step, KeyStep) else self.atom(step.key, here)
            for step in term.steps
        ]
        steps = self.table.add("s", tuple(step.step for step in term.steps))
        self.listing.put(f"{name} = assigned({name}, ({', '.join(keys)},), {value}, {steps})", term.span)
        self.weighed(Operand(name), term.span)
        return Operand(value)

    def _let_state(self, term: LetOf, value: str, here: Here) -> Operand:
        """In place: no container of the state is part of any other value."""
        name = here.base("state").name
        bound = self.table.constant(self.bound)
        if not term.steps:
            with self.listing.block(f"if type({value}) in SMALL:", term.span):
                self.listing.put(f"{name} = {self.cell}[0] = {value}", term.span)
            with self.listing.block("else:", term.span):
                self.listing.put(f"{name} = replaced({self.cell}, {value}, {bound})", term.span)
            return Operand(value)
        keys = [
            self.table.constant(step.key) if isinstance(step, KeyStep) else self.atom(step.key, here)
            for step in term.steps
        ]
        steps = self.table.add("s", tuple(step.step for step in term.steps))
        full = f"assign({self.cell}, ({', '.join(keys)},), {value}, {steps}, {bound})"
        if len(keys) > 1:
            self.listing.put(full, term.span)
            return Operand(value)
        # a member that exists, or that the script names, cannot make the state too large
        known = isinstance(term.steps[0], KeyStep) or f"type({keys[0]}) is str and {keys[0]} in {name}"
        quick = f"type({value}) in SMALL and type({name}) is dict{'' if known is True else f' and {known}'}"
        with self.listing.block(f"if {quick}:", term.span):
            self.listing.put(f"{name}[{keys[0]}] = {value}", term.span)
        with self.listing.block("else:", term.span):
            self.listing.put(full, term.span)
        return Operand(value)

    # ---- scripts and functions

    def _emit(self, term: EmitOf, here: Here) -> Operand:
        exits = self.exits
        assert exits is not None
        if term.value is not None:
            self.listing.put(f"{exits.made} = {self.atom(term.value, here)}", term.span)
        number = exits.number(Leaving(term.port, term.value is None))
        self.listing.put(f"{exits.verdict} = {number}", term.span)
        return self._left("break")

    def _function(self, function: FunctionOf) -> str:
        if function in self._functions:
            return self._functions[function]
        name = f"j{len(self._functions)}"
        self._functions = {**self._functions, function: name}
        assert function.body is not None
        outer = self.listing
        inner = self.listing = Listing()
        with inner.block(f"def {name}({', '.join(self.slot(one.slot) for one in function.parameters)}):"):
            inner.comment(function.span)
            if function.recurs:
                with inner.block(f"for _ in range({MOST_TURNS}):"):
                    self._written(function)
                inner.put(f"raise endless({self.table.constant(function.name)})", function.span)
            else:
                self._written(function)
        self.listing = outer
        self._helpers.append(inner)
        return name

    def _written(self, function: FunctionOf) -> None:
        for slot in function.unsure:
            self.listing.put(f"{self.slot(slot)} = ABSENT")
        assert function.body is not None
        self.operand(function.body, Here(Base(None), Base(None)))

    # ---- for

    def _for(self, term: ForOf, here: Here) -> Operand:
        of = self.atom(term.of, here)
        made = self.temporary()
        if term.start is None:
            self.listing.put(f"{made} = []", term.span)
        else:
            start = self.atom(term.start, here)
            self.listing.put(f"{made} = {_own(start) if term.fold == '+' else start}", term.span)
        size = self.temporary() if self.weighs and (term.start is None or term.fold == "+") else None
        if size is not None:  # what is made grows in place, so it is not weighed before it is whole
            self.listing.put(f"{size} = 0" if term.start is None else f"{size} = grown(0, {made}, {{}})", term.span)
        leaves = any(isinstance(one, EmitOf | DropOf) for one in walk(term))
        if leaves:
            assert self.exits is not None
            self.listing.put(f"{self.exits.verdict} = None")
        key, value = self.temporary(), self.temporary()
        self.uses([of], term.span)
        with self.listing.block(f"for {key}, {value} in entries({of}):", term.span):
            for case in term.cases:
                self._name(case.key, key)
                self._name(case.value, value)
                if case.guard is None:
                    self._turn(case.body, made, size, term, here)
                    break
                holds = self.temporary()
                self.verdict("when", holds, case.guard, here)
                with self.listing.block(f"if {holds}:", case.span):
                    self._turn(case.body, made, size, term, here)
                    if case is not term.cases[-1] and not ends(case.body):
                        self.listing.put("continue")
        if leaves:
            assert self.exits is not None
            with self.listing.block(f"if {self.exits.verdict} is not None:"):
                self.listing.put("break")
        return Operand(made)

    def _turn(self, body: Term, made: str, size: str | None, term: ForOf, here: Here) -> None:
        if ends(body):
            self.operand(body, here)
            return
        value = self.atom(body, here)
        if term.start is None:
            self.listing.put(f"{made}.append({value})", body.span)
            if size is not None:
                self.listing.put(f"{size} = grown({size}, {value}, weights)", body.span)
        elif term.fold in {"and", "or"}:
            symbol = self.table.constant(term.fold)
            self.listing.put(f"{made} = boolean({symbol}, {made})", body.span)
            self.listing.put(f"{made} = boolean({symbol}, {value}) {term.fold} {made}", body.span)
            # what this side decides, no further turn is asked about
            with self.listing.block(f"if {'not ' if term.fold == 'and' else ''}{made}:", body.span):
                self.listing.put("break")
        elif term.fold == "+":
            with self.listing.block(f"if type({made}) is list:", body.span):
                self.listing.put(f"{made}.append({value})", body.span)
            with self.listing.block("else:", body.span):
                self.listing.put(f"{made} = gathered({made}, {value})", body.span)
            if size is not None:
                self.listing.put(f"{size} = grown({size}, {value}, weights)", body.span)
        else:
            self.listing.put(f"{made} = {NAMES[term.fold]}({made}, {value})", body.span)

    # ---- match

    def _match(self, term: MatchOf, here: Here) -> Operand:
        result = "None" if ends(term) else self.temporary()
        subject = self._subject(term, here)
        if len(term.cases) > LONGEST_CHAIN or any(case.guard is not None or case.given for case in term.cases):
            self._flagged(term, subject, result, here)
        else:
            self._chained(term, subject, result, here)
        return Operand(result)

    def _subject(self, term: MatchOf, here: Here) -> "_Subject":
        if term.reads is not None:
            assert isinstance(term.of, WholeTerm)
            return _Subject(base=here.base(term.of.root), kept=is_kept(term.of))
        if isinstance(term.of, ArrayOf) and all(
            case.bind is None
            and (
                case.pattern is None
                or (isinstance(case.pattern, TuplePattern) and len(case.pattern.items) == len(term.of.items))
            )
            for case in term.cases
        ):
            return _Subject(elements=[self.atom(item, here) for item in term.of.items])
        operand = self.operand(term.of, here)
        if operand.kept:
            return _Subject(name=self.sound(operand._replace(kept=False), term.span), kept=True)
        return _Subject(name=self.sound(operand, term.of.span))

    def _chained(self, term: MatchOf, subject: "_Subject", result: str, here: Here) -> None:
        word = "if"
        for case in term.cases:
            tested = self._tested(case, subject, ())
            if tested.test == _FITS and word == "if":
                self._taken(case, tested, subject, result, here)
                return
            with self.listing.block("else:" if tested.test == _FITS else f"{word} {tested.test}:", case.span):
                self._taken(case, tested, subject, result, here)
            if tested.test == _FITS:
                return
            word = "elif"
        with self.listing.block("else:"):
            self.listing.put("raise no_case()", term.span)

    def _taken(self, case: CaseOf, tested: _Tested, subject: "_Subject", result: str, here: Here) -> None:
        if case.bind is not None:
            self._name(case.bind, subject.bound(tested.made))
        self._body(case.body, result, here)

    def _flagged(self, term: MatchOf, subject: "_Subject", result: str, here: Here) -> None:
        # if each case ends what it is in, no flag is needed to skip the others
        waits = None if all(ends(case.body) for case in term.cases) else self.temporary("g")
        if waits is not None:
            self.listing.put(f"{waits} = True")
        for case in term.cases:
            with self._if(waits, case.span):
                given = [self.atom(one, here) for one in case.given]
                tested = self._tested(case, subject, given)
                with self._if(None if tested.test == _FITS else tested.test, case.span):
                    if case.bind is not None:
                        self._name(case.bind, subject.bound(tested.made))
                    holds = None
                    if case.guard is not None:
                        holds = self.temporary()
                        self.verdict("when", holds, case.guard, here)
                    with self._if(holds, case.span):
                        if waits is not None:
                            self.listing.put(f"{waits} = False")
                        self._body(case.body, result, here)
            if tested.test == _FITS and case.guard is None:
                return
        with self._if(waits, term.span):
            self.listing.put("raise no_case()", term.span)

    @contextmanager
    def _if(self, condition: str | None, span: Span) -> Generator[None]:
        """None: always true."""
        if condition is None:
            yield
            return
        with self.listing.block(f"if {condition}:", span):
            yield

    # ---- patterns

    def _tested(self, case: CaseOf, subject: "_Subject", given: Sequence[str]) -> _Tested:
        pattern = case.pattern
        if pattern is None or isinstance(pattern, Anything):
            return _Tested(_FITS, subject.name or "None")
        if subject.base is not None:
            assert isinstance(pattern, RecordPattern)
            return self._by_paths(pattern, subject.base, (), given)
        if subject.elements is not None:
            assert isinstance(pattern, TuplePattern)
            tested = [
                self._test(item, name, given) for item, name in zip(pattern.items, subject.elements, strict=True)
            ]
            return _Tested(_all([one.test for one in tested]), f"[{', '.join(one.made for one in tested)}]")
        assert subject.name is not None
        return self._test(pattern, subject.name, given)

    def _by_paths(self, pattern: RecordPattern, base: Base, above: Keys, given: Sequence[str]) -> _Tested:
        """For a record of which only paths are bound."""
        tests: list[str] = []
        made: list[str] = []
        for one in pattern.fields:
            keys = (*above, one.key)
            if isinstance(one.pattern, RecordPattern) and one.pattern.fields:
                tested = self._by_paths(one.pattern, base, keys, given)
            else:
                name = base.paths.get(keys)
                if name is None:
                    assert base.name is not None
                    name = self.temporary()
                    tests.append(f"(({name} := {self.reached(base.name, keys)}), True)[1]")
                if one.word == "absent":
                    tests.append(f"{name} is ABSENT")
                    continue
                tested = self._field(one, name, given, there=False)
            tests.append(tested.test)
            made.append(f"{self.table.constant(one.store)}: {tested.made}")
        return _Tested(_all(tests), f"{{{', '.join(made)}}}")

    def _test(self, pattern: Pattern, name: str, given: Sequence[str], *, there: bool = True) -> _Tested:
        """`there`: the local has a value in any case."""
        match pattern:
            case Anything():
                return _Tested(_FITS if there else _present(name), name)
            case Equals():
                return _Tested(self._equal(name, pattern.value), self.table.constant(pattern.value))
            case EqualsGiven():
                known = given[pattern.at]
                first = f"compared({name}, {known}, weights) is None and " if self.weighs else ""
                return _Tested(f"({first}same({name}, {known}))", known)
            case RecordPattern():
                return self._record(pattern, name, given)
            case _:
                found = self.temporary()
                if isinstance(pattern, Extracts) and there:
                    code = f"{self.table.add('P', pattern.extract)}({name})"
                else:
                    values = f", ({', '.join(given)},)" if given else ""
                    code = f"fits({self.table.add('P', pattern)}, {name}{values})"
                return _Tested(f"({found} := {code}) is not NO_MATCH", found)

    def _record(self, pattern: RecordPattern, name: str, given: Sequence[str]) -> _Tested:
        tests = [f"type({name}) is dict"]
        made: list[str] = []
        for one in pattern.fields:
            key = self.table.constant(one.key)
            if one.word == "absent":
                tests.append(f"{key} not in {name}")
                continue
            member = self.temporary()
            tests.append(f"({member} := {name}.get({key}, ABSENT)) is not ABSENT")
            tested = self._field(one, member, given, there=True)
            tests.append(tested.test)
            made.append(f"{self.table.constant(one.store)}: {tested.made}")
        return _Tested(_all(tests), f"{{{', '.join(made)}}}")

    def _field(self, one: FieldTest, name: str, given: Sequence[str], *, there: bool) -> _Tested:
        if one.word == "present":
            return _Tested(_FITS if there else _present(name), name)
        if one.word == "fits":
            assert one.pattern is not None
            return self._test(one.pattern, name, given, there=there)
        if one.given is not None:
            return _Tested(f"holds({self.table.constant(one.word)}, {name}, {given[one.given]})", name)
        if one.word == "==":
            return _Tested(self._equal(name, one.value), name)
        return _Tested(self._compared(one.word, name, one.value), name)

    def _equal(self, name: str, value: object) -> str:
        const = self.table.constant(value)
        full = f"same({name}, {const})"
        if type(value) is str:
            return f"({name} == {const} if type({name}) is str else {full})"
        if type(value) is int:
            return f"({name} == {const} if type({name}) is int and LEAST <= {name} <= MOST else {full})"
        if value is None or type(value) is bool:
            return f"({name} is {value} if type({name}) in PLAIN else {full})"
        return full

    def _compared(self, symbol: str, name: str, value: object) -> str:
        const = self.table.constant(value)
        full = f"holds({self.table.constant(symbol)}, {name}, {const})"
        if type(value) is str:
            return f"({name} {symbol} {const} if type({name}) is str else {full})"
        if type(value) in {int, float} and symbol != "!=":
            number = f"type({name}) is float or type({name}) is int and LEAST <= {name} <= MOST"
            return f"({name} {symbol} {const} if {number} else {full})"
        return full


@dataclass
class _Subject:
    """What is matched: a value, a record of which only paths are bound, or several values."""

    name: str | None = None
    base: Base | None = None
    elements: Sequence[str] | None = None
    kept: bool = False  # it stands in the state

    def bound(self, made: str) -> str:
        """What a pattern has made, for a local."""
        return lent(made) if self.kept else made


def _own(start: str) -> str:
    """What a `for` begins with: what it gathers in becomes an array or a record that no other value is part of."""
    return f"{start}.copy() if type({start}) is list or type({start}) is dict else {start}"


def _all(tests: Sequence[str]) -> str:
    return " and ".join(test for test in tests if test != _FITS) or _FITS


def _present(name: str) -> str:
    return f"{name} is not ABSENT and type({name}) is not Lost"
