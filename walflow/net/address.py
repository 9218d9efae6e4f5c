"""`host:port` as flow files write it."""

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Reachable from this machine alone."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(url: str, *, scheme: str, default_port: int) -> Address:
    """`host:port`, `host`, `scheme://host:port`. Raises ValueError with a line for the flow file's author."""
    text = url if "://" in url else f"{scheme}://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not host:port: {error}") from None
    if parts.scheme != scheme or parts.path not in ("", "/") or parts.query or parts.username is not None:
        raise ValueError(f"{url!r} is not host:port")
    return Address(parts.hostname or "localhost", default_port if port is None else port)
