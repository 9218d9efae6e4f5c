"""The key `url`: one sentence in the reference, one check and one address for every connector at one place."""

from typing import ClassVar

import pytest
from pydantic import ValidationError

from walflow.net import HTTP, Address, AtUrl, UrlScheme

PLAIN = UrlScheme("plain", 7)
BOTH = UrlScheme("open", 7, "shut", 8)


class Place(AtUrl):
    scheme: ClassVar[UrlScheme] = BOTH

    url: str = BOTH.connects("open://host:port of it", " More.")


@pytest.mark.parametrize(
    ("url", "address", "secure"),
    [
        ("host", Address("host", 7), False),
        ("host:1", Address("host", 1), False),
        ("open://host", Address("host", 7), False),
        ("shut://host", Address("host", 8), True),
        ("shut://[::1]:1/", Address("::1", 1), True),
    ],
)
def test_what_a_url_says(url: str, address: Address, secure: bool) -> None:
    place = Place(url=url)
    assert (place.address, place.secure) == (address, secure)


@pytest.mark.parametrize("url", ["", "http://host", "shut://host/path", "user@host", "host:port"])
def test_what_is_no_address_is_an_error_of_the_key(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Place(url=url)
    assert [error["loc"] for error in refused.value.errors()] == [("url",)]


def test_the_reference_says_what_is_taken() -> None:
    assert Place.model_fields["url"].description == (
        "open://host:port of it, or shut:// for TLS. The default port is 7, with TLS 8. More."
    )
    assert PLAIN.listens().description == "host:port to listen on. The default port is 7."
    assert UrlScheme("none", 0).listens(" Any port.").description == "host:port to listen on. Any port."


def test_a_url_with_a_path() -> None:
    assert HTTP.address_of("https://[::1]/a?b") == Address("::1", 443)
    assert HTTP.address_of("http://host:1/a") == Address("host", 1)
