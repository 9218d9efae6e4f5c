"""YAML 1.2's core schema, as far as it has the values that JSON has; what would build objects or swell is refused."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from tests.codecs.adversarial import SIZE, linear, look_at, repeated
from tests.codecs.test_msgpack import INTEGER
from tests.examples import examples
from walflow.codecs.yaml import DEEPEST, YAML
from walflow.errors import CannotDecode, CannotEncode

# YAML 1.2.2, 2 and 10.3.2; and what 1.1 reads otherwise
READ: list[tuple[str, object]] = [
    ("- Mark McGwire\n- Sammy Sosa\n- Ken Griffey\n", ["Mark McGwire", "Sammy Sosa", "Ken Griffey"]),  # example 2.1
    ("hr:  65    # Home runs\navg: 0.278 # Batting average\nrbi: 147", {"hr": 65, "avg": 0.278, "rbi": 147}),  # 2.2
    (
        "american:\n- Boston Red Sox\n- Detroit Tigers\nnational:\n- New York Mets\n",  # 2.3
        {"american": ["Boston Red Sox", "Detroit Tigers"], "national": ["New York Mets"]},
    ),
    ("Mark McGwire: {hr: 65, avg: 0.278}", {"Mark McGwire": {"hr": 65, "avg": 0.278}}),  # 2.6
    ("--- >\n  Mark McGwire's\n  year was crippled\n", "Mark McGwire's year was crippled\n"),  # 2.14
    ("A null: null\nBooleans: [true, True, false, FALSE]", {"A null": None, "Booleans": [True, True, False, False]}),
    ("Integers: [0, 0o7, 0x3A, -19]", {"Integers": [0, 7, 0x3A, -19]}),  # 10.3.2
    ("Floats: [0., -0.0, .5, +12e03, -2E+05]", {"Floats": [0.0, -0.0, 0.5, 12000.0, -200000.0]}),
    ("[yes, no, on, off, 1_000, 1:30, 2001-12-14, =, <<]",
     ["yes", "no", "on", "off", "1_000", "1:30", "2001-12-14", "=", "<<"]),
    ('["1", \'true\', ! x, !!str 1]', ["1", "true", "x", "1"]),
    ("", None),
    ("snot: badger", {"snot": "badger"}),  # tremor's
    ("~", None),
    ("99999999999999999999", 1e20),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), READ[:10] + READ[11:])
def test_documents(text: str, value: object) -> None:
    assert YAML.decode(text.encode()) == value
    assert YAML.decode(YAML.encode(value)) == value


REFUSED = [
    ("", "0 documents"),
    ("--- 1\n--- 2", "2 documents"),
    ("[a", "not yaml"),
    ("a: \x07", "control characters"),
    ("&a [*a]", "an alias"),
    ("a: &a 1\nb: *a", "an alias"),
    ("1: a", "a key that is no string"),
    ("? [a]\n: b", "a key that is no string"),
    ("a: 1\na: 2", "the key 'a' twice"),
    (".inf", "infinity or NaN"),
    ("[-.INF]", "infinity or NaN"),
    ("!!python/object/apply:os.system [echo]", "the tag"),
    ("!!binary aGk=", "the tag"),
    ("!!set {a}", "the tag"),
    ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested deeper"),
    ("%A b\n" * 20 + "--- 1", "directives"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CannotDecode, match=reason):
        YAML.decode(text.encode())


def test_bytes_that_are_not_utf_8() -> None:
    with pytest.raises(CannotDecode, match="not UTF-8"):
        YAML.decode(b"a: \xff")


LEAF = st.none() | st.booleans() | INTEGER | st.floats(allow_nan=False, allow_infinity=False)
LOOKS_LIKE = st.sampled_from(
    [
        "",
        "~",
        "null",
        "True",
        "yes",
        "1",
        "1e3",
        "0o7",
        "0x1",
        ".5",
        ".inf",
        "+1",
        "- a",
        "a: b",
        "# c",
        "<<",
        "=",
        "%a",
        "--- a",
    ]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | LOOKS_LIKE
VALUE = st.recursive(
    LEAF | TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=8
)


@settings(max_examples=examples(100))
@given(VALUE)
def test_values_come_back(value: object) -> None:
    assert YAML.decode(YAML.encode(value)) == value


@pytest.mark.parametrize("value", [math.inf, 1 << 64, b"x", object(), "\ud800", {"a": [math.nan]}])
def test_what_cannot_be_written(value: object) -> None:
    with pytest.raises(CannotEncode, match="not yaml"):
        YAML.encode(value)


def test_neither_depth_nor_the_same_value_twice_is_a_trap() -> None:
    value: list[object] = []
    for _ in range(DEEPEST + 1):
        value = [value]
    with pytest.raises(CannotEncode, match="nested deeper"):
        YAML.encode(value)
    twice = {"a": 1}
    assert b"&" not in YAML.encode([twice, twice])


@given(st.text(st.sampled_from("a1:-[]{},'\"|>!&*#?% \n~")).map(str.encode) | st.binary(max_size=20))
def test_any_bytes_are_a_value_or_refused(payload: bytes) -> None:
    look_at(YAML, payload)


@linear
def test_a_megabyte() -> None:
    for payload in repeated(
        "[", "{", "- ", "? ", "[a: ", "{a: ", "%TAG !a! t\n", "'", '"\\', "&a ", "!a ", "a: b\n "
    ):
        look_at(YAML, payload)
    directives = "".join(f"%TAG !{number}! t\n" for number in range(SIZE // 20))
    look_at(YAML, directives.encode())


@pytest.mark.parametrize("text", ["6bffadf5-54b3", "1x", "-a", "+1 2", "0b2"])
def test_what_only_begins_like_a_number_is_not_quoted(text: str) -> None:
    assert YAML.encode({"a": text}) == f"a: {text}\n".encode()
    assert YAML.decode(YAML.encode({"a": text})) == {"a": text}
