"""TLS between a transport and a protocol.

asyncio's and uvloop's own TLS layers hide the socket's buffer, so walflow could not know when an event is "written".
They also use 256 KiB for each connection before its first byte. This layer does neither, and is the same on both
loops: `app` sees an ordinary transport whose write buffer is that of the socket.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from walflow.net.deadline import Deadline
from walflow.net.tls import describe

READ: Final = 16 << 10  # a record of TLS holds no more

Check = Callable[[ssl.SSLObject], str | None]
Failed = Callable[[str], None]


def _accept_all(peer: ssl.SSLObject) -> str | None:
    return None


class TlsProtocol(asyncio.Protocol):
    """One connection. `app` is called when the handshake is done and `check` has accepted the peer. Otherwise
    `failed` is called with the reason, and `app` never is."""

    _raw: asyncio.Transport
    _object: ssl.SSLObject

    def __init__(
        self,
        app: asyncio.Protocol,
        context: ssl.SSLContext,
        failed: Failed,
        *,
        handshake_seconds: float,
        server_hostname: str | None = None,
        server_side: bool = False,
        check: Check = _accept_all,
    ) -> None:
        self.transport = TlsTransport(self)
        self._app = app
        self._context = context
        self._failed = failed
        self._handshake_seconds = handshake_seconds
        self._hostname = server_hostname
        self._server_side = server_side
        self._check = check
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._begun = self._established = self._over = self._peer_ended = self._aborted = False
        self._timer: Deadline | None = None
        self._error: Exception | None = None

    # the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        if self._aborted:
            self._over = True
            self._raw.abort()
            return
        self._timer = Deadline(asyncio.get_running_loop(), self._handshake_seconds, self._time_out)
        if not self._server_side:
            self._shake()

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._incoming.write(data)
        if self._established or self._shake():
            self._read()

    def eof_received(self) -> bool:
        if self._established and self._peer_ended:
            return True  # said goodbye before, and may still read
        self._raw.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._established:
            self._over = True
            self._app.connection_lost(self._error or exc)
        else:
            self._fail("the connection ended in the handshake")

    def pause_writing(self) -> None:
        if self._established:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        if self._established:
            self._app.resume_writing()

    # the handshake

    def _begin(self) -> None:
        """Begins the handshake at the peer's first byte, so that a peer that sends nothing costs only its socket."""
        self._begun = True
        self._object = self._context.wrap_bio(
            self._incoming, self._outgoing, server_side=self._server_side, server_hostname=self._hostname
        )

    def _shake(self) -> bool:
        """Goes on with the TLS handshake. True once it is done."""
        try:
            if not self._begun:
                self._begin()
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self.flush()
            return False
        except ssl.SSLError as error:
            self._refuse(describe(error))
            return False
        except ValueError as error:  # a name that no certificate can have
            self._refuse(str(error))
            return False
        self.flush()
        refusal = self._check(self._object)
        if refusal is not None:
            self._refuse(refusal)
            return False
        self._stop_timer()
        self._established = True
        self._app.connection_made(self.transport)
        return True

    def _refuse(self, reason: str) -> None:
        self.flush()  # OpenSSL has left an alert there that tells the peer why
        self._fail(reason)
        self._raw.close()

    def _time_out(self) -> None:
        self._fail(f"no handshake within {self._handshake_seconds:g} s")
        self._raw.abort()

    def _fail(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._stop_timer()
            self._failed(reason)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # established

    def _read(self) -> None:
        plain: list[bytes] = []
        ended = False
        try:
            while data := self._object.read(READ):
                plain.append(data)
            ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._error = ConnectionError(f"TLS: {describe(error)}")
        self.flush()
        if plain:
            self._app.data_received(plain[0] if len(plain) == 1 else b"".join(plain))
        if self._error is not None:
            self.abort()
        elif ended and not self._peer_ended:
            self._peer_ended = True
            if not self._app.eof_received():
                self.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._over or not self._established or not data:
            return
        try:
            self._object.write(data)
        except ssl.SSLError as error:
            self._error = ConnectionError(f"TLS: {describe(error)}")
            self.abort()
            return
        self.flush()

    def flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        if not self._established:
            self.abort()
            return
        try:
            self._object.unwrap()
        except ssl.SSLError:
            pass  # our goodbye is written; whether the peer's comes is its own affair
        self.flush()
        self._raw.close()

    def abort(self) -> None:
        self._aborted = True
        self._stop_timer()
        if hasattr(self, "_raw"):
            self._raw.abort()

    def hand_to(self, app: asyncio.Protocol) -> None:
        self._app = app

    @property
    def raw(self) -> asyncio.Transport:
        return self._raw

    def peer_info(self, name: str) -> Any:  # as asyncio types it
        return self._object if name == "ssl_object" else None


class TlsTransport(asyncio.Transport):
    """The transport that the protocol above sees."""

    def __init__(self, layer: TlsProtocol) -> None:
        super().__init__()
        self._layer = layer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._layer.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._layer.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self._layer.raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._layer.raw.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._layer.raw.pause_reading()

    def resume_reading(self) -> None:
        self._layer.raw.resume_reading()

    def is_closing(self) -> bool:
        return self._layer.raw.is_closing()

    def close(self) -> None:
        self._layer.close()

    def abort(self) -> None:
        self._layer.abort()

    def hand_to(self, app: asyncio.Protocol) -> None:
        """From now on the connection is another protocol's. `connection_made` is not called."""
        self._layer.hand_to(app)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # as asyncio types it
        found = self._layer.peer_info(name)
        return self._layer.raw.get_extra_info(name, default) if found is None else found
