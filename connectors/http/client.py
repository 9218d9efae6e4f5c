from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from connectors.http.families import CLIENT
from connectors.http.media_types import MediaTypes, MimeMapping, check
from walflow import Codec, CodecUse, Families, Guarantee, Lossless, Need, Ports, Risk, Size, Traits
from walflow.net import (
    HTTP,
    Address,
    AtUrl,
    BearerToken,
    ClientTls,
    Reconnect,
    TlsToPeer,
    UrlScheme,
    check_http_url,
    credential_in_the_open,
    credentials_written,
    to_reach,
    to_read,
)

OURS: Final = {"host", "content-length", "transfer-encoding", "connection", "idempotency-key", "expect"}
NAME: Final = "!#$%&'*+-.^_`|~"  # of a header, beside letters and digits (RFC 9110)


class HttpClientKeys(AtUrl):
    """What `HttpClient` takes."""

    ports: ClassVar[Ports] = Ports()
    # an answer without a body is an event without bytes: null
    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL, messages=True, answers=True, decodes=False)
    families: ClassVar[Families] = CLIENT
    scheme: ClassVar[UrlScheme] = HTTP

    url: str = HTTP.connects("http://host:port/path", examples=["http://127.0.0.1:1/"])
    method: Literal["POST", "PUT", "PATCH"] = Field(default="POST", description="The method of the requests.")
    headers: Mapping[str, str | Sequence[str]] = Field(
        default={},
        description="More headers of each request: a string each, or an array where a header has several values. "
        "For a secret, use `token`.",
    )
    mime_mapping: MimeMapping | None = Field(
        default=None,
        description="Codecs by media type: of the requests by the `Content-Type` in `headers`, of an answer by its "
        'own. `"*/*"` stands for all other types. Without it, they have `codec`.',
        examples=[{"application/json": "json", "*/*": "string"}],
    )
    token: BearerToken = None
    tls: TlsToPeer = False
    batch: Literal["event", "lines", "array"] = Field(
        default="event",
        description="What a request holds. `event`: one event. `lines`: events, each on a line "
        "(application/x-ndjson). `array`: events as a JSON array. For the last two, the codec must be json, "
        "without postprocessors.",
    )
    max_batch_events: int = Field(default=1000, ge=1, description="The most events of a batch.")
    max_batch_bytes: Size = Field(
        default=1 << 20, ge=1, description="The most bytes of a batch. A single larger event is sent alone."
    )
    concurrency: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="How many requests may wait for their answers. With 1, the server gets the events in order, as "
        "long as none fails again and again.",
    )
    order_by: str | None = Field(
        default=None,
        min_length=1,
        description="With a larger `concurrency`: the member of the event, as `user.id`, by which the server gets "
        "events in order. A request waits for the answers of all before it with an equal value; events without it "
        "count as equal. The codec must be json, without postprocessors.",
    )
    responses: bool = Field(
        default=False,
        description="Whether the body of each answer with 2xx is an event, which leaves by `out`. It has the "
        "metadata `$response` and, if the request's first event had one, `$correlation`. Without a body, "
        "the event is `null`.",
    )
    max_response_bytes: int = Field(
        default=1 << 20,
        ge=1,
        description="With `responses`: the largest body of an answer. A larger one leaves by `err`.",
    )
    timeout: int = Field(
        default=10_000_000_000, gt=0, description="Nanoseconds to wait for an answer, connecting included."
    )
    attempts: int = Field(
        default=3,
        ge=1,
        description="How many failures of an event count before it fails: a log then sends it again later. A failure "
        "counts only if another request has succeeded since the one before, so an outage counts nothing.",
    )
    reconnect: Reconnect = Field(
        default=Reconnect(),
        description="How long to wait before a request is sent again, with tremor's keys. Retry-After makes a wait "
        "longer, up to 10 minutes.",
    )

    @classmethod
    def checked_url(cls, url: str) -> str:
        check_http_url(url, "http://host:port/path", "name a file in `token` instead", query=True)
        return url

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, headers: Mapping[str, str | Sequence[str]]) -> Mapping[str, str | Sequence[str]]:
        for name, value in each_header(headers):
            if name.lower() in OURS:
                raise ValueError(f"the header {name} is set by the connector")
            if not name or not all(c.isascii() and (c.isalnum() or c in NAME) for c in name):
                raise ValueError(f"{name!r} is no name of a header")
            if not value.isascii() or not value.isprintable():
                raise ValueError(f"the header {name} holds what no header can hold")
        return headers

    @field_validator("mime_mapping")
    @classmethod
    def _names_codecs(cls, mapping: MimeMapping | None) -> MimeMapping | None:
        return check(mapping)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.tls and self.url.startswith("http://"):
            raise ValueError("url says http:// and tls is there: write https://")
        if self.token is not None and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("token and headers both say Authorization: name one")
        if self.batch != "event" and self.mime_mapping is not None:
            raise ValueError("with mime_mapping a request holds one event: take out batch")
        return self

    def types(self, codec: Codec) -> MediaTypes | None:
        return None if self.mime_mapping is None else MediaTypes(self.mime_mapping, codec)

    @property
    def said_type(self) -> str:
        """The Content-Type in `headers`, or ""."""
        return next((value for name, value in each_header(self.headers) if name.lower() == "content-type"), "")

    def sink_codec(self, codec: Codec | None) -> Codec | None:
        types = None if codec is None else self.types(codec)
        return codec if types is None else types.codec_of(self.said_type)

    def mixed(self) -> bool:
        return self.mime_mapping is not None

    def ports_used(self) -> Ports:
        return self.ports if self.responses else Ports(outputs=("err",))

    def how_to_use(self, port: str) -> str:
        return 'its answers leave by `out` with `"responses": true` in its `config`' if port == "out" else ""

    @property
    def address(self) -> Address:
        return self.scheme.address_of(self.url)

    @property
    def client_tls(self) -> ClientTls | None:
        if isinstance(self.tls, ClientTls):
            return self.tls
        return ClientTls() if self.secure else None

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.token, "token"), *to_reach(self.address, self.client_tls)]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        tls = self.client_tls
        key_password = tls.key_password if tls is not None else None
        warnings = credentials_written(self.headers, key_password=key_password, token=self.token)
        if self.token is not None and tls is None and not self.address.loopback:
            warnings.append(credential_in_the_open("token", self.address))
        if not behind_log:
            warnings.append(
                Risk(
                    "no-log",
                    "what has no answer when walflow stops is lost: put a log upstream, which sends it again",
                )
            )
        answered = "its request is answered with 2xx"
        source = ""
        if self.responses:
            answered += ", and the events of the answer are acked"
            source = Lossless(
                "the events of a request are acked once those of its answer are. If a sink fails these, the request "
                "fails: a log upstream sends it again, with the same Idempotency-Key"
            )
        return Guarantee(
            source=source,
            sink=Lossless(
                f"an event is acked when {answered}. An event that is answered with 4xx is rejected "
                "(not with 408, 425 or 429). Any other request is sent again, so the server may get it twice: with "
                "the same Idempotency-Key, unless a restart or a failure divides a batch in another way"
            ),
            warnings=tuple(warnings),
        )


def each_header(headers: Mapping[str, str | Sequence[str]]) -> Iterator[tuple[str, str]]:
    for name, said in headers.items():
        for value in [said] if isinstance(said, str) else said:
            yield name, value
