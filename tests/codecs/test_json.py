"""Batch validation says what line-by-line parsing would say, and never miscounts."""

import random
import re
from collections.abc import Iterator
from itertools import accumulate

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from walflow.codecs import JSON, JSON_SORTED
from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Codec
from walflow.framing import LINES, WHOLE
from walflow_kernel import sound
from walflow_kernel.json import DEEPEST


def by_line(data: bytes) -> list[bool]:
    """The oracle: each line alone, by another parser."""
    verdicts = []
    for line in data.split(b"\n")[:-1]:
        try:
            orjson.loads(line)
            verdicts.append(depth_of(line) <= DEEPEST)
        except orjson.JSONDecodeError as error:
            verdicts.append("infinity" in str(error))  # documented: a number beyond a double's range passes
    return verdicts


def depth_of(line: bytes) -> int:
    text = re.sub(rb'"(\\.|[^"\\])*"', b"", line)
    return max(accumulate((one in b"[{") - (one in b"]}") for one in text), default=0)


def check(data: bytes) -> None:
    expected = by_line(data)
    verdict = JSON.validate(data, LINES)
    lines = data.split(b"\n")[:-1]
    good = [line for line, is_good in zip(lines, expected, strict=True) if is_good]
    bad = [line for line, is_good in zip(lines, expected, strict=True) if not is_good]
    assert (verdict.good.count if verdict.good else 0) == len(good), data
    assert (verdict.good.data if verdict.good else b"") == b"".join(line + b"\n" for line in good), data
    assert [payload for payload, _ in verdict.bad] == bad, data


brackets = st.recursive(
    st.sampled_from([b"1", b'"]{["', b'"\\"["', b'"\\\\"', b"[]", b"{}"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda some: b"[" + b",".join(some) + b"]"),
        st.lists(inner, max_size=2).map(
            lambda some: b"{" + b",".join(b'"%d[":%b' % (at, one) for at, one in enumerate(some)) + b"}"
        ),
    ),
    max_leaves=20,
)


@given(brackets, st.integers(0, 30))
def test_how_deep_brackets_nest_is_known_without_a_step_for_each(value: bytes, around: int) -> None:
    value = b"[" * around + value + b"]" * around
    depth = depth_of(value)
    for most in range(max(depth - 2, 0), depth + 3):
        assert sound.nests_deeper(value, most) == (depth > most)


