"""What is shipped as functions: declared as they are, true as their examples say, and harmless whatever comes."""

import math
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.compile.windows import query
from tests.compile.world import INGEST_NS, configured, expression, read
from tests.examples import examples
from walflow.compile.functions import _guarded, intrinsic, registered
from walflow.compile.reference import constants, declared, modules
from walflow_kernel.calendar import zone
from walflow_kernel.errors import CannotApply, CannotEvaluate
from walflow_kernel.functions import Function
from walflow_kernel.moment import Moment
from walflow_kernel.std.re import pattern

INTRINSICS: dict[str, Function] = {
    f"{module}::{name}": function for module, of in registered().items() for name, function in of.items()
}
ROOT = Path(__file__).parent.parent.parent

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, 2**63, -1]),
    st.floats(),
    st.text(),
    st.binary(),
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_each_is_declared_as_it_is() -> None:
    assert {one.intrinsic for one in declared()} == set(INTRINSICS)
    for one in declared():
        function = one.function
        written = [parameter.name for parameter in function.parameters] + ["..."] * (function.rest is not None)
        assert [name.strip("`") for name in one.parameters] == written, one


def test_the_constants_are_told() -> None:
    names = {path: [one.name for one in constants(path) if one.says] for path in modules()}
    assert names["std/integer/signed"] == ["MAX", "MIN", "max", "min"]
    assert len(names["cncf/otel/logs/severity"]) == 25
    assert all(one.says for path in modules() if path != "std/datetime/timezones" for one in constants(path))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        ("std", 'std::string::len("ab") == 2'),
        ("std", "std::time::nanos::NANOS_PER_SECOND == 1_000_000_000"),
        ("std", "std::integer::signed::MIN < std::integer::unsigned::MIN"),
        ("std::time", "time::nanos::from_seconds(1) == time::nanos::NANOS_PER_SECOND"),
        ("std::datetime", 'datetime::format(0, datetime::formats::RFC5322) == "Thu, 01 Jan 1970 00:00:00 +0000"'),
        ("std::datetime::timezones", 'timezones::ETC_GMT_MINUS_14 == "Etc/GMT-14"'),
        ("tremor", 'tremor::chash::jump("a", 1) == 0'),
        ("cncf", "cncf::otel::metrics::temporality::DELTA == 1"),
        ("cncf", "cncf::otel::trace::status::deprecated::UNAUTHENTICATED == 16"),
        ("google", "google::cloud::logging::severity::EMERGENCY == 800"),
        ("http", 'http::status::NOT_FOUND == 404 and http::headers::ETAG == "ETag"'),
        ("http", 'http::methods::PATCH == "PATCH" and http::content_types::JSON == "application/json"'),
    ],
)
def test_modules_are_used_one_by_one_or_together(use: str, text: str) -> None:
    assert expression(text, f"use {use};").evaluate({}) is True


def test_every_time_zone_is_one() -> None:
    for one in constants("std/datetime/timezones"):
        assert zone(one.value.strip('"')).name in {one.value.strip('"'), "UTC"}


def test_the_examples_are_true() -> None:
    for one in declared():
        assert one.says, one
        assert f"{one.module}::" in one.example, one
        if one.function.when == "window":
            used = "use std::win; define window w from tumbling with size = 1 end;"
            query(f"{used} select {one.example} from in[w] into out;")
        else:
            assert expression(one.example).evaluate({}, {}) is True, one


@settings(max_examples=examples(700))  # there are 170 functions
@given(st.data())
@pytest.mark.test
def test_whatever_is_given_there_is_a_value_or_a_reason(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name, one in sorted(INTRINSICS.items()) if one.when != "window"]))
    function = INTRINSICS[name]
    count = data.draw(st.integers(function.least, 4 if function.most is None else function.most))
    given_values: list[object] = []
    for at in range(count):
        types = function.parameter(at).kind.types
        fitting = st.one_of([_of[kind] for kind in types]) if types else anything
        given_values.append(data.draw(fitting | anything if data.draw(st.booleans()) else fitting))
    try:
        taken = [function.parameter(at).take(value) for at, value in enumerate(given_values)]
        moment = [] if function.when == "load" else [Moment(1, 2)]
        function.apply(*moment, *taken)
    except CannotApply:
        pass


_of: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(),
    str: st.text(),
    bytes: st.binary(),
    list: st.lists(anything, max_size=5),
    dict: st.dictionaries(st.text(), anything, max_size=5),
    NoneType: st.none(),
}


@given(json_values)
def test_json_round_trip(value: object) -> None:
    event = {"v": value}
    assert expression("json::decode(json::encode(event.v))").evaluate(event, {}) == value
    assert expression("json::decode(json::encode_pretty(event.v))").evaluate(event, {}) == value


@given(st.text(), st.binary())
def test_url_and_base64_round_trips(text: str, data: bytes) -> None:
    assert expression("url::decode(url::encode(event))").evaluate(text, {}) == text
    assert expression("string::from_utf8_lossy(base64::decode(base64::encode(event)))").evaluate(text, {}) == text
    assert expression("base64::decode(base64::encode(event))").evaluate(data, {}) == data


@given(st.lists(st.integers(), max_size=6), st.integers(-1, 8), st.integers(-1, 8))
def test_slices_are_pythons_where_the_array_reaches(array: list[int], begin: int, end: int) -> None:
    event = {"l": array, "b": begin, "e": end}
    if 0 <= begin <= end <= len(array):
        assert expression("event.l[event.b:event.e]").evaluate(event, {}) == array[begin:end]
    else:
        with pytest.raises(CannotEvaluate):
            expression("event.l[event.b:event.e]").evaluate(event, {})


