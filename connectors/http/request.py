"""One request: its head, and as much of its body as has come."""

from typing import TYPE_CHECKING, Final

from connectors.http.memory import BodyReading
from connectors.http.refusal import HttpRefusal, too_large
from walflow.files import Corrupt, Members

if TYPE_CHECKING:
    from connectors.http.connection import HttpConnection

HEAD_BYTES: Final = 32 << 10
LINE_BYTES: Final = 8190
MOST_HEADERS: Final = 128
ENCODINGS: Final = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "zlib", "zstd": "zstd"}
FRAMING_SHARE: Final = 8  # bytes of chunked transfer for each byte of a body, at most


class HttpRequest:
    """`complete`: the whole body has come. `refusal`: the answer, also if more of the request follows. `over`: it is
    answered, or its connection is gone."""

    __slots__ = (
        "_inflated",
        "_limit",
        "_members",
        "_parts",
        "came",
        "complete",
        "connection",
        "fed",
        "head",
        "headed",
        "headers",
        "keep",
        "length",
        "method",
        "over",
        "reading",
        "refusal",
        "target",
        "version",
        "without_text",
    )

    def __init__(self) -> None:
        self.connection: HttpConnection | None = None
        self.method = self.target = ""
        self.version = "1.1"
        self.headers: dict[str, list[str]] = {}  # names in lower case
        self.without_text: set[str] = set()  # headers with bytes that are no UTF-8: two of them may read alike
        self.head = 0  # bytes
        self.headed = self.complete = self.keep = self.over = False
        self.length = 0  # as Content-Length says
        self.came = 0  # bytes of the body as it was sent
        self.fed = 0  # bytes since the head's end, with what is around the chunks
        self.refusal: HttpRefusal | None = None
        self.reading: BodyReading | None = None
        self._parts: list[bytes] = []
        self._inflated = 0
        self._limit = 0
        self._members: Members | None = None

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.target}, {self.came} bytes of its body>"

    # the head

    def add_header(self, name: bytes, value: bytes) -> None:
        if self.headed:  # a trailer
            return
        size = len(name) + len(value)
        self.head += size
        if size > LINE_BYTES:
            self.refuse(HttpRefusal(431, f"a header has more than {LINE_BYTES} bytes", closes=True))
        elif self.head > HEAD_BYTES or len(self.headers) >= MOST_HEADERS:
            self.refuse(HttpRefusal(431, f"the head has more than {HEAD_BYTES} bytes", closes=True))
        else:
            key = name.decode("latin-1").lower()
            try:
                text = value.decode()
            except UnicodeDecodeError:
                text = value.decode(errors="replace")
                self.without_text.add(key)
            self.headers.setdefault(key, []).append(text)

    def add_target(self, part: bytes) -> None:
        self.head += len(part)
        if self.head > LINE_BYTES:
            self.refuse(HttpRefusal(414, f"the target has more than {LINE_BYTES} bytes", closes=True))
        else:
            self.target += part.decode("latin-1")  # it may come in parts; as a rule it is ASCII

    def end_head(self, method: str, version: str, keep: bool) -> None:
        """`keep`: more may follow on its connection."""
        self.headed = True
        self.method = method
        self.version = version
        self.keep = keep
        codings = self.headers.get("transfer-encoding")
        if codings is not None and [coding.strip().lower() for coding in codings] != ["chunked"]:
            self.refuse(HttpRefusal(501, "Transfer-Encoding may be chunked, and nothing else", closes=True))
        length = self.header("content-length")
        self.length = int(length) if length.isdigit() else 0  # the parser has refused all but digits

    def header(self, name: str) -> str:
        """The first of that name, or ""."""
        values = self.headers.get(name)
        return values[0] if values is not None else ""

    @property
    def content_type(self) -> str:
        """The Content-Type without its parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def awaited(self) -> int:
        """Bytes of the body that are still to come, if that is known."""
        return self.length - self.came if self.headed else 0

    # the body

    def expect_body(self, reading: BodyReading, limit: int) -> None:
        """Raises HttpRefusal."""
        self.reading = reading
        self._limit = limit
        encoding = self.header("content-encoding").strip().lower()
        if encoding not in ("", "identity"):
            if encoding not in ENCODINGS or len(self.headers["content-encoding"]) > 1:
                raise HttpRefusal(
                    415, "Content-Encoding may be gzip, deflate or zstd, and only one of them", closes=True
                )
            self._members = Members(ENCODINGS[encoding])
        if self.length > limit:
            raise too_large(self._limit)

    def add(self, data: bytes) -> None:
        self.came += len(data)
        if self.refusal is not None:
            return
        try:
            if self._members is None:
                self._keep(data)
                return
            self._members.feed(data)
            while (read := self._members.read()) is not None:
                self._keep(read[0])
        except HttpRefusal as refusal:
            self.refuse(refusal)
        except Corrupt as error:
            self.refuse(HttpRefusal(400, str(error), closes=True))

    def _keep(self, part: bytes) -> None:
        assert self.reading is not None
        self._inflated += len(part)
        if self._inflated > self._limit:
            raise too_large(self._limit)
        self.reading.add(len(part))
        self._parts.append(part)

    def look_at_framing(self) -> None:
        """A client may say much around the chunks, which counts as no body."""
        if not self.length and self.fed > FRAMING_SHARE * self.came + HEAD_BYTES:
            self.refuse(HttpRefusal(400, "the body has too little in its chunks", closes=True))

    def end_body(self) -> None:
        self.complete = True
        if self.refusal is not None:
            return
        try:
            if self._members is not None:
                self._members.end()
        except Corrupt as error:
            self.refuse(HttpRefusal(400, str(error), closes=True))
        if self.reading is not None:
            self.reading.is_read()

    def take_body(self) -> bytes:
        """Returns the body. Call it once."""
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def written_anew(self) -> bytes | None:
        """The complete request, for another process. None: its head cannot be written as it was. Call it once."""
        if self.without_text:
            return None
        body = self.take_body()
        own = ("content-length", "transfer-encoding", "content-encoding", "expect")
        lines = [f"{self.method} {self.target} HTTP/{self.version}"]
        lines += [f"{name}: {value}" for name, values in self.headers.items() if name not in own for value in values]
        if body or self.header("content-length") or self.header("transfer-encoding"):
            lines.append(f"content-length: {len(body)}")
        self.release()
        return "\r\n".join([*lines, "", ""]).encode() + body

    def refuse(self, refusal: HttpRefusal) -> None:
        """The first one counts. Nothing of the request is kept."""
        if self.refusal is None:
            self.refusal = refusal
        self._parts.clear()
        self.release()

    def release(self) -> None:
        if self.reading is not None:
            self.reading.release()