@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST + 1])
@pytest.mark.parametrize("unit", [(b"[", b"]"), (b'{"":', b"}")], ids=["arrays", "records"])
@pytest.mark.test
def test_a_megabyte_of_brackets_is_judged_in_few_steps(depth: int, unit: tuple[bytes, bytes]) -> None:
    """A step is a match of the one expression that is run in Python. Before, there was one for each bracket."""
    opened, closed = unit
    one = opened * (depth - 1) + b"1" + closed * (depth - 1)
    line = b"[" + b",".join([one] * ((1 << 20) // len(one))) + b"]\n"
    steps = 0
    runs = sound.runs

    def counted(brackets: bytes) -> Iterator[re.Match[bytes]]:
        nonlocal steps
        for run in runs(brackets):
            steps += 1
            yield run

    assert sound.nests_deeper(line, DEEPEST, counted) is (depth > DEEPEST)
    assert steps < 5000
    assert steps == 1 or depth <= DEEPEST
    assert bool(JSON.validate(line, LINES).bad) is (depth > DEEPEST)


TRICKY = [
    b'{"a":\n1}\n{"b":2}\n',
    b"[\n]\n",
    b"\n",
    b"\n\n\n",
    b'{"a":1}{"b":2}\n',
    b"1 2\n",
    b'{"a":1}\r\n{"b":2}\r\n',
    b'{"a":1}\r\n{"b":2}\n',
    b'"a\nb"\n',
    b" 1\n",
    b"1 \n",
    b"\xff\n1\n",
    b'"\xff"\n',
    b'"\xed\xa0\x80"\n',
    b"\xef\xbb\xbf1\n",
    b'"\\ud800"\n',
    b"1e999\n",
    b"-1e999\n2\n",
    b"9" * 400 + b"\n",
    b"NaN\n",
    b"[1,\n2]\n3\n",
    b'{"a":"\\\n"}\n',
    b"[" * 5000 + b"\n",
    b"[" * 513 + b"]" * 513 + b"\n",
    b"[" * 512 + b"]" * 512 + b"\n",
    b'["' + b"[" * 600 + b'"]\n',
    b'["\\"[' + b"[" * 600 + b'"]\n',
    b'{"a":[' + b'[{"b":[' * 200 + b"]}]" * 200 + b"]}\n",
    b"[" * 900 + b"]" * 900 + b"\n",
    b"[" * 100_000 + b"]" * 100_000 + b"\n1\n",
    b"1\n\x00\n2\n",
    b"true\nfalse\nnull\n",
]


@pytest.mark.parametrize("data", TRICKY, ids=lambda data: repr(data[:24]))
def test_tricky_reads_are_judged_line_by_line(data: bytes) -> None:
    check(data)
    check(b'{"ok":1}\n' * 100 + data + b'{"ok":2}\n' * 100)


JSON_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(JSON_VALUE, min_size=1, max_size=20))
def test_what_the_encoder_writes_is_valid_and_comes_back(values: list[object]) -> None:
    data = LINES.join([JSON.encode(value) for value in values])
    verdict = JSON.validate(data, LINES)
    assert verdict.good is not None
    assert verdict.good.count == len(values)
    assert not verdict.bad
    assert [JSON.decode(payload) for payload in verdict.good.payloads()] == values


@settings(max_examples=examples(500))
@given(st.lists(st.binary(max_size=12) | st.sampled_from([b'{"a":1}', b"[1,2]", b'"x"', b"7"]), max_size=90))
def test_arbitrary_bytes_among_good_lines(pieces: list[bytes]) -> None:
    check(b"".join(piece + b"\n" for piece in pieces))


LEVELS = st.integers(505, 520)
DEEP = st.builds(lambda kinds, level: nested(kinds, level), st.lists(st.sampled_from("[{k,"), min_size=1), LEVELS)
LONG = st.builds(
    lambda piece, times: b"[%s]" % b",".join([piece] * times), st.sampled_from([b"[]", b'"["', b"0"]), LEVELS
)
SHORT = st.sampled_from([b"{}", b'{"a":[1,{"b":[]}]}', b'"%s"' % (b"[" * 1200), b'"\\"' + b"{" * 1200 + b'"'])


def nested(kinds: list[str], level: int) -> bytes:
    """`level` levels, of those kinds in turn: an array, an object, an object with a key,
    an array with a value more."""
    opens = {"[": b"[", "{": b'{"":', "k": b'{"a[{":', ",": b"[0,"}
    text = b"".join(opens[kinds[at % len(kinds)]] for at in range(level))
    return text + b"0" + b"".join(b"]" if kinds[at % len(kinds)] in "[," else b"}" for at in reversed(range(level)))


@settings(max_examples=examples(300))
@given(st.lists(DEEP | LONG | SHORT, max_size=12))
@pytest.mark.test
def test_what_nests_too_deep_is_found_among_long_lines_and_short_ones(lines: list[bytes]) -> None:
    check(b"".join(line + b"\n" for line in lines))


@pytest.mark.nightly
def test_a_million_mutated_lines_are_judged_as_by_another_parser() -> None:
    """Differential: 10^6 lines in reads of 50, cut and spliced from valid JSON, newlines inside values included."""
    chance = random.Random(20261121)
    seeds = [
        b'{"id":1,"host":"a","v":[1,2.5e3,-7]}',
        b'["x\\n\\u00e9",{"k":null}]',
        b'"caf\xc3\xa9 \\"quoted\\""',
        b"18446744073709551617",
        b"-0.5E-3",
        b"true",
        b"{}",
    ]
    noise = b'{}[]",:\\ntr0e19.-+ \t\r\n\x00\xff\xc3u'
    checked = 0
    while checked < 1_000_000:
        read = bytearray()
        for _ in range(50):
            line = chance.choice(seeds)
            if chance.random() < 0.04:
                at = chance.randrange(len(line) + 1)
                cut = at + chance.randrange(3)
                line = line[:at] + bytes(chance.choices(noise, k=chance.randrange(3))) + line[cut:]
            read += line + b"\n"
        data = bytes(read)
        check(data)
        checked += LINES.count(data)


@pytest.mark.parametrize(
    "payload",
    [
        b"18446744073709551615",
        b"-9223372036854775808",
        b"[9999999999999999999]",
        b"0.1",
        b"42.0",
    ],
)
@pytest.mark.parametrize("codec", [JSON, JSON_SORTED])
def test_numbers_survive_being_written_anew(payload: bytes, codec: Codec) -> None:
    assert codec.encode(codec.decode(payload)) == payload


def test_sorted_sorts_at_every_depth_and_is_compact() -> None:
    value = JSON_SORTED.decode(b'{"b": {"z": 1, "a": 2}, "a": [ 3 ]}')
    assert JSON_SORTED.encode(value) == b'{"a":[3],"b":{"a":2,"z":1}}'
    large = JSON_SORTED.decode(b'{"b": 18446744073709551615, "a": "\xc3\xa9"}')
    assert JSON_SORTED.encode(large) == b'{"a":"\xc3\xa9","b":18446744073709551615}'


@pytest.mark.parametrize("number", [b"1e999", b"18446744073709551616", b"-9223372036854775809", b"9" * 5000])
def test_a_number_out_of_range_is_refused_where_it_would_be_written_anew(number: bytes) -> None:
    value = JSON_SORTED.decode(b'{"a":' + number + b"}")
    with pytest.raises(CannotEncode, match="not JSON"):
        JSON_SORTED.encode(value)


@pytest.mark.parametrize("payload", [b"", b"{", b"NaN", b"\xff", b"1 2", b'{"a":1}x', b"[" * 100_000])
def test_garbage_cannot_be_decoded(payload: bytes) -> None:
    with pytest.raises(CannotDecode):
        JSON.decode(payload)


@pytest.mark.parametrize(
    ("payload", "whole"), [(b'{"a":1}', True), (b"[1]", True), (b'"x"', True), (b"12", False), (b"null", True)]
)
def test_only_numbers_can_be_the_beginning_of_more(payload: bytes, whole: bool) -> None:
    assert JSON.whole(payload) is whole


def test_without_framing_a_read_is_one_event_however_many_lines() -> None:
    verdict = JSON.validate(b'{\n"a": 1\n}', WHOLE)
    assert verdict.good is not None
    assert verdict.good.count == 1
    assert JSON.validate(b'{"a":1}\n{"b":2}', WHOLE).good is None
