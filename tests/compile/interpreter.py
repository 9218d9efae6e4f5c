"""What a term means, the plainest way: one event, one function a kind of term, nothing in line and nothing projected.

It shares the operators and functions with what is compiled, and no more: what it says is what generated code must
say.
"""

from typing import Any, NamedTuple, cast

from walflow.compile.program import (
    AggregateOf,
    ArrayOf,
    BinaryOf,
    CallOf,
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
    ScriptOf,
    StepsOf,
    Term,
    TextOf,
    UnaryOf,
    WholeTerm,
)
from walflow_kernel import bits, paths, patterns, records
from walflow_kernel.errors import CannotApply, Missing
from walflow_kernel.extractors import NO_MATCH
from walflow_kernel.moment import Moment
from walflow_kernel.operators import BINARY, boolean, unary
from walflow_kernel.state import DEEPEST, taken_apart
from walflow_kernel.text import joined, spliced
from walflow_kernel.values import TOO_DEEP, is_out_of_range, kind_of, out_of_range


class Outcome(NamedTuple):
    """How a script ended: `port` is None where it dropped the event; `kept`: the event leaves as it came."""

    port: str | None
    value: object = None
    kept: bool = False


class Left(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class Returned(Exception):
    def __init__(self, value: object) -> None:
        self.value = value


class Again(Exception):
    def __init__(self, arguments: list[object]) -> None:
        self.arguments = arguments


def apart(value: object) -> object:
    """A copy that shares nothing, however deep it nests."""
    top = [value]
    waiting: list[tuple[Any, Any]] = [(top, 0)]  # where in a container a value still stands that others hold
    while waiting:
        within, key = waiting.pop()
        one = within[key]
        if isinstance(one, dict | list):
            copied: Any = one.copy()
            within[key] = copied
            waiting += [(copied, inner) for inner in (copied if isinstance(one, dict) else range(len(copied)))]
    return top[0]


class Interpreter:
    def __init__(
        self,
        event: object,
        meta: dict[str, object],
        moment: Moment,
        kept: list[object] | None = None,
        group: object = None,
    ) -> None:
        """`kept`: of one element, the state, which is made anew for each change."""
        self._event = event
        self._kept = kept
        self._group = group
        self._meta = meta
        self._moment = moment
        self._locals: dict[int, object] = {}

    @property
    def meta(self) -> dict[str, object]:
        return self._meta

    @property
    def event(self) -> object:
        return self._event

    def run(self, script: ScriptOf) -> Outcome:
        """Changes in place, of copies."""
        self._event, self._meta = apart(self._event), cast("dict[str, object]", apart(self._meta))
        try:
            self.value(script.body)
        except Left as left:
            return left.outcome
        raise AssertionError("a script ends in what leaves")

    def value(self, term: Term) -> object:
        """Raises CannotEvaluate."""
        found = self._value(term)
        if is_out_of_range(found):
            raise out_of_range()
        return found

    def _value(self, term: Term) -> object:
        match term:
            case Const():
                return term.value
            case AggregateOf():
                raise AssertionError("what a window gives is compared with a model of its own")
            case WholeTerm():
                if term.root == "state":
                    assert self._kept is not None
                    return self._kept[0]
                if term.root == "group":
                    return self._group
                return self._event if term.root == "event" else self._meta
            case ReadPath():
                return self._read(term)
            case TextOf():
                return joined([part if isinstance(part, str) else spliced(self.value(part)) for part in term.parts])
            case ArrayOf():
                return [self.value(item) for item in term.items]
            case RecordOf():
                return {self.value(key): self.value(value) for key, value in term.fields}
            case CallOf():
                return self._call(term)
            case UnaryOf():
                value = self.value(term.operand)
                for symbol in term.symbols:
                    value = unary(symbol, value)
                return value
            case BinaryOf():
                return self._binary(term)
            case PresentOf():
                try:
                    self._value(term.of)
                except Missing:
                    return not term.wanted
                return term.wanted
            case MergeOf():
                of, spec = self.value(term.of), self.value(term.spec)
                return records.merged(of, spec)
            case PatchOf():
                return self._patch(term)
            case PackOf():
                return bits.packed([put(self.value(value)) for value, put in term.fields])
            case LocalTerm():
                if term.slot not in self._locals:
                    raise paths.unset(term.name)
                return self._locals[term.slot]
            case StepsOf():
                for step in term.steps[:-1]:
                    self._value(step)
                return self.value(term.steps[-1])
            case LetOf():
                return self._let(term)
            case EmitOf():
                value = None if term.value is None else apart(self.value(term.value))
                raise Left(Outcome(term.port, value, term.value is None))
            case DropOf():
                raise Left(Outcome(None))
            case ReturnOf():
                raise Returned(self.value(term.value))
            case RecurOf():
                raise Again([self.value(one) for one in term.arguments])
            case InvokeOf():
                return self._invoke(term)
            case MatchOf():
                return self._match(term)
            case ForOf():
                return self._for(term)

    def _let(self, term: LetOf) -> object:
        value = apart(self.value(term.value))
        if isinstance(term.target, WholeTerm) and term.target.root == "state":
            self._let_state(term, value)
            return value
        if not term.steps:
            if isinstance(term.target, LocalTerm):
                self._locals[term.target.slot] = value
            else:
                assert term.target.root == "event"
                self._event = value
            return value
        within = self._value(term.target)
        for at, step in enumerate(term.steps):
            key = step.key if isinstance(step, KeyStep) else self.value(step.key)
            records.opened(within, step.step)
            assert isinstance(within, dict)
            if not isinstance(key, str):
                raise CannotApply(f"`{step.step.path}`: `{step.step.shown}` is {kind_of(key)}, not a key")
            if at == len(term.steps) - 1:
                within[key] = value
            elif key in within:
                within = within[key]
            else:
                within[key] = {}
                within = within[key]
        return value

    def _let_state(self, term: LetOf, value: object) -> None:
        """All of it or nothing."""
        assert self._kept is not None
        keys = [step.key if isinstance(step, KeyStep) else self.value(step.key) for step in term.steps]
        if taken_apart(value).depth + len(keys) > DEEPEST:
            raise CannotApply(TOO_DEEP)
        made = [apart(self._kept[0])]
        within: Any = made
        at: Any = 0
        for key, step in zip(keys, term.steps, strict=True):
            if not isinstance(key, str):
                raise CannotApply(f"`{step.step.path}`: `{step.step.shown}` is {kind_of(key)}, not a key")
            records.opened(within[at], step.step)
            within, at = within[at], key
            within.setdefault(at, {})
        within[at] = value
        self._kept[0] = made[0]

    def _invoke(self, term: InvokeOf) -> object:
        arguments = [apart(self.value(argument)) for argument in term.arguments]
        function = term.function
        assert function.body is not None
        for _ in range(records.MOST_TURNS):
            inner = Interpreter(None, {}, self._moment)
            inner._locals = {one.slot: value for one, value in zip(function.parameters, arguments, strict=True)}
            try:
                inner.value(function.body)
            except Returned as returned:
                return returned.value
            except Again as again:
                arguments = again.arguments
        raise records.endless(function.name)

    def _match(self, term: MatchOf) -> object:
        of = self.value(term.of) if term.reads is None else self._value(term.of)
        for case in term.cases:
            given = [self.value(one) for one in case.given]
            found = of if case.pattern is None else patterns.fits(case.pattern, of, given)
            if found is NO_MATCH:
                continue
            if case.bind is not None:
                self._locals[case.bind.slot] = found
            if case.guard is None or boolean("when", self.value(case.guard)):
                return self.value(case.body)
        raise patterns.no_case()

    def _for(self, term: ForOf) -> object:
        of = self.value(term.of)
        made: list[object] = []
        result = None if term.start is None else self.value(term.start)
        for key, value in list(records.entries(apart(of))):
            for case in term.cases:
                self._locals |= {case.key.slot: key, case.value.slot: value}
                if case.guard is not None and not boolean("when", self.value(case.guard)):
                    continue
                one = self.value(case.body)
                made.append(one)
                if term.start is not None:
                    result = self._folded(term.fold, result, one)
                break
            if term.start is not None and made and result is {"and": False, "or": True}.get(term.fold):
                break
        return made if term.start is None else result

    def _folded(self, symbol: str, left: object, right: object) -> object:
        if symbol in {"and", "or"}:
            sides = [boolean(symbol, left), boolean(symbol, right)]
            return all(sides) if symbol == "and" else any(sides)
        if symbol == "+" and isinstance(left, list):
            return [*cast("list[object]", left), right]
        if symbol == "+" and isinstance(left, dict):
            return {**cast("dict[str, object]", left), **records.record_of("into", right)}
        return BINARY[symbol](left, right)

    def _read(self, term: ReadPath) -> object:
        found = self._value(term.of)
        for step in term.steps:
            if isinstance(step, KeyStep):
                found = paths.member(found, step.key, step.step)
            elif isinstance(step, KeyBy):
                found = paths.member_by(found, self.value(step.key), step.step)
            else:
                begin, end = self.value(step.begin), self.value(step.end)
                found = paths.part(found, begin, end, step.step)
        return found

    def _call(self, term: CallOf) -> object:
        values = [self.value(argument.term) for argument in term.arguments]
        moment = [] if term.function.when == "load" else [self._moment]
        try:
            for at, argument in enumerate(term.arguments):
                if argument.take is not None:
                    values[at] = argument.take(values[at])
            return term.function.apply(*moment, *values)
        except CannotApply as refused:
            raise CannotApply(f"`{term.name}`: {refused}") from None

    def _binary(self, term: BinaryOf) -> object:
        symbol = term.rest[0][0]
        if symbol in {"and", "or"}:
            decisive = symbol == "or"
            for operand in (term.first, *(operand for _, operand in term.rest)):
                if boolean(symbol, self.value(operand)) is decisive:
                    return decisive
            return not decisive
        value = self.value(term.first)
        for symbol, operand in term.rest:
            value = BINARY[symbol](value, self.value(operand))
        return value

    def _patch(self, term: PatchOf) -> object:
        made = records.record_of("patch", self.value(term.of)).copy()
        for word, key_term, value_term in term.changes:
            key = None if key_term is None else cast("str", self.value(key_term))
            if word == "insert" and key is not None:
                records.vacant(word, made, key)
            elif word == "update" and key is not None:
                records.occupied(made, key)
            elif word == "default" and key is not None and key in made:
                continue
            value = None if value_term is None else self.value(value_term)
            records.change(word, key)(made, value)
        return made
