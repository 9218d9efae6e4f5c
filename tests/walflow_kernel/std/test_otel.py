"""cncf::otel."""

import pytest

from tests.compile.world import expression
from tests.walflow_kernel.std.world import gives, mistakes, refuses


@pytest.mark.parametrize("of", ["span", "trace"])
@pytest.mark.parametrize("kind", ["string", "bytes", "array"])
def test_identifiers_are_valid_and_follow_from_the_position(of: str, kind: str) -> None:
    made = expression(f"otel::gen_{of}_id_{kind}()")
    drawn = [made.evaluate({}, position=position) for position in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    word = {"bytes": "binary"}.get(kind, kind)
    assert gives(f"{of}_id::is_valid(event)", drawn[0]) == {"kind": word, "valid": True, "value": drawn[0]}


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("00f067aa0ba902b7", True), ("00F067AA0BA902B7", True), ("0" * 16, False), (b"\0\0\0\0\0\0\0\1", True),
        (bytes(8), False), ([0, 0, 0, 0, 0, 0, 0, 255], True), ([0] * 8, False),
    ],
)  # fmt: skip
def test_what_has_the_form_of_a_spans_identifier(value: object, valid: bool) -> None:
    assert gives("span_id::is_valid(event).valid", value) is valid


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0" * 15,
        "g" * 16,
        "00 f0 67 aa 0b a9",
        "é" * 16,
        b"",
        bytes(9),
        [0] * 7,
        [256] * 8,
        ["a"] * 8,
        1,
        None,
        {},
    ],
)
def test_what_has_not(value: object) -> None:
    assert gives("span_id::is_valid(event)", value) == {}


@pytest.mark.parametrize(
    ("number", "name", "is_error"),
    [(0, "Unsupported severity code", False), (1, "TRACE", False), (4, "TRACE4", False), (9, "INFO", False),
     (16, "WARN4", False), (17, "ERROR", True), (24, "FATAL4", True), (25, "Unsupported severity code", True),
     (-1, "Unsupported severity code", False)],
)  # fmt: skip
def test_severities(number: int, name: str, is_error: bool) -> None:
    assert gives("severity::to_string(event)", number) == name
    assert gives("severity::indicates_error(event)", number) is is_error


def test_a_severity_has_the_name_of_its_constant() -> None:
    for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
        for finer in ("", "2", "3", "4"):
            assert gives(f"severity::to_string(severity::{level}{finer})") == level + finer


def test_flags_and_states() -> None:
    none = {"sampled": False, **{f"unused{at}": False for at in range(1, 8)}}
    assert gives("traceflags::from_int(event)", 0) == none
    assert gives("traceflags::from_int(event)", 129) == {**none, "sampled": True, "unused7": True}
    assert gives("[traceflags::is_valid(0), traceflags::is_valid(1), traceflags::is_valid(2)]") == [True, True, False]
    assert gives('status::error("x")') == {"code": 2, "deprecated_code": 2, "message": "x"}
    assert gives("spankind::make_default() + traceflags::make_default()") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("severity::to_string(event)", "it takes a whole number, not a string"),
        ("severity::indicates_error(event)", "it takes a whole number, not a string"),
        ("traceflags::from_int(event)", "it takes a whole number, not a string"),
        ("traceflags::is_valid(event)", "it takes a whole number, not a string"),
    ],
)
def test_what_it_refuses(text: str, why: str) -> None:
    assert why in refuses(text, "a")


def test_what_is_a_mistake_at_load() -> None:
    [said] = mistakes("status::error(1)")
    assert said.endswith("it takes a string, not a whole number")
    [said] = mistakes("otel::gen_span_id_string(1)")
    assert "takes 0 arguments, not 1" in said
