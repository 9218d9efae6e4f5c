"""Times as text: what each field writes and reads, what is no time; and that nothing asks what time it is."""

import ast
from datetime import UTC as UTC_OF_PYTHON, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

import walflow_kernel.calendar.civil
from walflow_kernel.calendar import UTC, NotADate, civil_time, date_format, read, read_format, written, zone
from walflow_kernel.calendar.date_reader import _READERS
from walflow_kernel.calendar.date_writer import _NUMBERS, _TEXTS
from walflow_kernel.calendar.formats import FIELDS
from walflow_kernel.errors import CannotApply
from walflow_kernel.values import LEAST, MOST

NS = 1_559_655_782_123_456_789  # 2019-06-04T13:43:02.123456789 in UTC
times = st.integers(LEAST, MOST)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC_OF_PYTHON)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("%Y", "2019"), ("%C", "20"), ("%y", "19"), ("%q", "2"), ("%m", "06"), ("%b", "Jun"), ("%h", "Jun"),
        ("%B", "June"), ("%d", "04"), ("%e", " 4"), ("%a", "Tue"), ("%A", "Tuesday"), ("%w", "2"), ("%u", "2"),
        ("%U", "22"), ("%W", "22"), ("%G", "2019"), ("%g", "19"), ("%V", "23"), ("%j", "155"), ("%D", "06/04/19"),
        ("%x", "06/04/19"), ("%F", "2019-06-04"), ("%v", " 4-Jun-2019"), ("%H", "15"), ("%k", "15"), ("%I", "03"),
        ("%l", " 3"), ("%p", "PM"), ("%P", "pm"), ("%M", "43"), ("%S", "02"), ("%f", "123456789"),
        ("%.f", ".123456789"), ("%.3f", ".123"), ("%.6f", ".123456"), ("%.9f", ".123456789"), ("%3f", "123"),
        ("%6f", "123456"), ("%9f", "123456789"), ("%R", "15:43"), ("%T", "15:43:02"), ("%X", "15:43:02"),
        ("%r", "03:43:02 PM"), ("%Z", "CEST"), ("%z", "+0200"), ("%:z", "+02:00"), ("%::z", "+02:00:00"),
        ("%:::z", "+02"), ("%#z", "+0200"), ("%c", "Tue Jun  4 15:43:02 2019"), ("%s", "1559655782"), ("%t", "\t"),
        ("%+", "2019-06-04T15:43:02.123456789+02:00"), ("%n", "\n"), ("%%", "%"), ("%-d", "4"), ("%_d", " 4"),
        ("%0e", "04"), ("é%-m%%", "é6%"), ("", ""),
    ],
)  # fmt: skip
def test_fields_as_they_are_written(field: str, text: str) -> None:
    assert written(civil_time(NS, zone("Europe/Berlin")), date_format(field)) == text


def test_each_field_is_known_everywhere() -> None:
    assert set(_NUMBERS) | set(_TEXTS) == FIELDS
    assert set(_READERS) == FIELDS - {"Z"}


@pytest.mark.parametrize("ns", [0, 1, 1_000, 1_000_000, 1_001_000_000, -1, LEAST, MOST])
def test_fractions_have_the_digits_they_need(ns: int) -> None:
    text = written(civil_time(ns, UTC), date_format("%S%.f"))
    assert len(text) in {2, 6, 9, 12}
    assert float(text) == pytest.approx(ns / 1e9 % 60, abs=1e-3)


@pytest.mark.parametrize(
    ("format_", "text", "ns"),
    [
        ("%Y-%m-%d %H:%M:%S", "2019-06-20 00:00:00", 1_560_988_800_000_000_000),
        ("%Y %b %d %H:%M:%S%.3f %z", "1983 Apr 13 12:09:14.274 +0000", 419_083_754_274_000_000),
        ("%s", "1560777212", 1_560_777_212_000_000_000),
        ("%s%.f", "-1.5", -500_000_000),
        ("%Y-%j %R", "2020-366 00:00", 1_609_372_800_000_000_000),
        ("%G-W%V-%u %R", "2026-W53-7 00:00", 1_798_934_400_000_000_000),
        ("%d.%m.%y %I:%M %p", "31.12.69 12:00 am", 3_155_673_600_000_000_000),
        ("%d.%m.%C%y %I:%M %p", "01.01.1970 12:01 PM", 43_260_000_000_000),
        ("%A, %e %B %Y %k:%M", "THURSDAY,  1 january 1970  0:00", 0),
        ("%w %F %R", "0 1970-01-04 00:00", 259_200_000_000_000),
        ("%FT%R%z", "1970-01-01T01:00+01:00", 0),
        ("%FT%R%:z", "1970-01-01T00:00Z", 0),
        ("%FT%R%#z", "1970-01-01T01:00+01", 0),
        ("%FT%T", "1970-01-01T00:00:60", 60_000_000_000),  # a leap second
        ("%F %R", "1970-01-01\t\n00:00", 0),
        ("%F %R%%", "1970-01-01 00:00%", 0),
        ("%FT%T%.f", "1970-01-01T00:00:00.1234567891", 123_456_789),
        ("%FT%T.%3f", "1970-01-01T00:00:00.123", 123_000_000),
        ("%FT%T.%f", "1970-01-01T00:00:00.123", 123),
    ],
)
def test_times_as_they_are_read(format_: str, text: str, ns: int) -> None:
    assert read(text, read_format(format_)) == ns


