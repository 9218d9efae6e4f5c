"""statsd, dogstatsd, graphite and influx: the examples of their specifications and tremor's, both ways,
and what is refused."""

import math
import re

import pytest
from hypothesis import given, settings, strategies as st

from tests.codecs.adversarial import linear, look_at, repeated
from tests.examples import examples
from walflow.codecs.dogstatsd import DOGSTATSD
from walflow.codecs.graphite import GRAPHITE_PLAINTEXT
from walflow.codecs.influx import INFLUX
from walflow.codecs.per_event import EventCodec
from walflow.codecs.statsd import STATSD
from walflow.errors import CannotDecode, CannotEncode
from walflow.framing import LINES
from walflow_kernel.extractors.influx import MEMBERS

Vector = tuple[EventCodec, str, object, str | None]

# what is written, where it is not the same text
VECTORS: list[Vector] = [
    # statsd/docs/metric_types.md
    (STATSD, "gorets:1|c", {"metric": "gorets", "type": "c", "value": 1}, None),
    (STATSD, "gorets:1|c|@0.1", {"metric": "gorets", "type": "c", "value": 1, "sample_rate": 0.1}, None),
    (STATSD, "glork:320|ms|@0.1", {"metric": "glork", "type": "ms", "value": 320, "sample_rate": 0.1}, None),
    (STATSD, "gaugor:333|g", {"metric": "gaugor", "type": "g", "value": 333}, None),
    (STATSD, "gaugor:-10|g", {"metric": "gaugor", "type": "g", "value": 10, "action": "sub"}, None),
    (STATSD, "gaugor:+4|g", {"metric": "gaugor", "type": "g", "value": 4, "action": "add"}, None),
    (STATSD, "uniques:765|s", {"metric": "uniques", "type": "s", "value": 765}, None),
    (STATSD, "uniques:007|s", {"metric": "uniques", "type": "s", "value": "007"}, None),
    (STATSD, "uniques:ann|s", {"metric": "uniques", "type": "s", "value": "ann"}, None),
    # tremor's
    (STATSD, "horst:42.23|h", {"metric": "horst", "type": "h", "value": 42.23}, None),
    (STATSD, "foo:1620649445.3351967|h", {"metric": "foo", "type": "h", "value": 1620649445.3351967}, None),
    (STATSD, "down:-5|c", {"metric": "down", "type": "c", "value": -5}, None),
    # docs.datadoghq.com, DogStatsD: datagram format and shell usage
    (
        DOGSTATSD,
        "page.views:1|c",
        {"metric": {"metric": "page.views", "type": "c", "values": [1.0]}},
        None,
    ),
    (
        DOGSTATSD,
        "fuel.level:0.5|g",
        {"metric": {"metric": "fuel.level", "type": "g", "values": [0.5]}},
        None,
    ),
    (
        DOGSTATSD,
        "users.online:1|c|@0.5|#country:china",
        {
            "metric": {
                "metric": "users.online",
                "type": "c",
                "values": [1.0],
                "sample_rate": 0.5,
                "tags": ["country:china"],
            }
        },
        None,
    ),
    (
        DOGSTATSD,
        "dog:111:222:4.44|g|@0.5|#foo:bar,fizz:buzz|c:123abc",
        {
            "metric": {
                "metric": "dog",
                "type": "g",
                "values": [111.0, 222.0, 4.44],
                "sample_rate": 0.5,
                "tags": ["foo:bar", "fizz:buzz"],
                "container_id": "123abc",
            }
        },
        None,
    ),
    (
        DOGSTATSD,
        "page.views:15|c|#env:dev|T1656581400",
        {"metric": {"metric": "page.views", "type": "c", "values": [15.0], "tags": ["env:dev"],
         "timestamp": 1656581400}},
        None,
    ),
    (
        DOGSTATSD,
        "unique:ann:007:7|s",
        {"metric": {"metric": "unique", "type": "s", "values": ["ann", "007", 7.0]}},
        None,
    ),
    (
        DOGSTATSD,
        "_e{21,36}:An exception occurred|Cannot parse CSV file from 10.0.0.17|t:warning|#err_type:bad_file",
        {
            "event": {
                "title": "An exception occurred",
                "text": "Cannot parse CSV file from 10.0.0.17",
                "type": "warning",
                "tags": ["err_type:bad_file"],
            }
        },
        None,
    ),
    (
        DOGSTATSD,
        "_e{5,6}:caf\xe9|a|b\xe9f|d:1620649445|h:web|k:key|p:low|s:src|t:info|#a,b|c:1f",
        {
            "event": {
                "title": "caf\xe9",
                "text": "a|b\xe9f",
                "timestamp": 1620649445,
                "hostname": "web",
                "aggregation_key": "key",
                "priority": "low",
                "source": "src",
                "type": "info",
                "tags": ["a", "b"],
                "container_id": "1f",
            }
        },
        None,
    ),
    (
        DOGSTATSD,
        "_sc|Redis connection|2|#env:dev|m:Redis connection timed out after 10s",
        {
            "service_check": {
                "name": "Redis connection",
                "status": 2,
                "tags": ["env:dev"],
                "message": "Redis connection timed out after 10s",
            }
        },
        None,
    ),
    (DOGSTATSD, "_sc|up|0", {"service_check": {"name": "up", "status": 0}}, None),
    (DOGSTATSD, "a:1|c|zz:unknown", {"metric": {"metric": "a", "type": "c", "values": [1.0]}}, "a:1|c"),
    # graphite.readthedocs.io, feeding carbon; tremor's
    (GRAPHITE_PLAINTEXT, "beep.boop 7 1620649445", {"metric": "beep.boop", "value": 7, "timestamp": 1620649445},
     None),
    (GRAPHITE_PLAINTEXT, "local.random 320.0 -1", {"metric": "local.random", "value": 320.0}, None),
    (GRAPHITE_PLAINTEXT, "a;tag=x  -1e3\t1.5\r", {"metric": "a;tag=x", "value": -1000.0, "timestamp": 1.5},
     "a;tag=x -1000.0 1.5"),
    # docs.influxdata.com, line protocol; tremor's
    (
        INFLUX,
        "weather,location=us-midwest temperature=82.0 1465839830100400200",
        {
            "measurement": "weather",
            "tags": {"location": "us-midwest"},
            "fields": {"temperature": 82.0},
            "timestamp": 1465839830100400200,
        },
        None,
    ),
    (
        INFLUX,
        r'weather,location=us\,midwest,z\ y=x too\ hot="it \"is\" \\",wet=t,wind=3i',
        {
            "measurement": "weather",
            "tags": {"location": "us,midwest", "z y": "x"},
            "fields": {"too hot": 'it "is" \\', "wet": True, "wind": 3},
        },
        r'weather,location=us\,midwest,z\ y=x too\ hot="it \"is\" \\",wet=true,wind=3i',
    ),
    (INFLUX, r"wea\,ther temp\=erature=1.0", {"measurement": "wea,ther", "tags": {}, "fields": {"temp=erature": 1.0}},
     None),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "text", "event", "written"), VECTORS, ids=lambda value: str(value)[:30])
