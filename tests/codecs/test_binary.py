import pytest
from hypothesis import given, strategies as st

from walflow.codecs import BINARY, JSON, JSON_SORTED, MSGPACK, STRING, make
from walflow.errors import CannotEncode, WalflowError
from walflow.event import Codec
from walflow.framing import LINES, MESSAGES


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=10))
def test_every_byte_comes_back(payloads: list[bytes]) -> None:
    verdict = BINARY.validate(MESSAGES.join(payloads), MESSAGES)
    assert verdict.good is not None
    assert [BINARY.decode(payload) for payload in verdict.good.payloads()] == payloads
    assert [BINARY.encode(payload) for payload in payloads] == payloads
    assert not verdict.bad


def test_lines_are_as_many_as_they_are() -> None:
    verdict = BINARY.validate(b"\xff\n\n", LINES)
    assert verdict.good is not None
    assert verdict.good.count == 2


def test_what_is_not_bytes_is_written_as_text_or_json() -> None:
    assert BINARY.encode("caf\xe9") == b"caf\xc3\xa9"
    assert BINARY.encode({"b": 1, "a": [None]}) == b'{"b":1,"a":[null]}'


@pytest.mark.parametrize("codec", [JSON, JSON_SORTED, STRING])
@pytest.mark.parametrize("value", [b"a", [b"a"], {"a": b"a"}])
def test_bytes_have_no_form_in_text(codec: Codec, value: object) -> None:
    with pytest.raises(CannotEncode, match="binary data"):
        codec.encode(value)


def test_msgpack_has_one() -> None:
    assert MSGPACK.decode(MSGPACK.encode({"a": b"\xff"})) == {"a": b"\xff"}


@pytest.mark.parametrize("name", ["binary", "msgpack", "string"])
def test_they_take_no_configuration(name: str) -> None:
    assert make(name).name == name
    with pytest.raises(WalflowError, match="has no key mode: it takes no configuration"):
        make(name, {"mode": "sorted"})
