"""The examples of RFC 5424 and RFC 3164 and tremor's, both ways; any text is an event, and none of it is dropped."""

import calendar
import time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from tests.codecs.adversarial import linear, look_at, repeated
from tests.examples import examples
from walflow.codecs import make
from walflow.codecs.syslog import SYSLOG, Syslog
from walflow.codecs.syslog.names import FACILITIES, SEVERITIES
from walflow.errors import CannotDecode, CannotEncode, WalflowError
from walflow.event import Block, Codec, Frames, StreamId, codec_at
from walflow.framing import LINES, MESSAGES, TEXTUAL_LENGTH_PREFIXED
from walflow.receipt import Receipt

S = 10**9


def at(*moment: int) -> int:
    return calendar.timegm(moment) * S


def on(*day: int, zone: str | None = None) -> Syslog:
    """The codec, on that day."""
    now = calendar.timegm((*day, 12, 0, 0))
    return Syslog({}, ZoneInfo(zone or "UTC")).at(now * 10**9)


IN_2003 = on(2003, 12, 24)

# RFC 5424, 6.5, and what tremor makes of them.
IETF = [
    (
        (
            "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed for lonvick "
            "on /dev/pts/8"
        ),
        {
            "severity": "crit",
            "facility": "auth",
            "timestamp": at(2003, 10, 11, 22, 14, 15) + 3_000_000,
            "hostname": "mymachine.example.com",
            "appname": "su",
            "msgid": "ID47",
            "protocol": "RFC5424",
            "protocol_version": 1,
            "msg": "\ufeff'su root' failed for lonvick on /dev/pts/8",
        },
    ),
    (
        "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
        {
            "severity": "notice",
            "facility": "local4",
            "timestamp": at(2003, 8, 24, 12, 14, 15) + 3000,
            "hostname": "192.0.2.1",
            "appname": "myproc",
            "procid": "8710",
            "protocol": "RFC5424",
            "protocol_version": 1,
            "msg": "%% It's time to make the do-nuts.",
        },
    ),
    (
        (
            '<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut="3" '
            'eventSource="Application" eventID="1011"] \ufeffAn application event log entry...'
        ),
        {
            "severity": "notice",
            "facility": "local4",
            "timestamp": at(2003, 10, 11, 22, 14, 15) + 3_000_000,
            "hostname": "mymachine.example.com",
            "appname": "evntslog",
            "msgid": "ID47",
            "protocol": "RFC5424",
            "protocol_version": 1,
            "structured_data": {
                "exampleSDID@32473": [{"iut": "3"}, {"eventSource": "Application"}, {"eventID": "1011"}]
            },
            "msg": "\ufeffAn application event log entry...",
        },
    ),
    (
        (
            '<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut="3" '
            'eventSource="Application" eventID="1011"][examplePriority@32473 class="high"]'
        ),
        {
            "severity": "notice",
            "facility": "local4",
            "timestamp": at(2003, 10, 11, 22, 14, 15) + 3_000_000,
            "hostname": "mymachine.example.com",
            "appname": "evntslog",
            "msgid": "ID47",
            "protocol": "RFC5424",
            "protocol_version": 1,
            "structured_data": {
                "exampleSDID@32473": [{"iut": "3"}, {"eventSource": "Application"}, {"eventID": "1011"}],
                "examplePriority@32473": [{"class": "high"}],
            },
        },
    ),
    (
        "<191>1 - - - - - - message",
        {"severity": "debug", "facility": "local7", "protocol": "RFC5424", "protocol_version": 1, "msg": "message"},
    ),
    (
        "<0>1 1985-04-12T23:59:60Z - - - - [a@1]",  # a leap second; an element without parameters
        {
            "severity": "emerg",
            "facility": "kern",
            "timestamp": at(1985, 4, 13, 0, 0, 0),
            "protocol": "RFC5424",
            "protocol_version": 1,
            "structured_data": {"a@1": []},
        },
    ),
]


@pytest.mark.parametrize(("text", "event"), IETF)
def test_rfc_5424(text: str, event: dict[str, object]) -> None:
    assert SYSLOG.decode(text.encode()) == event
    assert SYSLOG.decode(SYSLOG.encode(event)) == event


