"""What a term means, the plainest way: one event, one function a kind of term, nothing in line and nothing projected.

It shares the operators and functions with what is compiled, and no more: what it says is what generated code must say.
"""

from typing import cast

from walflow.compile.program import (
    ArrayOf,
    BinaryOf,
    CallOf,
    Const,
    KeyBy,
    KeyStep,
    MergeOf,
    PackOf,
    PatchOf,
    PresentOf,
    ReadPath,
    RecordOf,
    Term,
    TextOf,
    UnaryOf,
    WholeTerm,
)
from walflow_kernel import bits, paths, records
from walflow_kernel.errors import CannotApply, Missing
from walflow_kernel.moment import Moment
from walflow_kernel.operators import BINARY, boolean, unary
from walflow_kernel.text import joined, spliced
from walflow_kernel.values import is_out_of_range, out_of_range


class Interpreter:
    def __init__(self, event: object, meta: dict[str, object], moment: Moment) -> None:
        self._event = event
        self._meta = meta
        self._moment = moment

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
            case WholeTerm():
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