@given(st.text(alphabet="abé,;", max_size=8), st.sampled_from([",", "[,;]", "a*", "é|b", "(a)(b)?", ""]))
def test_what_is_split_is_all_there(text: str, regex: str) -> None:
    event = {"t": text, "r": regex}
    parts: Any = expression("re::split(event.r, event.t)").evaluate(event, {})
    replaced: Any = expression('re::replace_all(event.r, event.t, "|")').evaluate(event, {})
    assert replaced == "|".join(parts)
    assert expression('re::replace_all(event.r, event.t, "$0")').evaluate(event, {}) == text
    assert expression("re::is_match(event.r, event.t)").evaluate(event, {}) is (len(parts) > 1)


@pytest.mark.parametrize(
    "call",
    ['re::replace_all("a(.*b)?", event.t, "c")', 're::split("a(.*b)?", event.t)'],
    ids=["replace_all", "split"],
)
def test_all_matches_of_a_call_have_a_budget(call: str) -> None:
    with pytest.raises(CannotEvaluate, match="it would search more than 134,217,728 bytes"):
        expression(call).evaluate({"t": "a" * 150_000}, {})
    assert expression(call).evaluate({"t": "a" * 1000}, {}) in ("c" * 1000, [""] * 1001)


@pytest.mark.parametrize("regex", [",", ",\\\\s*", "[0-9]+", "(a|b)", "\\\\s*,\\\\s*", "[(|*]+"])
def test_a_pattern_that_looks_no_further_than_its_match_has_none(regex: str) -> None:
    text = "1, 2," * 20_000
    assert expression(f're::split("{regex}", event.t)').evaluate({"t": text}, {})


def test_no_pattern_takes_forever() -> None:
    text = "a" * 1_000_000 + "b"
    for regex in ("(a+)+$", "(a|aa)+c", "(a*)*c", "(x+x+)+y", "a{0,500}a{500}$"):
        assert expression("re::is_match(event.r, event.t)").evaluate({"r": regex, "t": text}, {}) is False
    with pytest.raises(CannotApply, match="pattern too large"):
        pattern("\\pL{999}")


@pytest.mark.parametrize(
    "text",
    ["random::integer()", "random::string(12)", "random::float()", "[[random::integer()]][0]",
     "patch {} of insert \"a\" => random::integer() end"],
)  # fmt: skip
def test_chance_is_asked_for_each_event_and_follows_from_its_position(text: str) -> None:
    found = expression(text)
    assert found.constant is None
    drawn = [found.evaluate({}, position=position) for position in (1, 2, 3, 1)]
    assert len({str(one) for one in drawn}) == 3
    assert drawn[0] == drawn[3]
    settled, said = configured(text)
    assert settled is not None, said


def test_two_draws_of_one_event_differ() -> None:
    drawn: Any = expression("[random::integer(), random::integer()]").evaluate({})
    assert drawn[0] != drawn[1]


def test_when_it_is_is_when_the_event_came_in() -> None:
    assert expression("system::nanotime() - system::ingest_ns()").evaluate({}) == 0
    assert expression("system::nanotime()").evaluate({}) == INGEST_NS
    now, _ = configured("system::nanotime()")
    assert now is not None
    assert configured("system::ingest_ns() + 1") == (
        None,
        ["`system::ingest_ns()` has no value here: what is configured is worked out before any event comes"],
    )


def test_what_a_function_made_can_be_looked_into_at_load() -> None:
    assert read('json::decode("{\\"a\\": [1, 2]}").a[0:1][0]')[0].constant.value == 1  # type: ignore[union-attr]
    assert read('json::decode("{\\"abc\\": 1}").abd') == (None, ["a record without `abd`"])


@pytest.mark.parametrize("text", ["{} == {}", "array::contains({}, {})", "[{}] != [{}]", '"#{{{}}}"', "-{} + {}"])
def test_what_is_nested_too_deep_is_a_mistake_at_load(text: str) -> None:
    deep = 'json::decode("' + "[" * 990 + "]" * 990 + '")'
    for found, said in (read(text.format(deep, deep)), configured(text.format(deep, deep))):
        assert found is None
        assert said


def test_random_numbers_are_where_they_belong() -> None:
    for at in range(1000):
        assert expression("random::integer(-1, 2)").evaluate({}, position=at) in {-1, 0, 1}
        bounds = [1.0, math.nextafter(1.0, 2.0)]
        number = expression("random::float(event[0], event[1])").evaluate(bounds, position=at)
        assert number == 1.0


@pytest.mark.parametrize(
    ("does", "why"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: {1: 2}, "it gave what is no value: a key that is no string"),
        (lambda: [math.inf], "it gave what is no value: infinity or NaN"),
        (lambda: {"a": 2**64}, "it gave what is no value: a number out of range"),
        (lambda: {1}, "it gave what is no value: set"),
    ],
)
def test_whatever_a_strangers_function_does_is_an_error_of_the_event(does: Any, why: str) -> None:
    with pytest.raises(CannotApply, match=why):
        _guarded(does)()


def test_ours_are_not_in_a_guards_way() -> None:
    found = intrinsic("std::array::len")
    assert found is INTRINSICS["std::array::len"]
    assert intrinsic("std::array::no") is None
    assert intrinsic("none::such") is None
