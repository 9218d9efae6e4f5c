"""Decides who may use the admin interface: on loopback any process of this machine; from elsewhere a client that has
the token."""

import hmac
from collections.abc import Mapping

from pydantic import SecretStr

from walflow.admin.endpoint import Endpoint, UnixPath
from walflow.net import Address, parse_address


class Guard:
    def __init__(self, endpoint: Endpoint, token: SecretStr | None) -> None:
        self._token = token
        self._named = token is None and not isinstance(endpoint, UnixPath)
        self._own = isinstance(endpoint, UnixPath)  # a file of our user's, that no other may open

    @property
    def has_token(self) -> bool:
        """Whether a request that passes has proved that it may change something."""
        return self._token is not None

    @property
    def may_change(self) -> bool:
        """Whether a request that passes comes from who runs the daemon."""
        return self._own or self.has_token

    def renew(self, token: SecretStr) -> None:
        """Replaces the token; the old one is not accepted any more."""
        self._token = token

    def refusal(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """HTTP status and a line; None: the request may pass."""
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            # a browser says so of a request that a page of another site makes, even if its answer stays unread
            return 403, "a page of another site may not ask"
        if self._token is not None:
            return None if self._has_token(headers, self._token) else (401, "a token is needed")
        if self._named and not _loopback(headers.get("Host", "")):
            # a page in a browser here whose name was made to resolve to us
            return 403, "ask for localhost or a loopback address"
        return None

    @staticmethod
    def _has_token(headers: Mapping[str, str], token: SecretStr) -> bool:
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        # a header may hold any byte; what is no UTF-8 comes as surrogates
        given_bytes = given.strip().encode(errors="surrogatepass")
        same = hmac.compare_digest(given_bytes, token.get_secret_value().encode())
        return same and scheme.lower() == "bearer"


def _loopback(host: str) -> bool:
    if not set(host).isdisjoint("/?#@\\"):  # of a URL, and never of a Host header
        return False
    try:
        address: Address = parse_address(host, scheme="http", default_port=80)
    except ValueError:
        return False
    return bool(host) and address.loopback