def test_vectors(codec: EventCodec, text: str, event: object, written: str | None) -> None:
    assert codec.decode(text.encode()) == event
    assert codec.encode(event) == (text if written is None else written).encode()


REFUSED: list[tuple[EventCodec, str, str]] = [
    (STATSD, "", "it is name:value"),
    (STATSD, "gorets", "it is name:value"),
    (STATSD, "gorets:1", "it is name:value"),
    (STATSD, "gorets:1|x", "it is name:value"),
    (STATSD, ":1|c", "it is name:value"),
    (STATSD, "gorets:1|c|0.1", "it is name:value"),
    (STATSD, "gorets:one|c", "no number"),
    (STATSD, "gorets:1e999|c", "no number"),
    (STATSD, "gorets:--1|g", "no number"),
    (STATSD, "gorets:1|c|@x", "sample rate"),
    (STATSD, "gorets:" + "9" * 5000 + "|c", "no number"),
    (DOGSTATSD, "dog:111", "a metric is"),
    (DOGSTATSD, "dog:|c", "a value is no number"),
    (DOGSTATSD, "dog:nan|c", "a value is no number"),
    (DOGSTATSD, "dog:1|c|@x", "the sample rate"),
    (DOGSTATSD, "dog:1|c|T-1", "a timestamp"),
    (DOGSTATSD, "_e{1,1}:ab|c", "as long as it says"),
    (DOGSTATSD, "_e{1,100}:a|c", "as long as it says"),
    (DOGSTATSD, "_e{1,1}:a|bc", "as long as it says"),
    (DOGSTATSD, "_e{1}:a", "an event is"),
    (DOGSTATSD, "_e{1,1}:\xe9|a", "not UTF-8"),  # half of a character
    (DOGSTATSD, "_sc|x|4", "a status is"),
    (DOGSTATSD, "_sc|x", "a status is"),
    (GRAPHITE_PLAINTEXT, "", "a path, a value"),
    (GRAPHITE_PLAINTEXT, "a 1", "a path, a value"),
    (GRAPHITE_PLAINTEXT, "a 1 2 3", "a path, a value"),
    (GRAPHITE_PLAINTEXT, "a x 1", "the value is no number"),
    (GRAPHITE_PLAINTEXT, "a 1 -2", "the timestamp"),
    (INFLUX, "", "line protocol"),
    (INFLUX, "# comment", "line protocol"),
    (INFLUX, "weather", "line protocol"),
    (INFLUX, "a x=nan", "line protocol"),
    (INFLUX, "a x=99999999999999999999i", "line protocol"),
    (INFLUX, "a " + ",".join(f"f{number}=1" for number in range(MEMBERS + 2)), "more than 4096 commas"),
]


