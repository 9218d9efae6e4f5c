"""Of every part of a value it is known where it was written."""

from walflow.compile.constant import Constant, ConstantPart
from walflow.diagnostics import Source, Span

TEXT = '{"a": [1, {"b": 2}]}'


def at(written: str, value: object, **parts: ConstantPart) -> Constant:
    begin = TEXT.index(written)
    return Constant(value, Span(SOURCE, begin, begin + len(written)), dict(parts.items()))


SOURCE = Source("main.troy", TEXT)
TWO = at("2", 2)
INNER = at('{"b": 2}', {"b": 2}, b=ConstantPart(at('"b"', "b").span, TWO))
ARRAY = Constant([1, {"b": 2}], at('[1, {"b": 2}]', 0).span, {1: ConstantPart(INNER.span, INNER)})
RECORD = at(TEXT, {"a": [1, {"b": 2}]}, a=ConstantPart(at('"a"', "a").span, ARRAY))


def test_as_deep_as_it_was_written() -> None:
    assert RECORD.find([]) is RECORD
    assert RECORD.find(["a", 1, "b"]) is TWO
    assert RECORD.find(["a", 1, "str", "b"]) is INNER
    assert RECORD.find(["z"]) is RECORD


def test_where_a_key_stands() -> None:
    assert RECORD.key_span(["a"]).text == '"a"'
    assert RECORD.key_span(["a", 1, "b"]).text == '"b"'
    assert RECORD.key_span(["a", 1, "z"]).text == '{"b": 2}'
    assert RECORD.key_span([]).text == TEXT
