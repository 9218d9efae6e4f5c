"""The address of a daemon's admin interface: `host:port`, `unix:/path`, or none (`off`)."""

from typing import Final, NamedTuple

from walflow.net import Address, check_socket_path, parse_address

PORT: Final = 9898
OFF: Final = "off"


class UnixPath(NamedTuple):
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return True


Endpoint = Address | UnixPath


def parse_endpoint(text: str) -> Endpoint | None:
    """None for `off`. Raises ValueError with a line that quotes what was given."""
    if text == OFF:
        return None
    if text.isascii() and text.isdigit():
        raise ValueError(f"{text!r} is no host; write 127.0.0.1:{text}")
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or "\0" in path:
            raise ValueError(f"{text!r}: a socket's path is absolute, as in unix:/run/walflow/admin.sock")
        try:
            check_socket_path(path)
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from None
        return UnixPath(path)
    try:
        return parse_address(text, scheme="http", default_port=PORT)
    except ValueError:
        raise ValueError(f"{text!r} is neither host:port nor unix:/path nor off") from None
