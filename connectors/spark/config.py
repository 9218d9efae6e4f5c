"""The keys of a `spark` connector."""

import os
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AliasChoices, Field, field_validator, model_validator

from connectors.spark.families import SPARK
from pyspark_walflow.wire import DEFAULT_PORT
from walflow import Claim, CodecUse, Duration, Families, PipelineHost, Size, Traits
from walflow.delivery import kept_bytes
from walflow.net import Address, AtUrl, Secret, ServerTls, UrlScheme
from walflow_kernel.shipped import PackedText

OutputMode = Literal["append", "update", "complete"]


class SparkConfig(AtUrl, PipelineHost):
    traits: ClassVar[Traits] = Traits(
        codec=CodecUse.OPTIONAL, decodes=False, takes_bytes=False, transactional=True, forwards=True, positions=True
    )
    families: ClassVar[Families] = SPARK
    scheme: ClassVar[UrlScheme] = UrlScheme("tcp", DEFAULT_PORT)

    path: str = Field(
        min_length=1,
        validation_alias=AliasChoices("path", "dir"),
        description="Directory of the log. It is made with mode 0700 if it is missing. The token, the consumers' "
        "positions, results and checkpoints are in it too.",
    )
    chunk_size: Size = Field(
        default=64 << 20, ge=1024, le=1 << 40, description="Size in bytes after which a new file begins."
    )
    max_chunks: int = Field(
        default=16,
        ge=1,
        le=1 << 32,
        description="The most files. The log takes at most chunk_size x max_chunks bytes on disk.",
    )

    retain: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        description="How long events stay in the log once each consumer has committed them: nanoseconds, or a string "
        'as `"24h"`. An older checkpoint goes on with them, and `startingTimestamp` finds them. Default: no limit if '
        "`retain_bytes` is there, otherwise nothing is kept.",
        examples=["24h"],
    )
    retain_bytes: Annotated[Size, Field(gt=0)] | None = Field(
        default=None,
        description="The most bytes of such events, beside chunk_size x max_chunks. On a full disk they go first. "
        "Default: chunk_size x max_chunks if `retain` is there, otherwise nothing is kept.",
        examples=["10GiB"],
    )

    url: str = Field(default=f"127.0.0.1:{DEFAULT_PORT}", description="host:port where Spark finds this log.")
    tls: ServerTls | None = Field(
        default=None,
        description="Certificates for TLS. Required to listen beyond loopback, unless `insecure` is given.",
    )
    insecure: str | None = Field(
        default=None, description="The reason why listening beyond loopback without TLS is safe here."
    )
    token: Secret | None = Field(
        default=None,
        description="The token that permits Spark to read and commit. Default: `<path>/token`, made at "
        "the first start.",
    )
    consumers: tuple[str, ...] | Literal["any"] = Field(
        default=("spark",),
        description="Names of the readers. No event is deleted before each of them has committed it. A reader with "
        'another name is refused. `"any"`: each streaming query is a consumer from its first start on, '
        "under the name that it gives.",
    )
    max_consumers: int = Field(
        default=16, ge=1, le=1000, description='With `"consumers": "any"`: the most consumers. One more is refused.'
    )
    consumer_timeout: int = Field(
        default=604_800_000_000_000,
        ge=1_000_000_000,
        description='With `"consumers": "any"`: nanoseconds after which a consumer is forgotten that has events '
        "before it and is not connected. The time in which walflow does not run does not count. Then events that "
        "only it had not committed are deleted. One that never asked for an event is forgotten after ten minutes. "
        "Default: a week.",
    )

    handshake_timeout: int = Field(
        default=10_000_000_000,
        gt=0,
        description="Nanoseconds in which a connection must prove that it knows the token.",
    )
    max_connections: int = Field(
        default=256,
        ge=1,
        description="The most connections from Spark at a time. At the limit, a new one replaces the oldest that has "
        "not proved the token. If there is none, the new one is refused.",
    )

    socket_url: str | None = Field(
        default=None,
        description="host:port of a listener for Spark's own socket source: one reader at a time, each event at most "
        "once.",
    )
    max_lines_per_second: int = Field(
        default=10_000,
        ge=1,
        description=(
            "The most lines per second for Spark's socket source, which cannot process more than about 20,000."
        ),
    )

    query: str | None = Field(
        default=None, min_length=1, description="Spark SQL over the view `in`. Its rows leave by `out`."
    )
    job: str | None = Field(
        default=None,
        min_length=1,
        description="A PySpark file with `def pipeline(spark, stream)`. The rows of the DataFrame that it returns "
        "leave by `out`.",
    )
    pipeline: str | None = Field(
        default=None,
        description='A compiled pipeline. walflow sets it for a pipeline with `#!config engine = "spark"`.',
    )
    output_mode: OutputMode = Field(default="append", description="Spark's output mode: append, update or complete.")
    master: str | None = Field(
        default=None, description="Spark's master URL. Default: `local[N,4]` with N processors."
    )
    conf: dict[str, str] = Field(default={}, description="Spark's own configuration, with its names.")
    options: dict[str, str] = Field(
        default={},
        description='Options of `format("walflow")` for the query: `cafile`, `numPartitions`, …',
    )
    checkpoint: str | None = Field(
        default=None, min_length=1, description="Directory of Spark's checkpoint. Default: `<path>/checkpoint`."
    )
    trigger_interval: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds between the starts of batches. Default: a batch begins when the one before ends.",
    )
    max_rows_per_batch: int = Field(default=200_000, ge=1, description="The most events that one batch reads.")
    max_bytes_per_batch: Size = Field(
        default=64 << 20, ge=1, description="The most bytes that one batch reads, about."
    )
    stop_grace: int = Field(
        default=10_000_000_000, gt=0, description="Nanoseconds that a running batch gets to end when walflow stops."
    )
    python: str | None = Field(
        default=None,
        min_length=1,
        description="The Python interpreter that has pyspark. Default: the one that runs walflow.",
    )
    environment: tuple[str, ...] = Field(
        default=(),
        description="Names of further environment variables for the driver; `*` stands for any text. The driver gets "
        "these, the variables that Spark, Java and Python read, and no others.",
    )
    max_result_bytes: Size = Field(
        default=64 << 20,
        ge=1,
        description="The most bytes of results of one batch. A larger batch is refused, and "
        "the message names this key.",
    )

    @field_validator("socket_url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None:
            cls.scheme.address(url)
        return url

    @field_validator("pipeline", mode="before")
    @classmethod
    def _is_ours(cls, pipeline: object) -> object:
        if pipeline is not None and not isinstance(pipeline, PackedText):
            raise ValueError('walflow alone sets this key: write `#!config engine = "spark"` in the pipeline')
        return pipeline

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.query is not None and self.job is not None:
            raise ValueError("a connector runs a `query` or a `job`, not both")
        for name in self.declared:
            if not name or not name.isprintable() or len(name) > 100:
                raise ValueError(f"{name!r} is no name for a consumer")
        if not self.consumers and self.socket_url is None:
            raise ValueError("without `consumers` the log would never be read")
        if not self.address.loopback and self.tls is None and self.insecure is None:
            raise ValueError(
                f"{self.address} is open to the network and has no `tls`; "
                'or say why that is right in `insecure = "…"`'
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
    def kept_bytes(self) -> int:
        """Of committed events, at most."""
        return kept_bytes(self.retain, self.retain_bytes, self.chunk_size * self.max_chunks)

    @property
    def declared(self) -> tuple[str, ...]:
        """Names of consumers. There may be others if `any_consumer`."""
        return () if self.consumers == "any" else self.consumers

    @property
    def any_consumer(self) -> bool:
        return self.consumers == "any"

    @property
    def socket_address(self) -> Address | None:
        return None if self.socket_url is None else self.scheme.address(self.socket_url)

    @property
    def runs_spark(self) -> bool:
        return self.query is not None or self.job is not None or self.pipeline is not None

    def claims(self) -> Sequence[Claim]:
        log = Claim("log directory", os.path.realpath(self.path))
        if self.checkpoint is None or not self.runs_spark:
            return (log,)
        return (log, Claim("checkpoint", self.checkpoint))