@pytest.mark.parametrize(
    ("format_", "text", "why"),
    [
        ("%Y-%m-%d %R", "2019-02-29 00:00", "there is no such day"),
        ("%Y-%m-%d %R", "0000-01-01 00:00", "there is no such day"),
        ("%Y-%j %R", "2019-366 00:00", "there is no such day"),
        ("%Y-%j %R", "2019-0 00:00", "there is no such day"),
        ("%G-W%V-%u %R", "2019-W53-1 00:00", "there is no such day"),
        ("%F %R", "2019-01-01 24:00", "there is no such time of day"),
        ("%F %R", "2019-01-01 00:60", "there is no such time of day"),
        ("%F %T", "2019-01-01 00:00:61", "there is no such time of day"),
        ("%F %I:%M %p", "2019-01-01 13:00 PM", "there is no such time of day"),
        ("%F %I:%M %p", "2019-01-01 0:00 PM", "there is no such time of day"),
        ("%F %I:%M", "2019-01-01 01:00", "it tells no hour and minute"),
        ("%F", "2019-01-01", "it tells no hour and minute"),
        ("%R", "00:00", "it tells no year, month and day"),
        ("%a %F %R", "Mon 1970-01-01 00:00", "this day has another weekday"),
        ("%F %m %R", "1970-01-01 02 00:00", "it tells two months"),
        ("%F %R", "1970-01-01 00:00 ", "it goes on behind what the format says"),
        ("%F %R", "1970-xx-01 00:00", "there is no `%m` where it should be"),
        ("%F %R", "1970/01/01 00:00", "it has not the form that the format says"),
        ("%F %R", "9999-01-01 00:00", "a time out of range"),
        ("%F %R", "1600-01-01 00:00", "a time out of range"),
        ("%s", "99999999999999999999", "a time out of range"),
        ("%F %R", "\u0661\u0669\u0667\u0660-01-01 00:00", "there is no `%Y` where it should be"),
    ],
)  # fmt: skip
def test_what_is_no_time(format_: str, text: str, why: str) -> None:
    with pytest.raises(NotADate, match=why):
        read(text, read_format(format_))


@given(times, st.sampled_from(["UTC", "+05:30", "-12:00", "Europe/Berlin", "Asia/Kathmandu", "America/New_York"]))
def test_what_is_written_with_its_offset_is_read_again(ns: int, name: str) -> None:
    at = civil_time(ns, zone(name))
    if at.offset % 60 == 0:  # old offsets have seconds, which `%z` cannot hold
        text = written(at, date_format("%a %FT%T%.9f%:z"))
        assert read(text, read_format("%a %FT%T%.9f%:z")) == ns
    whole = ns // 2_000_000_000 * 1_000_000_000
    assert read(written(civil_time(whole, UTC), date_format("%c")), read_format("%c")) == whole


@given(times, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]))
def test_calendar_and_clock_are_pythons_own(ns: int, name: str) -> None:
    there = (EPOCH + timedelta(seconds=ns // 10**9)).astimezone(ZoneInfo(name))
    at = civil_time(ns, zone(name))
    assert (at.day, at.hour, at.minute, at.second) == (there.date(), there.hour, there.minute, there.second)
    offset = there.utcoffset()
    assert offset is not None
    assert at.offset == offset.total_seconds()
    for field in ("%U", "%W", "%V", "%G", "%j", "%I", "%y", "%w", "%u"):
        assert written(at, date_format(field)) == there.strftime(field), field


@given(st.text(alphabet="%YmdHMSzfjaApsIuGVWF+-:. 0123456789TZé", max_size=30), st.text(max_size=30))
def test_any_format_and_any_text_give_a_time_or_a_reason(format_: str, text: str) -> None:
    try:
        found = read(text, read_format(format_))
        assert LEAST <= found <= MOST
    except CannotApply:
        pass


@pytest.mark.parametrize("name", ["+01:00", "+0100", "-23:59"])
def test_an_offset_is_a_zone(name: str) -> None:
    sign, hours, minutes = name[0], int(name[1:3]), int(name[-2:])
    offset = timedelta(hours=hours, minutes=minutes) * (1 if sign == "+" else -1)
    at, there = civil_time(NS, zone(name)), datetime.fromtimestamp(NS // 10**9, timezone(offset))
    assert (at.day, at.hour, at.minute) == (there.date(), there.hour, there.minute)


@pytest.mark.parametrize(
    "name",
    ["", "Europe/Bielefeld", "../../etc/passwd", "/etc/passwd", "europe/berlin", "+24:00", "+01:60", "+1", "\0"],
)
def test_what_is_no_zone(name: str) -> None:
    with pytest.raises(
        CannotApply, match="is no time zone: it is named as `Europe/Berlin`, or an offset as `\\+01:00`"
    ):
        zone(name)


def test_it_never_asks_what_time_it_is() -> None:
    """The contract `clock` lets this one module import `datetime`: for its calendar, not for its clock."""
    path = Path(str(walflow_kernel.calendar.civil.__file__))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name for module, name in imported if module == "datetime"} == {"date", "datetime", "timedelta"}
    asks = {
        "now",
        "today",
        "utcnow",
        "fromtimestamp",
        "utcfromtimestamp",
        "astimezone",
        "time",
        "localtime",
        "getattr",
    }
    assert not names & asks
