"""Where the admin interface may stand, and who may ask there."""

import pytest
from pydantic import SecretStr

from walflow.admin.endpoint import UnixPath, parse_endpoint
from walflow.admin.guard import Guard
from walflow.net import Address

LOOPBACK = Address("127.0.0.1", 9898)
OPEN = Address("0.0.0.0", 9898)


@pytest.mark.parametrize(
    ("text", "endpoint", "loopback"),
    [
        ("127.0.0.1:9898", LOOPBACK, True),
        ("localhost", Address("localhost", 9898), True),
        ("[::1]:1", Address("::1", 1), True),
        ("0.0.0.0:0", Address("0.0.0.0", 0), False),
        ("example.org:80", Address("example.org", 80), False),
        ("unix:/run/walflow/admin.sock", UnixPath("/run/walflow/admin.sock"), True),
    ],
)
def test_an_endpoint_and_whether_others_reach_it(text: str, endpoint: object, loopback: bool) -> None:
    parsed = parse_endpoint(text)
    assert parsed is not None
    assert (parsed, parsed.loopback) == (endpoint, loopback)


def test_off_is_nowhere() -> None:
    assert parse_endpoint("off") is None


@pytest.mark.parametrize(
    "text", ["unix:relative.sock", "unix:", f"unix:/{'x' * 107}", "host:port", "http://host/path", "tcp://h:1"]
)
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'.*'(:| is neither)"):
        parse_endpoint(text)


@pytest.mark.parametrize("host", ["localhost", "localhost:9898", "127.0.0.1:9898", "127.8.8.8", "[::1]:9898"])
def test_on_loopback_whoever_names_it_so_may_ask(host: str) -> None:
    assert Guard(LOOPBACK, None).refusal({"Host": host}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example:9898", "127.0.0.1.evil.example", "192.168.1.1", "bad host", "[::"]
)
def test_a_page_whose_name_was_made_to_resolve_to_us_may_not(host: str) -> None:
    refusal = Guard(LOOPBACK, None).refusal({"Host": host})
    assert refusal is not None
    assert refusal[0] == 403


def test_a_socket_is_asked_under_any_name() -> None:
    assert Guard(UnixPath("/run/a"), None).refusal({"Host": "anything"}) is None


@pytest.mark.parametrize(
    ("authorization", "may"),
    [
        ("Bearer s3cret", True),
        ("bearer  s3cret", True),
        ("Bearer s3cre", False),
        ("Bearer s3cretx", False),
        ("Bearer", False),
        ("Basic s3cret", False),
        ("s3cret", False),
        ("Bearer \xff", False),
        (None, False),
    ],
)
@pytest.mark.parametrize("endpoint", [OPEN, LOOPBACK, UnixPath("/run/a")])
def test_the_token_opens_and_nothing_else(endpoint: Address | UnixPath, authorization: str | None, may: bool) -> None:
    headers = {"Host": "localhost"} if authorization is None else {"Authorization": authorization}
    refusal = Guard(endpoint, SecretStr("s3cret")).refusal(headers)
    assert refusal is None if may else refusal is not None and refusal[0] == 401
