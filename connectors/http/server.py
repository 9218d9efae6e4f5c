from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from connectors.http.body import BodyLimits
from connectors.http.families import SERVER
from connectors.http.keys import LOGGED
from connectors.http.media_types import MimeMapping, check
from walflow import Codec, CodecUse, Families, Guarantee, Lossless, Need, Risk, Size, Traits
from walflow.net import (
    HTTP,
    AtUrl,
    BearerToken,
    Exposed,
    UrlScheme,
    credentials_written,
    to_listen,
    to_read,
)


class HttpServerKeys(AtUrl, Exposed):
    """What `HttpServer` takes."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL, messages=True, recalls=LOGGED)
    families: ClassVar[Families] = SERVER
    scheme: ClassVar[UrlScheme] = HTTP

    url: str = HTTP.listens()
    token: BearerToken = None
    answer: Literal["acked", "taken"] = Field(
        default="acked",
        description="When a request is answered. `acked`: with 200, once all its events are acked. `taken`: with "
        "202, once its events are valid and in the flow.",
    )
    refuse: Literal["request", "events"] = Field(
        default="request",
        description="What a bad event costs. `request`: the request is answered with 400, which names the bad lines "
        "or events, and nothing of it is taken. `events`: the good events are taken, and the answer lists the bad "
        "ones. A list has at most 100 of them.",
    )
    mime_mapping: MimeMapping | None = Field(
        default=None,
        description="Codecs by media type: of a request by its `Content-Type`, of an answer by that of "
        '`$response.headers`. `"*/*"` stands for all other types. Without it, they have `codec`. Events then are not '
        "all in one codec, so there are no postprocessors.",
        examples=[{"application/json": "json", "*/*": "string"}],
    )
    arrays: Literal["split", "keep"] | None = Field(
        default=None,
        description="Default: `keep` with `mime_mapping`, otherwise `split`. With the codec json and `Content-Type: "
        "application/json`: whether a body that is an array holds one event for each element (`split`) or is one "
        "event (`keep`). With `application/x-ndjson` each line is an event. With any other type the body is one "
        "event. Preprocessors, if there are any, decide instead of the type.",
    )
    max_body_bytes: Size = Field(
        default=4 << 20,
        ge=1,
        le=1 << 30,
        description="The largest body of a request, in bytes after decompression (Content-Encoding gzip, deflate or "
        "zstd). A larger one is answered with 413.",
    )
    max_event_bytes: Size = Field(
        default=1 << 20, ge=1, description="The largest event. A larger one is a bad event."
    )
    max_events: int = Field(
        default=65_536, ge=1, description="The most events of a request. A request with more is answered with 413."
    )
    ack_timeout: int = Field(
        default=30_000_000_000,
        gt=0,
        description="Nanoseconds to wait for the acks, and for the answer where the flow makes it. Then the request "
        "is answered with 504. Its events stay in the flow and may still be delivered.",
    )
    retry_after: int = Field(
        default=1,
        ge=0,
        description="Seconds in the header Retry-After of answers with 503: while the flow takes no events, when "
        "there is no room for the request, and when its events failed.",
    )
    idle_timeout: int = Field(
        default=30_000_000_000,
        gt=0,
        description="Nanoseconds that a client may take from its connection, or from its last answer, to the end of "
        "the next request's head. Then the connection is closed.",
    )
    body_timeout: int = Field(
        default=30_000_000_000,
        gt=0,
        description="Nanoseconds that a client may take for a body. Then the request is answered with 408.",
    )
    write_timeout: int = Field(
        default=10_000_000_000,
        gt=0,
        description="Nanoseconds after which a client that does not read its answers is closed.",
    )
    max_connections: int = Field(
        default=1000,
        ge=1,
        description="The most connections at a time. At the limit, a new one replaces the one that has been without "
        "a request for longest. If all have requests, the new one is closed.",
    )
    backlog: int = Field(
        default=1024,
        ge=1,
        le=(1 << 31) - 1,
        description="The most connections that may wait to be accepted. The kernel has a limit of its own.",
    )
    idempotency_window: int = Field(
        default=600_000_000_000,
        gt=0,
        description="Nanoseconds for which a request's Idempotency-Key is remembered. A request with the same key, "
        "method, path and body is answered as the first one was, and is not taken again. "
        "With another body it is answered with 422.",
    )
    idempotency_keys: int = Field(
        default=100_000, ge=1, description="The most keys that are remembered. The oldest is forgotten first."
    )

    @field_validator("mime_mapping")
    @classmethod
    def _names_codecs(cls, mapping: MimeMapping | None) -> MimeMapping | None:
        return check(mapping)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.scheme.says_tls(self.url) and self.tls is None:
            raise ValueError("url says https:// and there is no `tls`: name a certificate and its key")
        if self.url.startswith("http://") and self.tls is not None:
            raise ValueError("url says http:// and tls is there: write https://")
        return self

    @property
    def secure(self) -> bool:
        return self.tls is not None

    @property
    def limits(self) -> BodyLimits:
        return BodyLimits(self.max_body_bytes, self.max_event_bytes, self.max_events)

    @property
    def splits(self) -> bool:
        return self.arrays == "split" or (self.arrays is None and self.mime_mapping is None)

    def sink_codec(self, codec: Codec | None) -> Codec | None:
        return codec if self.mime_mapping is None else None

    def mixed(self) -> bool:
        return self.mime_mapping is not None

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.token, "token"), *to_listen(self.address, self.socket_options, self.tls)]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = self.exposed()
        warnings += credentials_written(token=self.token)
        if self.answer == "taken":
            warnings.append(
                Risk(
                    "no-log",
                    "202 is answered before the events are acked: what fails later is lost, counted and logged",
                )
            )
            source = (
                "a request is answered with 202 once its events are in the flow: "
                "they are safe once a log has acked them"
            )
        else:
            source = (
                "a request is answered with 200 once the log, or every sink if there is no log, has acked all its "
                "events. A request without that answer may have been delivered: its client sends it again"
            )
        source += (
            ". What is sent again may come twice; with an Idempotency-Key it does not within "
            f"{self.idempotency_window / 1e9:g} s, unless {self.idempotency_keys} other keys come between. A restart "
            "forgets the keys of what is delivered. If a log is the only sink, and one way leads to it, it keeps "
            "those of what the log has still to deliver. So a request of up to 256 KiB and 4,096 events that had no "
            "answer when walflow died is not taken twice"
        )
        sink = (
            "an event that comes back is acked when it is in the answer of its request. The answer is sent once all "
            'events of the request are acked, with "answer": "taken" before. An event whose request has no client '
            "any more, or has its answer, is dropped, acked and counted"
        )
        return Guarantee(
            source=source if self.answer == "taken" else Lossless(source), sink=sink, warnings=tuple(warnings)
        )