def test_it_is_written_in_utc_with_six_digits_of_a_second() -> None:
    written = SYSLOG.encode(SYSLOG.decode(IETF[1][0].encode()))
    assert written.startswith(b"<165>1 2003-08-24T12:14:15.000003Z 192.0.2.1 myproc 8710 - - %%")
    assert SYSLOG.encode({"timestamp": 1_234_567_891}) == b"<13>1 1970-01-01T00:00:01.234567Z - - - - -"


# RFC 3164, 5.4, what `logger` writes, and tremor's own examples.
BSD: list[tuple[str, dict[str, object] | None]] = [
    (
        "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
        {
            "severity": "crit",
            "facility": "auth",
            "timestamp": at(2003, 10, 11, 22, 14, 15),
            "hostname": "mymachine",
            "appname": "su",
            "msg": "'su root' failed for lonvick on /dev/pts/8",
        },
    ),
    ("Use the BFG!", {"msg": "Use the BFG!"}),
    (
        "<165>Aug 24 05:34:00 CST 1987 mymachine myproc[10]: %% It's time",
        {
            "severity": "notice",
            "facility": "local4",
            "timestamp": at(2003, 8, 24, 5, 34, 0),
            "hostname": "CST",
            "appname": "1987",
            "msg": "mymachine myproc[10]: %% It's time",
        },
    ),
    (
        "<0>1990 Oct 22 10:52:01 TZ-6 scapegoat.dmz.example.org 10.1.2.3 sched[0]: That's All Folks!",
        {
            "severity": "emerg",
            "facility": "kern",
            "msg": "1990 Oct 22 10:52:01 TZ-6 scapegoat.dmz.example.org 10.1.2.3 sched[0]: That's All Folks!",
        },
    ),
    (
        "<13>Jan  5 15:33:03 74794bfb6795 root[8539]: i am foobar",
        {
            "severity": "notice",
            "facility": "user",
            "timestamp": at(2003, 1, 5, 15, 33, 3),
            "hostname": "74794bfb6795",
            "appname": "root",
            "procid": "8539",
            "msg": "i am foobar",
        },
    ),
    (
        "<13>Jan  5 15:33:03 root: over the machine's own socket, without a host",
        {
            "severity": "notice",
            "facility": "user",
            "timestamp": at(2003, 1, 5, 15, 33, 3),
            "appname": "root",
            "msg": "over the machine's own socket, without a host",
        },
    ),
    (
        "<34>OCT 11 2002 22:14:15 host tag:no space",
        {
            "severity": "crit",
            "facility": "auth",
            "timestamp": at(2002, 10, 11, 22, 14, 15),
            "hostname": "host",
            "appname": "tag",
            "msg": "no space",
        },
    ),
    (
        "<54>1970-01-01T00:01:31+00:00 host :",
        {"severity": "info", "facility": "lpr", "timestamp": 91 * S, "hostname": "host"},
    ),
    (
        "<34>Oct 11 22:14:15 : a message",
        {"severity": "crit", "facility": "auth", "timestamp": at(2003, 10, 11, 22, 14, 15), "msg": "a message"},
    ),
    (
        '<46>Jan  5 15:33:03 host rsyslogd: [origin software="rsyslogd"] start',
        {
            "severity": "info",
            "facility": "syslog",
            "timestamp": at(2003, 1, 5, 15, 33, 3),
            "hostname": "host",
            "appname": "rsyslogd",
            "structured_data": {"origin": [{"software": "rsyslogd"}]},
            "msg": "start",
        },
    ),
    (
        "<46>Jan  5 15:33:03 fe80::1 java[1]: \tat Main.main [stack trace]",
        {
            "severity": "info",
            "facility": "syslog",
            "timestamp": at(2003, 1, 5, 15, 33, 3),
            "hostname": "fe80::1",
            "appname": "java",
            "procid": "1",
            "msg": "\tat Main.main [stack trace]",
        },
    ),
    ("", {}),
    ("<192>no priority", {"msg": "<192>no priority"}),
    ("<13>Nov 31 00:00:00 no day", {"severity": "notice", "facility": "user", "msg": "Nov 31 00:00:00 no day"}),
    ("<13>1 2003-13-01T00:00:00Z a b c d - no", None),
    ("<13>1 9999-01-01T00:00:00Z a b c d - beyond 64 bits", None),
    ("<13>1 2003-01-01T00:00:00+24:00 a b c d - no", None),
]


