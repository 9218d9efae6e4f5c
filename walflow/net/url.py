"""The key `url` of connectors that are at one address: what it may say, its ports, and its line in the reference."""

from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from walflow.contract import Connector
from walflow.net.address import Address, parse_address


class UrlScheme(NamedTuple):
    """`name://`, which may be left out, and its port; 0: there is no default. `secure://` is the same with TLS."""

    name: str
    port: int
    secure: str = ""
    secure_port: int = 0

    def says_tls(self, url: str) -> bool:
        return bool(self.secure) and url.startswith(f"{self.secure}://")

    def address(self, url: str, *, tls: bool = False) -> Address:
        """Of `host:port` and the like. `tls`: its port is the default. Raises ValueError with a line for the flow
        file's author."""
        scheme = self.secure if self.says_tls(url) else self.name
        return parse_address(url, scheme=scheme, default_port=self.secure_port if tls else self.port)

    def address_of(self, url: str) -> Address:
        """Of a URL that has a scheme, and maybe a path."""
        parts = urlsplit(url)
        return Address(str(parts.hostname), parts.port or (self.secure_port if self.says_tls(url) else self.port))

    def listens(self, more: str = "") -> Any:
        """The field of a server."""
        either = f", or {self.secure}://host:port with `tls`" if self.secure else ""
        return self._field(f"host:port to listen on{either}.", more)

    def connects(self, form: str, more: str = "", examples: list[Any] | None = None) -> Any:
        """The field of a client. `form`: what is written, as in `mqtt://host:port of the broker`."""
        either = f", or {self.secure}:// for TLS" if self.secure else ""
        return self._field(f"{form}{either}.", more, examples)

    def _field(self, told: str, more: str, examples: list[Any] | None = None) -> Any:
        port = f" The default port is {self.port}" if self.port else ""
        with_tls = f", with TLS {self.secure_port}" if self.secure else ""
        return Field(description=f"{told}{port}{with_tls}{'.' if port else ''}{more}", examples=examples)


HTTP: Final = UrlScheme("http", 80, "https", 443)


class AtUrl(Connector):
    """A connector at one address. A class gives its `scheme`, and `url: str = scheme.listens()` or `.connects(…)`."""

    scheme: ClassVar[UrlScheme]

    url: str

    @classmethod
    def checked_url(cls, url: str) -> str:
        """The URL as it is kept. Raises ValueError."""
        cls.scheme.address(url)
        return url

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        return cls.checked_url(url)

    @property
    def secure(self) -> bool:
        """Whether the connection has TLS."""
        return self.scheme.says_tls(self.url)

    @property
    def address(self) -> Address:
        return self.scheme.address(self.url, tls=self.secure)