@pytest.mark.parametrize(("codec", "text", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_refused_costs_only_itself(codec: EventCodec, text: str, reason: str) -> None:
    good = next(vector[1] for vector in VECTORS if vector[0] is codec).encode()
    bad = text.encode("latin-1" if "UTF" in reason else "utf-8")
    with pytest.raises(CannotDecode, match=reason):
        codec.decode(bad)
    verdict = codec.validate(LINES.join([good, bad, good]), LINES)
    assert verdict.good is not None
    assert verdict.good.payloads() == [good, good]
    assert [payload for payload, _ in verdict.bad] == [bad]


UNWRITABLE: list[tuple[EventCodec, object, str]] = [
    *[(codec, "x", "only a record") for codec in (STATSD, DOGSTATSD, GRAPHITE_PLAINTEXT, INFLUX)],
    (STATSD, {}, "metric is missing"),
    (STATSD, {"metric": 1, "type": "c"}, "metric is a whole number, and no string"),
    (STATSD, {"metric": "a|b", "type": "c", "value": 1}, "metric is 'a|b'"),
    (STATSD, {"metric": "a\n", "type": "c", "value": 1}, "newline"),
    (STATSD, {"metric": "a", "type": "x", "value": 1}, "type is 'x'"),
    (STATSD, {"metric": "a", "type": "c"}, "value is missing"),
    (STATSD, {"metric": "a", "type": "c", "value": True}, "value is true"),
    (STATSD, {"metric": "a", "type": "c", "value": math.inf}, "and no number"),
    (STATSD, {"metric": "a", "type": "c", "value": 10**400}, "and no number"),
    (STATSD, {"metric": "a", "type": "s", "value": "x|y"}, "no | or newline"),
    (STATSD, {"metric": "a", "type": "g", "value": -1}, "below 0"),
    (STATSD, {"metric": "a", "type": "g", "value": 1, "action": "set"}, "action is 'set'"),
    (STATSD, {"metric": "a", "type": "c", "value": 1, "sample_rate": "x"}, "sample_rate is a string"),
    (STATSD, {"metric": "\ud800", "type": "c", "value": 1}, "surrogate"),
    (DOGSTATSD, {}, "none of metric, event, service_check"),
    (DOGSTATSD, {"metric": 1}, "only a record"),
    (DOGSTATSD, {"metric": {"metric": "a", "type": "c", "values": []}}, "at least one value"),
    (DOGSTATSD, {"metric": {"metric": "_e{1", "type": "c", "values": [1]}}, "begins as an event"),
    (DOGSTATSD, {"metric": {"metric": "a", "type": "c", "values": [1], "tags": ["a,b"]}}, "a tag"),
    (DOGSTATSD, {"metric": {"metric": "a", "type": "c", "values": [1], "tags": "a"}}, "tags is a string"),
    (DOGSTATSD, {"event": {"title": "a\nb", "text": ""}}, "newline"),
    (DOGSTATSD, {"event": {"title": "a", "text": "", "timestamp": -1}}, "timestamp"),
    (DOGSTATSD, {"event": {"title": "a", "text": "", "hostname": "a|b"}}, "hostname has a"),
    (DOGSTATSD, {"service_check": {"name": "a", "status": 4}}, "status is not 0 to 3"),
    (GRAPHITE_PLAINTEXT, {"metric": "a b", "value": 1}, "no space"),
    (GRAPHITE_PLAINTEXT, {"metric": "a", "value": "1"}, "value is a string"),
    (GRAPHITE_PLAINTEXT, {"metric": "a", "value": 1, "timestamp": -5}, "below 0"),
    (INFLUX, {"measurement": "a"}, "fields is missing"),
    (INFLUX, {"measurement": "a", "fields": []}, "fields is an array"),
    (INFLUX, {"measurement": "", "fields": {"a": 1}}, "cannot be a name"),
    (INFLUX, {"measurement": "a\\", "fields": {"a": 1}}, "ends in a backslash"),
    (INFLUX, {"measurement": "#a", "fields": {"a": 1}}, "would be a comment"),
    (INFLUX, {"measurement": "a", "fields": {"a": 1}, "timestamp": (1 << 63) - 1}, "in 64 bits"),
    (INFLUX, {"measurement": "a", "fields": {"a": None}}, "a is missing"),
    (INFLUX, {"measurement": "a", "fields": {"a": 1}, "tags": {"b": 1}}, "b is a whole number"),
    (INFLUX, {"measurement": "a", "fields": {"a": 1}, "timestamp": 1.5}, "timestamp is a decimal number"),
]


@pytest.mark.parametrize(("codec", "value", "reason"), UNWRITABLE, ids=lambda value: str(value)[:30])
def test_what_cannot_be_written(codec: EventCodec, value: object, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason.replace("|", r"\|")):
        codec.encode(value)


NUMBER = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
NORMAL = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(
    allow_nan=False,
    allow_infinity=False,
    allow_subnormal=False,  # which the parser refuses
)
NAME = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters='#:|,="\\'), min_size=1
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|\n"))
RATE = {"sample_rate": st.floats(0, 1, exclude_min=True)}
STATSD_EVENT = st.fixed_dictionaries(
    {"metric": NAME, "type": st.sampled_from(["c", "ms", "h", "s"]), "value": NUMBER}, optional=RATE
)
GAUGE = st.fixed_dictionaries(
    {
        "metric": NAME,
        "type": st.just("g"),
        "value": st.integers(0, 1 << 63) | st.floats(0, allow_infinity=False).map(abs),
    },
    optional={**RATE, "action": st.sampled_from(["add", "sub"])},
)
TAGS = {"tags": st.lists(NAME, min_size=1, max_size=3), "container_id": NAME}
TIME = {"timestamp": st.integers(0, (1 << 32) - 1)}
METRIC = st.fixed_dictionaries(
    {
        "metric": NAME.filter(lambda name: not name.startswith("_e{")),
        "type": st.sampled_from(["c", "d", "g", "h", "ms", "s"]),
        "values": st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4),
    },
    optional={**RATE, **TAGS, **TIME},
)
EVENT = st.fixed_dictionaries(
    {"title": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")), "text": TEXT},
    optional={
        **TAGS,
        **TIME,
        "hostname": TEXT,
        "aggregation_key": TEXT,
        "priority": TEXT,
        "source": TEXT,
        "type": TEXT,
    },
)
CHECK = st.fixed_dictionaries(
    {"name": NAME, "status": st.integers(0, 3)}, optional={**TAGS, **TIME, "hostname": TEXT, "message": TEXT}
)
DATAGRAM = (
    st.fixed_dictionaries({"metric": METRIC})
    | st.fixed_dictionaries({"event": EVENT})
    | st.fixed_dictionaries({"service_check": CHECK})
)
GRAPHITE_EVENT = st.fixed_dictionaries(
    {"metric": NAME, "value": NUMBER}, optional={"timestamp": st.integers(0, 1 << 40)}
)
KEY = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda key: not re.search(r"\\([,= ]|$)", key) and not key.startswith("#") and key.strip() == key
)
INFLUX_EVENT = st.fixed_dictionaries(
    {
        "measurement": KEY,
        "tags": st.dictionaries(KEY, KEY, max_size=3),
        "fields": st.dictionaries(
            KEY,
            st.booleans() | NORMAL | TEXT.filter(lambda text: "\0" not in text),
            min_size=1,
            max_size=3,
        ),
    },
    optional={"timestamp": st.integers(0, (1 << 63) - 2)},
)  # fmt: skip