@pytest.mark.parametrize(("text", "event"), BSD)
def test_rfc_3164(text: str, event: dict[str, object] | None) -> None:
    if event is None:  # no part that is not understood is dropped
        event = {"severity": "notice", "facility": "user", "msg": text[4:]}
    assert IN_2003.decode(text.encode()) == {"protocol": "RFC3164", **event}


@pytest.mark.parametrize("text", [text for text, event in BSD[:-1] if event and "timestamp" in event])
def test_rfc_3164_is_written_so_that_it_reads_the_same(text: str) -> None:
    event = IN_2003.decode(text.encode())
    if "2002" not in text and "1970" not in text:
        assert IN_2003.decode(IN_2003.encode(event)) == event


def test_what_rfc_3164_has_no_place_for_is_made_up() -> None:
    codec = on(1970, 1, 1)
    assert codec.encode(
        {"protocol": "RFC3164", "severity": "notice", "facility": "local4", "msg": "test message"}
    ) == (b"<165>Jan  1 12:00:00 - : test message")
    assert codec.encode({"protocol": "RFC3164", "timestamp": 0, "appname": "a", "procid": 7}) == (
        b"<13>Jan  1 00:00:00 - a[7]:"
    )


def test_the_year_is_that_of_the_reception_whenever_the_event_is_read() -> None:
    """An event of 2003, out of a log, and one without a timestamp that is written."""
    received = at(2003, 12, 24, 12, 0, 0)
    frames = Frames(b"<34>Oct 11 22:14:15 host su: x\n", 1, LINES)
    block = Block(StreamId("f::log", 1, 1), frames, SYSLOG, Receipt(lambda _: None, 1), ingest_ns=received, meta={})
    assert block.values == [IN_2003.decode(b"<34>Oct 11 22:14:15 host su: x")]
    block.receipt.ack()
    assert codec_at(SYSLOG, received).encode({"protocol": "RFC3164", "msg": "x"}).startswith(b"<13>Dec 24 12:00:00")


