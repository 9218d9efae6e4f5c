"""Connector classes to check flow files against, and the shortest way to do it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator

from walflow.contract import Claim, CodecUse, Connector, Guarantee, Ports, Traits
from walflow.diagnostics import render_all
from walflow.plan import Assembly, load


class Tls(Connector):
    cert: str


class TcpServer(Connector):
    url: str
    buf_size: int = Field(default=1024, ge=1, le=1 << 20)
    nodelay: bool = True
    token: SecretStr | None = None
    tls: Tls | None = None

    @field_validator("url")
    @classmethod
    def _has_port(cls, url: str) -> str:
        if ":" not in url:
            raise ValueError("Give a port: 0.0.0.0:4242")
        return url

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee("as safe as TCP", f"written to a socket{' and logged before' if behind_log else ''}")


class Log(Connector):
    traits: ClassVar[Traits] = Traits(
        codec=CodecUse.FORBIDDEN, transactional=True, forwards=True, passes=True, positions=True
    )

    path: str = Field(validation_alias=AliasChoices("path", "dir"))
    chunk_size: int = Field(default=1 << 26, gt=0)
    max_chunks: int = 16
    max_attempts: int | None = None
    max_elements: int | None = None
    read_count: int | None = None

    def claims(self) -> Sequence[Claim]:
        return [Claim("log directory", self.path)]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee("again and again", "on disk", (f"takes {self.chunk_size * self.max_chunks} bytes",))


class File(Connector):
    path: str
    mode: Literal["read", "append", "truncate"]

    def ports_used(self) -> Ports:
        return Ports((), ("out", "err")) if self.mode == "read" else Ports(("in",), ("err",))

    def claims(self) -> Sequence[Claim]:
        return [] if self.mode == "read" else [Claim("output file", self.path)]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="written")


class Metronome(Connector):
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)
    ports: ClassVar[Ports] = Ports((), ("out", "err"))

    interval: int

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee("ticks")


class Null(Connector):
    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL)
    ports: ClassVar[Ports] = Ports(("in",), ())

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="gone")


class Stdio(Connector):
    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee("from stdin", "to stdout")


REGISTRY: dict[str, type[Connector]] = {
    "tcp_server": TcpServer,
    "wal": Log,
    "file": File,
    "metronome": Metronome,
    "null": Null,
    "stdio": Stdio,
}


def checked(*files: str | Path) -> tuple[Assembly | None, str]:
    """What `check` would say of them."""
    assembly, diagnostics = load(files, REGISTRY)
    return assembly, render_all(diagnostics)


def assembled(text: str, name: str = "main.troy", registry: Mapping[str, type[Connector]] = REGISTRY) -> Assembly:
    """A text that has warnings at most. In the working directory, which the tests choose."""
    Path(name).write_text(text, encoding="utf-8")
    assembly, diagnostics = load([name], registry)
    assert assembly is not None, render_all(diagnostics)
    return assembly
