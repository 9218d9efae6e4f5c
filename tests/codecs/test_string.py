import pytest

from walflow.codecs import STRING
from walflow.errors import CannotDecode
from walflow.framing import LINES, MESSAGES


def test_text_passes_and_the_rest_is_named() -> None:
    verdict = STRING.validate(b"caf\xc3\xa9\n\xff\nplain\n", LINES)
    assert verdict.good is not None
    assert verdict.good.data == b"caf\xc3\xa9\nplain\n"
    assert verdict.bad == [(b"\xff", "not UTF-8")]


def test_ascii_is_taken_as_it_is() -> None:
    data = b"a\n\nb\n"
    verdict = STRING.validate(data, LINES)
    assert verdict.good is not None
    assert verdict.good.data is data
    assert verdict.good.count == 3


def test_what_is_no_string_is_written_as_json() -> None:
    assert STRING.encode("a\tb") == b"a\tb"
    assert STRING.encode({"b": 1, "a": [None]}) == b'{"b":1,"a":[null]}'


def test_bytes_that_are_no_text_cannot_be_decoded() -> None:
    with pytest.raises(CannotDecode):
        STRING.decode(b"\xff")


def test_the_length_before_an_event_completes_no_character_of_another() -> None:
    """195 is 0xc3, the first byte of an e with an accent; 0xa9 would be its second."""
    data = MESSAGES.join([b"\xa9" + b"x" * 194])
    assert data[3:].decode().startswith("\xe9x")
    verdict = STRING.validate(data, MESSAGES)
    assert verdict.good is None
    assert [reason for _, reason in verdict.bad] == ["not UTF-8"]
