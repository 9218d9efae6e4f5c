"""What a codec writes, it reads: the value is the same, or it is refused when it is written."""

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.codecs.test_fuzz import damaged, examples as payloads_of
from tests.examples import examples
from walflow.codecs import make, registered
from walflow.errors import CannotDecode, CannotEncode

NAMES = sorted(set(registered().of("walflow")) - {"null"})  # null reads and writes nothing
FAITHFUL: dict[str, type] = {  # and of which values: `string` writes others as JSON
    "json": object,
    "msgpack": object,
    "tremor": object,
    "yaml": object,
    "string": str,
    "binary": bytes,
}
texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    [
        "",
        " ",
        "\t",
        "\n",
        "\\",
        '"',
        "a\\",
        "#",
        ",",
        "=",
        "\t=",
        "\r",
        "\0",
        "a:b|c",
        "~",
        "null",
        "1",
        "-",
        "[x]",
        "\ud800",
    ]
)
numbers = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=True) | st.integers(-3, 3)
scalars = st.none() | st.booleans() | numbers | texts | st.binary(max_size=4)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
names = texts | st.sampled_from(["a", "host", "m"])
tags = st.dictionaries(names, texts, max_size=3)


def fields(**of: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Records with some of these members."""
    return st.fixed_dictionaries({}, optional=of)


shaped = {
    "influx": fields(
        measurement=names,
        tags=tags,
        fields=st.dictionaries(names, texts | numbers | st.booleans(), min_size=1, max_size=3),
        timestamp=st.integers(-(1 << 63), 1 << 63),
    ),
    "statsd": fields(
        metric=names,
        type=st.sampled_from(["c", "ms", "g", "h", "s", "x"]),
        value=numbers | texts,
        action=st.sampled_from(["add", "sub", "x"]),
        sample_rate=numbers,
    ),
    "dogstatsd": fields(
        metric=fields(
            metric=names,
            type=st.sampled_from(["c", "ms", "g", "h", "s", "d"]),
            values=st.lists(numbers, max_size=2),
            tags=st.lists(names, max_size=2),
            sample_rate=numbers,
        ),
        event=fields(title=names, text=texts, tags=st.lists(names, max_size=2), hostname=names),
        service_check=fields(name=names, status=st.integers(-1, 5), tags=st.lists(names, max_size=2), message=texts),
    ),
    "graphite-plaintext": fields(metric=names, value=numbers, timestamp=st.integers(-5, 1 << 40), tags=tags),
    "csv": st.lists(texts | numbers | st.booleans(), max_size=4),
    "string": texts,
    "binary": st.binary(max_size=5),
    "syslog": fields(
        severity=st.sampled_from(["err", "info", "x"]),
        facility=st.sampled_from(["kern", "user", "x"]),
        hostname=names,
        appname=names,
        msg=texts,
        procid=names | st.integers(0, 5),
        msgid=names,
        protocol=st.sampled_from(["RFC5424", "RFC3164"]),
        protocol_version=st.integers(0, 3),
        timestamp=st.integers(0, 1 << 61),
        structured_data=st.dictionaries(
            names, st.lists(st.dictionaries(names, texts, max_size=2), max_size=2), max_size=2
        ),
    ),
}


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def read_again(name: str, value: object) -> None:
    codec = make(name, payloads_of(name)[0])
    try:
        written = codec.encode(value)
    except CannotEncode:
        return
    once = codec.decode(written)  # a CannotDecode is what is looked for
    kind = FAITHFUL.get(name)
    if kind is not None and isinstance(value, kind):
        assert same(once, value), (value, written, once)
    again = codec.encode(once)
    assert again == written or same(codec.decode(again), once), (value, written, once, again)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_can_be_read(name: str) -> None:
    @settings(max_examples=examples(400))
    @given(shaped.get(name, values) | values)
    def check(value: object) -> None:
        read_again(name, value)

    check()


def syslog_kept(read: Any, value: Any) -> tuple[object, object]:
    """Without what is documented: it writes what a line must have and this one had not, `#012` for a newline, and in
    RFC 3164 no year."""
    lost = {"timestamp"} if value.get("protocol") == "RFC3164" else set[str]()
    lost |= {key for key, one in value.items() if not str(one).isprintable() or "\\" in str(one)}
    kept = value.keys() - lost
    return {key: read[key] for key in kept}, {key: value[key] for key in kept}


@pytest.mark.parametrize("name", ["json", "msgpack", "tremor"])
@pytest.mark.parametrize("value", [math.inf, [math.nan], {"a": -math.inf}])
def test_a_number_that_json_has_not_is_not_written(name: str, value: object) -> None:
    with pytest.raises(CannotEncode):
        make(name, {}).encode(value)


def test_a_process_without_a_program_is_kept() -> None:
    read_again("syslog", {"protocol": "RFC3164", "appname": "-", "procid": "0"})


@pytest.mark.parametrize("name", NAMES)
def test_what_was_read_is_written_and_read_as_the_same(name: str) -> None:
    config, payloads = payloads_of(name)
    codec = make(name, config)

    @settings(max_examples=examples(400))
    @given(st.sampled_from(payloads), st.randoms(use_true_random=False))
    def check(payload: bytes, rng: Random) -> None:
        data = damaged(payload, rng)
        try:
            value = codec.decode(data)
        except CannotDecode:
            return
        try:
            written = codec.encode(value)
        except CannotEncode:
            return
        read = codec.decode(written)
        if name == "syslog":
            read, value = syslog_kept(read, value)
        assert same(read, value), (data, value, written)

    check()


@pytest.mark.parametrize("fields", [{"0": 1.1125369292536007e-308}, {"\\,": False}, {"a": "\\,"}])
def test_influx_writes_only_what_it_reads(fields: dict[str, object]) -> None:
    """Red: a number below the normal ones, and a name with a backslash before a separator,
    were written and not read."""
    read_again("influx", {"measurement": "m", "fields": fields})
