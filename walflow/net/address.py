"""Addresses in flow files: `host:port`."""

import ipaddress
import os
import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

LONGEST_SOCKET_PATH: Final = 107  # bytes; the kernel's `sun_path` has 108, one of them for the zero behind it

_BRACKETED: Final = re.compile(r"\[[0-9a-fA-F:.]+(%[^\[\]]+)?\](:[0-9]*)?")  # IPv6


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(url: str, *, scheme: str, default_port: int) -> Address:
    """`host:port`, `host`, `scheme://host:port`. Raises ValueError with a line for the flow file's author."""
    if not url:  # a variable of the shell that has no value, say
        raise ValueError("it is empty: host:port is missing")
    text = url if "://" in url else f"{scheme}://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not host:port: {error}") from None
    beside = parts.query or parts.fragment or parts.username is not None
    if parts.scheme != scheme or parts.path not in ("", "/") or beside:
        raise ValueError(f"{url!r} is not host:port")
    check_brackets(parts.netloc)
    host = parts.hostname or "localhost"
    check_host(host)
    return Address(host, default_port if port is None else port)


def unwritten_port(url: str, address: Address) -> tuple[str, ...]:
    """A note of `check`, where the port is a default that no standard gives."""
    if urlsplit(url if "://" in url else f"tcp://{url}").port is not None:
        return ()
    if not address.port:
        return ("`url` has no port, so the kernel chooses one at each start",)
    return (f'`url` has no port, so it is {address.port}, tremor\'s default: write "{address}" to say so',)


def check_brackets(netloc: str) -> None:
    """Raises ValueError for brackets with more than an IPv6 address and a port, because urlsplit ignores the rest."""
    if "[" in netloc and not _BRACKETED.fullmatch(netloc):
        raise ValueError(f"{netloc!r} is not host:port")


def check_http_url(url: str, form: str, secret: str, *, query: bool) -> None:
    """Raises ValueError for what is no URL of an HTTP server. `form`: as it should be. `secret`: where a name and a
    password belong instead. `query`: whether it may have one."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or (parts.query and not query):
        raise ValueError(f"{url!r} is not {form}")
    if parts.username is not None:
        raise ValueError(f"url holds a name or a password: {secret}")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"{url!r} holds what no URL can hold: write it with %")
    check_brackets(parts.netloc)
    check_host(parts.hostname)


def check_host(host: str) -> None:
    """Raises ValueError for a name that no lookup accepts."""
    if host == "*":
        raise ValueError("'*' is no address: 0.0.0.0 stands for all of this machine's, [::] for those of IPv6 too")
    try:
        host.encode("idna")
    except UnicodeError:  # `a..b`, or more than 63 characters between two dots
        possible = False
    else:
        possible = host.isprintable() and " " not in host
    if not possible:
        raise ValueError(f"{host!r} is no name of a machine")


def check_socket_path(path: str) -> None:
    """Raises ValueError for a path that no socket file can have."""
    if not path or "\0" in path:
        raise ValueError("a socket's path has at least one byte, and no zero byte")
    size = len(os.fsencode(path))
    if size > LONGEST_SOCKET_PATH:
        raise ValueError(f"a socket's path has {LONGEST_SOCKET_PATH} bytes at most, and this one has {size}")
