import pytest

from walflow.net import Address, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("h:1", Address("h", 1)),
        ("udp://h.:1/", Address("h.", 1)),
        (":1", Address("localhost", 1)),
        ("h", Address("h", 9)),
        ("[::1]:1", Address("::1", 1)),
        ("[fe80::1%lo]", Address("fe80::1%lo", 9)),
        ("ü.example:1", Address("ü.example", 1)),
        ("a_b:1", Address("a_b", 1)),
    ],
)
def test_what_an_address_is(url: str, address: Address) -> None:
    assert parse_address(url, scheme="udp", default_port=9) == address


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("a..b:1", "'a..b' is no name of a machine"),
        (".", "'.' is no name of a machine"),
        ("x" * 64, "is no name of a machine"),
        ("a b:1", "'a b' is no name of a machine"),
        ("a\0:1", "'a\\x00' is no name of a machine"),
        ("*:1", "'*' is no address: 0.0.0.0 stands for all of this machine's, [::] for those of IPv6 too"),
        ("h:1#2", "'h:1#2' is not host:port"),
        ("h:1?2", "'h:1?2' is not host:port"),
        ("h:1/2", "'h:1/2' is not host:port"),
        ("me@h:1", "'me@h:1' is not host:port"),
        ("tcp://h:1", "'tcp://h:1' is not host:port"),
        ("h:65536", "'h:65536' is not host:port: Port out of range 0-65535"),
        ("[::1", "'[::1' is not host:port: Invalid IPv6 URL"),
    ],
)
def test_what_is_none(url: str, said: str) -> None:
    with pytest.raises(ValueError, match="is no") as refused:
        parse_address(url, scheme="udp", default_port=9)
    assert str(refused.value).endswith(said)


def test_an_empty_one() -> None:
    """A variable of the shell that has no value, say: `--set url=$URL`."""
    with pytest.raises(ValueError, match=r"^it is empty: host:port is missing$"):
        parse_address("", scheme="udp", default_port=9)