@settings(max_examples=examples(100))
@pytest.mark.parametrize(
    ("codec", "events"),
    [
        (STATSD, STATSD_EVENT),
        (STATSD, GAUGE),
        (DOGSTATSD, DATAGRAM),
        (GRAPHITE_PLAINTEXT, GRAPHITE_EVENT),
        (INFLUX, INFLUX_EVENT),
    ],
    ids=["statsd", "gauge", "dogstatsd", "graphite", "influx"],
)
@given(data=st.data())
def test_events_come_back(codec: EventCodec, events: st.SearchStrategy[object], data: st.DataObject) -> None:
    event = data.draw(events)
    written = codec.encode(event)
    assert codec.decode(written) == event
    assert b"\n" not in written


FRAGMENTS = st.sampled_from(
    ["a", "1", ":", "|", "c", "@", "#", ",", "=", " ", '"', "\\", "_e{", "_sc|", "}", "T", "-", "\n"]
)


@settings(max_examples=examples(200))
@pytest.mark.parametrize("codec", [STATSD, DOGSTATSD, GRAPHITE_PLAINTEXT, INFLUX], ids=lambda codec: codec.name)
@given(payload=st.lists(FRAGMENTS, max_size=12).map("".join).map(str.encode) | st.binary(max_size=20))
def test_any_bytes_are_an_event_or_refused(codec: EventCodec, payload: bytes) -> None:
    try:
        event = codec.decode(payload)
    except CannotDecode:
        return
    try:
        written = codec.encode(event)
    except CannotEncode:
        return
    assert codec.decode(written) == event or codec is INFLUX  # -0i


@linear
@pytest.mark.parametrize("codec", [STATSD, DOGSTATSD, GRAPHITE_PLAINTEXT, INFLUX], ids=lambda codec: codec.name)
@pytest.mark.test
def test_a_megabyte(codec: EventCodec) -> None:
    for payload in repeated("a:1|c", ":1", "|#a,", "_e{1,1}:", "9", ".", " ", "a x=1,", '"', "\\", "\\,"):
        look_at(codec, payload)
