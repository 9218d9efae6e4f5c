"""A tag in its short form is read by any process that has the dictionary, and is never another tag."""

import secrets
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from walflow_kernel.short_tag import DICTIONARY, MOST, NotShort, shortened, whole

FORMAT = Path(__file__).parents[2] / "docs/reference/wal-format.md"


def of_a_client(host: str = "127.0.0.1") -> bytes:
    meta = {"tcp_server": {"tls": False, "peer": {"host": host, "port": 51234}}}
    return msgspec.msgpack.encode(("main::in", secrets.randbits(48), 1, "json", "separate", meta, None))


@given(
    st.binary(max_size=2000).map(lambda data: b"\x97" + data)
    | st.binary(max_size=2000).map(lambda data: b"\x97" + data + b"\xc0")
)
def test_a_tag_comes_back_as_it_was(tag: bytes) -> None:
    short = shortened(tag)
    assert len(short) <= len(tag)
    assert whole(short) == tag


@pytest.mark.parametrize(("host", "most"), [("127.0.0.1", 32), ("172.17.0.1", 32), ("10.22.31.7", 40)])
def test_a_clients_tag_of_80_bytes_becomes(host: str, most: int) -> None:
    assert len(shortened(of_a_client(host))) <= most


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (lambda short: short[:-1], "ends too early"),
        (lambda short: short + b"x", "goes on behind its end"),
        (lambda _: b"\x01\xff\xff", "no DEFLATE"),
        (lambda _: b"\x01", "ends too early"),
        (lambda _: b"\x01" + raw(bytes(MOST + 1)), "too long"),
    ],
)
def test_what_is_no_short_tag_is_refused(damaged: Callable[[bytes], bytes], reason: str) -> None:
    with pytest.raises(NotShort, match=reason):
        whole(damaged(shortened(of_a_client())))


def test_a_tag_that_fits_no_record_stays_as_it_is() -> None:
    tag = b"\x97" + bytes(MOST) + b"\xc0"
    assert shortened(tag) is tag


def test_the_dictionary_is_the_one_of_the_format() -> None:
    """One byte of it changed, and no log can be read that was written before."""
    assert (len(DICTIONARY), f"{zlib.crc32(DICTIONARY):08x}") == (688, "7342869f")
    shown = FORMAT.read_text().split("It is, in hex:", 1)[1].split("```")[1].removeprefix("text")
    assert bytes.fromhex(shown) == DICTIONARY


def test_a_tag_with_metadata_of_each_event_stays_as_it_is() -> None:
    tag = msgspec.msgpack.encode(("main::in", 1, 1, "json", "separate", {}, [{"a": 1}] * 9))
    assert shortened(tag) is tag


def raw(data: bytes) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    return squeeze.compress(data) + squeeze.flush()
