"""What a flow file says about a `spark` connector."""

import os
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import AliasChoices, Field, field_validator, model_validator

from pyspark_walflow.wire import DEFAULT_PORT
from walflow import Claim, CodecUse, Connector
from walflow.net import Address, ServerTls, parse_address
from walflow.net.secrets import Secret

OutputMode = Literal["append", "update", "complete"]


class SparkConfig(Connector):
    codec: ClassVar[CodecUse] = CodecUse.OPTIONAL
    transactional: ClassVar[bool] = True
    forwards: ClassVar[bool] = True
    positions: ClassVar[bool] = True

    path: str = Field(
        min_length=1,
        validation_alias=AliasChoices("path", "dir"),
        description="Directory of the log, made if it is missing (mode 0700); the token, the consumers' positions, "
        "results and checkpoints live in it too.",
    )
    chunk_size: int = Field(default=64 << 20, ge=1024, le=1 << 40, description="Bytes at which a new file begins.")
    max_chunks: int = Field(
        default=16,
        ge=1,
        le=1 << 32,
        description="With chunk_size, the budget: chunk_size x max_chunks bytes on disk.",
    )

    url: str = Field(default=f"127.0.0.1:{DEFAULT_PORT}", description="host:port where Spark finds this log.")
    tls: ServerTls | None = Field(default=None, description="Certificates; needed to listen beyond loopback.")
    insecure: str | None = Field(default=None, description="Why this may listen beyond loopback without TLS.")
    token: Secret | None = Field(
        default=None, description="Who has it may read and commit. Default: `<path>/token`, made at the first start."
    )
    consumers: tuple[str, ...] = Field(
        default=("spark",),
        description="Who reads: nothing is deleted before each of them has committed it. Any other name is refused.",
    )

    handshake_timeout: int = Field(
        default=10_000_000_000, gt=0, description="Nanoseconds a connection has to prove that it knows the token."
    )
    max_connections: int = Field(
        default=256,
        ge=1,
        description="Connections from Spark at a time. One more takes the place of the oldest that has proved "
        "nothing; if there is none, it is refused.",
    )

    socket_url: str | None = Field(
        default=None,
        description="host:port of a plain listener for Spark's own socket source: one reader, at most once.",
    )
    max_lines_per_second: int = Field(
        default=10_000,
        ge=1,
        description="Pace of the plain listener: Spark's socket source collapses above some 20,000.",
    )

    query: str | None = Field(
        default=None, min_length=1, description="Spark SQL over the view `in`; its rows come back on `out`."
    )
    job: str | None = Field(
        default=None,
        min_length=1,
        description="A PySpark file with `def pipeline(spark, stream)`; what it returns comes back.",
    )
    output_mode: OutputMode = Field(default="append", description="Spark's: append, update or complete.")
    master: str | None = Field(default=None, description="Where Spark runs. Default: `local[N,4]` with N processors.")
    conf: dict[str, str] = Field(default={}, description="Spark's own configuration, by its names.")
    options: dict[str, str] = Field(
        default={},
        description='Options of `format("walflow")` for the pipeline, by their names: `cafile`, `numPartitions`, …',
    )
    checkpoint: str | None = Field(
        default=None, min_length=1, description="Where Spark keeps its checkpoint. Default: `<path>/checkpoint`."
    )
    trigger_interval: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds between batches. Default: the next one begins when the last one ends.",
    )
    max_rows_per_batch: int = Field(default=200_000, ge=1, description="Events that one batch reads at most.")
    max_bytes_per_batch: int = Field(default=64 << 20, ge=1, description="Bytes that one batch reads at most, about.")
    stop_grace: int = Field(
        default=10_000_000_000, gt=0, description="Nanoseconds a running batch has to end when walflow stops."
    )
    python: str | None = Field(
        default=None, min_length=1, description="The interpreter that has pyspark. Default: the one walflow runs on."
    )
    environment: tuple[str, ...] = Field(
        default=(),
        description="Names of variables that the driver gets beside those that Spark, Java and Python read for "
        "themselves; `*` stands for any text. It gets no others.",
    )
    max_result_bytes: int = Field(
        default=64 << 20, ge=1, description="Bytes of results one batch may publish; more are refused, by name."
    )

    @field_validator("url", "socket_url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None:
            parse_address(url, scheme="tcp", default_port=DEFAULT_PORT)
        return url

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.query is not None and self.job is not None:
            raise ValueError("a connector runs a `query` or a `job`, not both")
        for name in self.consumers:
            if not name or not name.isprintable() or len(name) > 100:
                raise ValueError(f"{name!r} is no name for a consumer")
        if not self.consumers and self.socket_url is None:
            raise ValueError("without `consumers` the log would never be read")
        if not self.address.loopback and self.tls is None and self.insecure is None:
            raise ValueError(
                f'{self.address} is open to the network and has no `tls`; or say why that is right in `insecure = "…"`'
            )
        plain = self.socket_address
        if plain is not None and plain == self.address and plain.port:
            raise ValueError(
                f'socket_url and url are both {plain}: give them a port each; format("walflow") works on either'
            )
        if plain is not None and not plain.loopback and self.insecure is None:
            raise ValueError(
                f"socket_url {plain} is open to the network and sends events to every client that connects; "
                'say why that is right in `insecure = "…"`'
            )
        return self

    @property
    def address(self) -> Address:
        return parse_address(self.url, scheme="tcp", default_port=DEFAULT_PORT)

    @property
    def socket_address(self) -> Address | None:
        if self.socket_url is None:
            return None
        return parse_address(self.socket_url, scheme="tcp", default_port=DEFAULT_PORT)

    @property
    def runs_spark(self) -> bool:
        return self.query is not None or self.job is not None

    def claims(self) -> Sequence[Claim]:
        return (Claim("log directory", os.path.realpath(self.path)),)