@pytest.mark.parametrize(
    ("today", "text", "year"),
    [
        ((2026, 1, 2), "Dec 31 23:59:59", 2025),
        ((2026, 12, 31), "Jan  1 00:00:00", 2027),  # a clock that is ahead
        ((2026, 6, 1), "Jun  8 00:00:00", 2026),
        ((2026, 6, 1), "Jun  9 00:00:00", 2025),
        ((2026, 3, 1), "Feb 29 00:00:00", 2024),
        ((2024, 3, 1), "Feb 29 00:00:00", 2024),
        ((2103, 1, 1), "Feb 29 00:00:00", 2096),
    ],
)
def test_the_year_is_the_latest_that_is_not_ahead(today: tuple[int, int, int], text: str, year: int) -> None:
    event = on(*today).decode(f"<13>{text} host app: x".encode())
    assert isinstance(event, dict)
    assert time.gmtime(event["timestamp"] // S).tm_year == year


def test_a_time_zone_is_that_of_the_senders() -> None:
    berlin = on(2026, 11, 22, zone="Europe/Berlin")
    winter = berlin.decode(b"<13>Nov 22 13:00:00 host app: x")
    summer = berlin.decode(b"<13>Jul 22 13:00:00 host app: x")
    assert isinstance(winter, dict)
    assert isinstance(summer, dict)
    assert winter["timestamp"] == at(2026, 11, 22, 12, 0, 0)
    assert summer["timestamp"] == at(2026, 7, 22, 11, 0, 0)
    assert berlin.encode(summer) == b"<13>Jul 22 13:00:00 host app: x"


def test_what_is_not_structured_data_stays_in_the_message() -> None:
    """tremor drops it."""
    for data in ("[incorrect x] message", '[a b="c"', '[a b="c"]d', '[a b="\\"]', "[]"):
        event = SYSLOG.decode(f"<13>1 - h a 1 - {data}".encode())
        assert isinstance(event, dict)
        assert event["msg"] == data
        assert "structured_data" not in event


def test_escapes_of_structured_data() -> None:
    event = SYSLOG.decode(rb'<13>1 - - - - - [a b="\"\\\]\n"][a c=""] x')
    assert isinstance(event, dict)
    assert event["structured_data"] == {"a": [{"b": '"\\]\\n'}, {"c": ""}]}
    assert SYSLOG.encode(event) == rb'<13>1 - - - - - [a b="\"\\\]\\n" c=""] x'


REFUSED: list[tuple[object, str]] = [
    ("text", "only a record can be written as syslog, not a string"),
    (None, "not null"),
    ({"facility": "snot"}, "facility is 'snot': it is one of kern"),
    ({"severity": "snot"}, "severity is 'snot': it is one of emerg"),
    ({"severity": {}}, "severity is {}"),
    ({"protocol": "snot"}, "protocol is 'snot'"),
    ({"protocol_version": 0}, "protocol_version is 0"),
    ({"timestamp": 1.5}, "timestamp is a decimal number, and no integer"),
    ({"timestamp": True}, "timestamp is true, and no integer"),
    ({"timestamp": 1 << 90}, "between the years 1 and 9999"),
    ({"timestamp": -(1 << 90), "protocol": "RFC3164"}, "between the years 1 and 9999"),
    ({"hostname": "two words"}, "hostname 'two words' has a space"),
    ({"appname": "a\n<0>1"}, "appname .* control character"),
    ({"appname": 1}, "appname is a whole number, and no string"),
    ({"msg": 1}, "msg is a whole number, and no string"),
    ({"msg": "\ud800"}, "surrogate"),
    ({"structured_data": "sd"}, "structured_data is a string, and no record"),
    ({"structured_data": {"a": {}}}, "structured_data.a is a record, and no array of records"),
    ({"structured_data": {"a": [1]}}, "structured_data.a has a whole number, which is no record"),
    ({"structured_data": {"a": [{"b": 1}]}}, "structured_data.a.b is a whole number, and no string"),
    ({"structured_data": {"a]": []}}, "'a]' cannot be a name"),
    ({"structured_data": {"a": [{"": "x"}]}}, "'' cannot be a name"),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED)
def test_what_cannot_be_written(value: object, reason: str) -> None:
    with pytest.raises(CannotEncode, match=reason):
        SYSLOG.encode(value)


@pytest.mark.parametrize("member", ["msg", "structured_data"])
def test_a_newline_forges_no_second_message(member: str) -> None:
    evil = "x\n<0>1 - - - - - - forged"
    event = {"msg": evil} if member == "msg" else {"structured_data": {"a": [{"b": evil}]}}
    assert SYSLOG.encode(event).count(b"\n") == 0
    assert b"x#012<0>1" in SYSLOG.encode(event)
    keep = make("syslog", {"newlines": "keep"})
    read = keep.decode(keep.encode(event))
    assert isinstance(read, dict)
    assert {member: read[member]} == event


WORD = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12).filter(
    lambda text: text != "-"
)
NAME = WORD.filter(lambda text: not set(text) & set('="[]'))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
    lambda text: text[-1] not in "\r\n\0"
)
PARAMETERS = st.lists(
    st.dictionaries(NAME, st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=1), max_size=3
)
EVENT = st.fixed_dictionaries(
    {
        "severity": st.sampled_from(SEVERITIES),
        "facility": st.sampled_from(FACILITIES),
        "protocol": st.just("RFC5424"),
        "protocol_version": st.integers(1, 999),
    },
    optional={
        "timestamp": st.integers(-(1 << 63) // 1000 + 1, (1 << 63) // 1000 - 1).map(lambda micros: micros * 1000),
        "hostname": WORD,
        "appname": WORD,
        "procid": WORD,
        "msgid": WORD,
        "structured_data": st.dictionaries(NAME, PARAMETERS, min_size=1, max_size=3),
        "msg": TEXT,
    },
)


@settings(max_examples=examples(60))
@given(EVENT)
def test_events_come_back(event: dict[str, object]) -> None:
    codec = make("syslog", {"newlines": "keep"})
    if "structured_data" not in event and str(event.get("msg", "")).startswith("["):
        event["structured_data"] = {"a": []}
    assert codec.decode(codec.encode(event)) == event


@settings(max_examples=examples(60))
@given(st.lists(EVENT, min_size=1, max_size=5))
def test_in_either_framing_of_rfc_6587_each_message_is_one(events: list[dict[str, object]]) -> None:
    written = [SYSLOG.encode(event) for event in events]
    for framing in (LINES, TEXTUAL_LENGTH_PREFIXED):
        verdict = SYSLOG.validate(framing.join(written), framing)
        assert verdict.good is not None
        assert verdict.good.count == len(events)
        assert verdict.good.payloads() == written


PARTS = [
    "<",
    "13",
    ">",
    "1 ",
    "-",
    " ",
    "Oct 11 22:14:15",
    "2003-10-11T22:14:15Z",
    "host",
    "app[1]:",
    "[a",
    ' b="c"',
    "]",
]


@settings(max_examples=examples(200))
@given(
    st.lists(st.sampled_from(PARTS) | st.text(max_size=3))
    .map("".join)
    .map(lambda text: text.encode(errors="replace"))
)
def test_any_text_is_an_event_and_can_be_written(payload: bytes) -> None:
    event = IN_2003.decode(payload)
    assert isinstance(event, dict)
    try:
        written = IN_2003.encode(event)
    except CannotEncode as error:  # a name that came with a control character in it
        assert "control character" in str(error) or "cannot be a name" in str(error)  # noqa: PT017
        return
    assert b"\n" not in written
    again = IN_2003.decode(written)
    assert isinstance(again, dict)
    assert str(again.get("msg", "")).replace("#012", "\n") == str(event.get("msg", "")).replace("#012", "\n") or (
        "structured_data" in again  # a `msg` that looks like it
    )


@given(st.binary(max_size=60))
def test_only_bytes_that_are_not_utf_8_are_refused(payload: bytes) -> None:
    good = b"<13>1 - - - - - - good"
    verdict = SYSLOG.validate(MESSAGES.join([good, payload, good]), MESSAGES)
    try:
        payload.decode()
    except UnicodeDecodeError:
        assert verdict.bad == [(payload, "not UTF-8")]
        with pytest.raises(CannotDecode):
            SYSLOG.decode(payload)
    else:
        assert not verdict.bad


@linear
@pytest.mark.parametrize(
    "parts",
    [
        ("<13>1 - - - - - [a", ' b="c"', '"', "[", "]", "[a]"),
        ('<13>1 - - - - - [a b="', '\\"', "\\", '"'),
        ("<13>", " ", "1 ", "- "),
        ("<13>Oct 11 22:14:15 ", ":", "[", "a[1]", " "),
        ("2003-10-11T22:14:15.", "1", "Z"),
    ],
)
def test_a_megabyte_takes_no_longer_than_its_size(parts: tuple[str, ...]) -> None:
    for payload in repeated(*parts):
        look_at(IN_2003, payload)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"zone": "UTC"}, "has no key zone"),
        ({"timezone": "Mars"}, "no time zone 'Mars'"),
        ({"timezone": 1}, "no time zone 1"),
        ({"timezone": "../../etc/passwd"}, "no time zone"),
        ({"newlines": "drop"}, "escape and keep, not 'drop'"),
    ],
)
def test_configuration_that_cannot_be_used(config: dict[str, object], reason: str) -> None:
    with pytest.raises(WalflowError, match=reason):
        make("syslog", config)


def test_one_configuration_is_one_codec() -> None:
    made: list[Codec] = [make("syslog", {"timezone": "Europe/Berlin"}) for _ in range(2)]
    assert made[0] is made[1]
    assert make("syslog") is SYSLOG
    assert repr(SYSLOG) == "<Syslog>"
