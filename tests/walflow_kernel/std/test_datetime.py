"""std::datetime."""

import pytest

from tests.walflow_kernel.std.world import gives, mistakes, refuses

BERLIN = '{"timestamp": 1_559_655_782_123_456_789, "tz": "Europe/Berlin"}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"datetime::hour({BERLIN})", 15),
        (f"datetime::day_of_month({BERLIN})", 4),
        (f"datetime::rfc3339({BERLIN})", "2019-06-04T15:43:02.123456789+02:00"),
        (f"datetime::rfc2822({BERLIN})", "Tue, 4 Jun 2019 15:43:02 +0200"),
        ('datetime::year(datetime::with_timezone(-1, "+01:00"))', 1970),
        ("datetime::year(-1)", 1969),
        ("datetime::subsecond_nanos(-1)", 999_999_999),
        ("datetime::year(integer::unsigned::MAX)", 2554),
        ("datetime::year(integer::signed::MIN)", 1677),
        ('datetime::format(event, "%Y")', "1970"),
        ('datetime::with_timezone(0, "UTC").tz', "UTC"),
        ('datetime::parse("1560777212", "%s")', 1_560_777_212_000_000_000),
        ("datetime::parse(datetime::rfc3339(event), datetime::formats::RFC3339) == event", True),
        ("datetime::parse(datetime::rfc2822(event), datetime::formats::RFC2822) == event", True),
    ],
)
def test_what_it_gives(text: str, value: object) -> None:
    assert gives(text, 0) == value


@pytest.mark.parametrize(
    ("text", "event", "why"),
    [
        ("datetime::year(event)", "1970", "takes a whole number or a record, not a string"),
        ("datetime::year(event)", 1.5, "takes a whole number or a record, not a decimal number"),
        ("datetime::year(event)", {}, "here `timestamp` is null and `tz` null"),
        ("datetime::year(event)", {"timestamp": 0, "tz": 1},
         "here `timestamp` is a whole number and `tz` a whole number"),
        ("datetime::year(event)", {"timestamp": 0, "tz": "Nowhere"}, "`Nowhere` is no time zone"),
        ("datetime::year(event)", {"timestamp": 2**70, "tz": "UTC"}, "a number out of range"),
        ("datetime::year(event)", 2**70, "a number out of range"),
        ('datetime::parse(event, "%F %R")', "1970-01-01", "there is no `%H` where it should be"),
        ('datetime::parse("x", event)', "%Q", "`%Q` is no part of a date"),
        ("datetime::with_timezone(0, event)", "x" * 100, "this is no time zone"),
        ("datetime::with_timezone(event, \"UTC\")", 2**70, "a number out of range"),
    ],
)  # fmt: skip
def test_what_is_an_error_of_the_event(text: str, event: object, why: str) -> None:
    assert why in refuses(text, event)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('datetime::format(event, "%Q")', "`%Q` is no part of a date"),
        ('datetime::parse(event, "%F %R %Z")', "the name of a time zone cannot be read"),
        ('datetime::with_timezone(event, "Europe/Bielefeld")', "`Europe/Bielefeld` is no time zone"),
        ("datetime::format(event, 1)", "takes a string, not a whole number"),
        ("datetime::year()", "takes 1 argument, not 0"),
    ],
)
def test_what_is_a_mistake_at_load(text: str, why: str) -> None:
    [said] = mistakes(text)
    assert why in said
