"""One blocking connection to the daemon: preface, proof of both sides, then a question at a time."""

import contextlib
import secrets
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

from pyspark_walflow import wire
from pyspark_walflow.local_files import FilePart
from pyspark_walflow.wire import Code, Damaged, FrameKind, RequestRefused, WireKey

CONNECT_SECONDS: Final = 10.0  # until the first answer too
ANSWER_SECONDS: Final = 60.0  # without a byte; a daemon that takes longer says BUSY meanwhile
RECEIVE_BUFFER: Final = 4 << 20
KEPT: Final = 4 << 20  # bytes of a payload that the next one is received into


class Endpoint(NamedTuple):
    """`cafile`: who signed the daemon's certificate, "" for the system's; None: no TLS."""

    host: str
    port: int
    cafile: str | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class LostPositions(NamedTuple):
    """Positions `first` to `last`, both included, that the log cannot give any more. `empty`: there never was an
    event that anybody was promised, so nothing is lost."""

    first: int
    last: int
    reason: str
    empty: bool = False


class Client:
    """Raises OSError for errors that a new connection may solve, Refused for a refusal of the daemon, and Damaged if
    the other side is no walflow. After OSError and Damaged, `close` it."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: WireKey,
        log: str | None = None,
        *,
        connecting: float = CONNECT_SECONDS,
        answering: float = ANSWER_SECONDS,
    ) -> None:
        """`log`: the uuid it must have; None: any. `connecting`, `answering`: seconds, see CONNECT_SECONDS and
        ANSWER_SECONDS."""
        self.endpoint = endpoint
        self.near = False  # the daemon is on this machine
        self._buffer = bytearray()
        self._socket = _connect(endpoint, connecting)
        try:
            self.near = self._socket.getpeername()[0] == self._socket.getsockname()[0]
            self.log = self._greet(key, log)
            self._socket.settimeout(answering)
        except ConnectionError:
            self.close()
            wants = "" if endpoint.cafile is not None else "; does it want TLS?"
            raise ConnectionResetError(f"{endpoint} closed the connection before it said who it is{wants}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def call(self, kind: FrameKind, fields: Mapping[str, object]) -> dict[str, object]:
        self._socket.sendall(wire.control(kind, fields))
        return self._answer()

    def read(
        self, first: int, end: int, consumer: str, *, summed: bool = True, files: bool = False
    ) -> Iterator[tuple[int, memoryview] | LostPositions | FilePart]:
        """(seed, whole records) of positions `first` to `end`, the latter excluded, in order; the first and the last
        record may reach beyond. The bytes are valid until the next of them is asked for. To leave it before its end
        is to leave a connection that is of no use any more. `summed` False: the caller verifies the checksums of the
        records, so their frames need none. `files`: the caller can read files of the daemon's machine; then the
        daemon may say where the records lie instead of sending them."""
        fields: dict[str, object] = {"first": first, "end": end, "consumer": consumer}
        if not summed:
            fields["summed"] = False
        if files:
            fields["files"] = True
        self._socket.sendall(wire.control(FrameKind.READ, fields))
        while True:
            kind, payload = self._receive(summed=summed)
            if kind == FrameKind.DATA:
                yield wire.SEED.unpack_from(payload)[0], payload[wire.SEED.size :]
            elif kind == FrameKind.LOST:
                fields = wire.fields_of(payload)
                yield LostPositions(
                    integer(fields, "first"),
                    integer(fields, "last"),
                    str(fields.get("reason")),
                    fields.get("empty") is True,
                )
            elif kind == FrameKind.PLACE and files:
                yield FilePart.of(wire.fields_of(payload))
            elif kind == FrameKind.OK:
                return
            else:
                self._unexpected(kind, payload)

    def stage(self, name: str, lines: Iterator[bytes]) -> dict[str, object]:
        """Each of `lines`: any number of JSON lines, every one with its newline."""
        self._socket.sendall(wire.control(FrameKind.STAGE, {"name": name}))
        for some in lines:
            self._socket.sendall(wire.frame(FrameKind.LINES, some))
        self._socket.sendall(wire.control(FrameKind.STAGED, {}))
        return self._answer()

    def _answer(self) -> dict[str, object]:
        while True:
            kind, payload = self._receive()
            if kind == FrameKind.OK:
                return wire.fields_of(payload)
            if kind != FrameKind.BUSY:
                self._unexpected(kind, payload)

    def _greet(self, key: WireKey, log: str | None) -> str:
        nonce = secrets.token_hex(16)
        hello = {"version": wire.VERSION, "right": key.right, "nonce": nonce, "log": log}
        self._socket.sendall(wire.PREFACE + wire.control(FrameKind.HELLO, hello))
        challenge = self._expect(FrameKind.CHALLENGE)
        other = str(challenge.get("nonce"))
        self._socket.sendall(wire.control(FrameKind.PROOF, {"proof": wire.prove(key, "client", nonce, other)}))
        welcome = self._expect(FrameKind.WELCOME)
        if not wire.same(wire.prove(key, "server", other, nonce), welcome.get("proof")):
            raise Damaged(f"{self.endpoint} does not know the token itself: it is not the walflow that made it")
        return str(welcome.get("log"))

    def _expect(self, kind: FrameKind) -> dict[str, object]:
        got, payload = self._receive()
        if got != kind:
            self._unexpected(got, payload)
        return wire.fields_of(payload)

    def _unexpected(self, kind: int, payload: memoryview) -> NoReturn:
        if kind == FrameKind.ERROR:
            fields = wire.fields_of(payload)
            raise RequestRefused(
                str(fields.get("code", Code.INTERNAL)), str(fields.get("message", "no reason given"))
            )
        raise Damaged(f"{self.endpoint} answered with a frame of kind {kind}, which was not asked for")

    def _receive(self, *, summed: bool = True) -> tuple[int, memoryview]:
        """The payload is valid until the next frame is received. `summed` False: DATA may be without a checksum."""
        header = self._exactly(wire.HEADER.size)
        size, checksum, kind = wire.HEADER.unpack(header)
        if kind not in FrameKind.__members__.values() or size > (
            wire.MAX_PAYLOAD if kind == FrameKind.DATA else wire.MAX_CONTROL
        ):
            said = bytes(header).decode("ascii", "backslashreplace")
            raise Damaged(f"{self.endpoint} is no walflow bridge: it answered {said!r}")
        payload = self._exactly(size)
        if summed or kind != FrameKind.DATA:
            wire.check(payload, checksum)
        return kind, payload

    def _exactly(self, size: int) -> memoryview:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        data = memoryview(self._buffer)[:size]
        if size > KEPT:
            self._buffer = bytearray()
        got = 0
        while got < size:
            count = self._socket.recv_into(data[got:])
            if not count:
                raise ConnectionResetError(f"{self.endpoint} closed the connection")
            got += count
        return data.toreadonly()


def integer(fields: Mapping[str, object], name: str) -> int:
    """Raises Damaged."""
    value = fields.get(name)
    if not isinstance(value, int):
        raise Damaged(f"an answer without {name}")
    return value


def _connect(endpoint: Endpoint, seconds: float) -> socket.socket:
    raw = socket.create_connection((endpoint.host, endpoint.port), seconds)
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        if endpoint.cafile is None:
            return raw
        context = ssl.create_default_context(cafile=endpoint.cafile or None)
        context.hostname_checks_common_name = False  # a name is a subjectAltName, or it is none
        return context.wrap_socket(raw, server_hostname=endpoint.host)
    except BaseException:
        with contextlib.suppress(OSError):
            raw.close()
        raise
