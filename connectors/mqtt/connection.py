"""One connection to a broker. paho gets a connected socket, and reads and writes when the loop says that it is ready.
So there are no threads, and all callbacks come on the loop. Only the TLS handshake blocks, on a thread."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, cast

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from connectors.mqtt.limits import BrokerLimits
from connectors.mqtt.settings import MqttAway, MqttConnector
from walflow import Half
from walflow.net import Contexts, connected_socket, on_thread

if TYPE_CHECKING:
    from paho.mqtt.client import SocketLike

AnswerT = TypeVar("AnswerT")
CONNECT: Final = 10.0  # seconds, for each of: a connection with TLS, the broker's answer
FAILURES: Final = 0x80  # reason codes from here on
UNSPECIFIED: Final = 0x80
NO_SUCH_VERSION: Final = 0x84
TAKEN_OVER: Final = 0x8E
STEADY: Final = 10.0  # seconds after which a connection was good, also without a message
MISC: Final = 1.0  # seconds between looks at the keepalive
TURN: Final = 200  # messages that are read before others have their turn


class HoldingClient(Client):
    """paho, but it does not answer a message of QoS 2 by itself: it hands it over when it comes, and `pubrec` answers
    it.

    paho answers with PUBREC at once, and its `manual_ack` holds only the PUBCOMP. After PUBREC the broker has
    forgotten the message, so a kill would lose it. paho has no public way to hold a PUBREC, so this overrides three
    of its private functions. Another one hears a PUBREC that refuses. One leaves no socket open whose TLS handshake
    failed; paho leaves it to the collector. The last gives paho the socket that is connected already.
    """

    connected: socket.socket | None = None
    on_released: Callable[[int], None] | None = None
    """Called with the packet identifier at PUBREL: the broker will not send the message again."""

    def pubrec(self, mid: int) -> None:
        super()._send_pubrec(mid)

    def _send_pubrec(self, mid: int) -> MQTTErrorCode:
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_publish(self) -> MQTTErrorCode:
        code = super()._handle_publish()
        while self._in_messages:  # only what came with QoS 2
            _, message = self._in_messages.popitem(last=False)
            if self.on_message is not None:
                self.on_message(self, None, message)
        return code

    def _handle_pubrec(self) -> MQTTErrorCode:
        """One that refuses the message ends it (MQTT 5, 4.3.3). paho overlooks that, and says that the message is
        published."""
        packet = cast(bytes, self._in_packet["packet"])
        mid, code = int.from_bytes(packet[:2]), packet[2] if len(packet) > 2 else 0
        if code < FAILURES or mid not in self._out_messages:
            return super()._handle_pubrec()
        try:
            reason = ReasonCode(PacketTypes.PUBREC, identifier=code)
        except KeyError:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        with self._out_message_mutex:
            return self._do_on_publish(mid, reason, new_properties(PacketTypes.PUBREC))

    def _handle_pubrel(self) -> MQTTErrorCode:
        code = super()._handle_pubrel()
        mid = int.from_bytes(cast(bytes, self._in_packet["packet"])[:2])
        if self.on_released is not None:
            self.on_released(mid)
        return code or self.ack(mid, 2)  # the PUBCOMP, also for a message of an earlier process

    def _create_socket_connection(self) -> socket.socket:
        assert self.connected is not None
        return self.connected

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        context: ssl.SSLContext = getattr(self, "_ssl_context")  # noqa: B009  # it has no types
        tcp_sock.settimeout(CONNECT)
        return context.wrap_socket(tcp_sock, server_hostname=self._host)  # with the handshake


class MqttConnection:
    """`limits`: what the broker said once it was open. `received`: how many messages have come."""

    def __init__(self, config: MqttConnector, half: Half, contexts: Contexts | None, client_id: str, *, clean: bool):
        self.present = False  # the broker has kept the session
        self.limits = BrokerLimits()
        self.heard = False  # it took or sent a message
        self._taken_over = False  # by another client of the same name
        self.received = 0
        self.on_message: Callable[[MQTTMessage], None] = _nothing
        self._config = config
        self._half = half
        self._clean = clean
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[ReasonCode] = self._loop.create_future()
        self._lost: asyncio.Future[str] = self._loop.create_future()
        self._five = config.version == "5"
        self.client = client = HoldingClient(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if self._five else clean,
            protocol=MQTTProtocolVersion.MQTTv5 if self._five else MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        if config.username is not None:
            password = config.password.read().get_secret_value() if config.password is not None else None
            client.username_pw_set(config.username, password)
        if contexts is not None:
            use: Callable[[ssl.SSLContext], None] = getattr(client, "tls_set_context")  # noqa: B009  # it has no types
            use(contexts.current)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message

    def __repr__(self) -> str:
        return f"<MqttConnection to {self._config.address}>"

    async def open(self, session_s: int = 0, receive_maximum: int = 0) -> None:
        """Raises MqttAway."""
        properties = new_properties(PacketTypes.CONNECT) if self._five else None
        if properties is not None and session_s:
            properties.SessionExpiryInterval = session_s
        if properties is not None and receive_maximum:
            properties.ReceiveMaximum = receive_maximum
        try:
            async with asyncio.timeout(CONNECT):
                self.client.connected = await connected_socket(self._half.scheduler, self._config.address)
            await on_thread(self._half.scheduler, lambda: self._dial(properties), _hang_up)
        except TimeoutError:
            raise MqttAway(f"not connected within {CONNECT:g} s") from None
        except (OSError, ValueError) as error:
            if self.client.connected is not None:
                self.client.connected.close()
            raise MqttAway(_line(error)) from error
        sock = self.client.socket()
        if sock is None:
            raise MqttAway("the broker has closed the connection")
        self._loop.add_reader(sock, self._readable)
        self.client.on_socket_register_write = self._on_want_write
        self.client.on_socket_unregister_write = self._on_written
        self.client.on_socket_close = self._on_close
        if self.client.want_write():
            self._loop.add_writer(sock, self._writable)
        code = await self.until(self._answer, f"no answer within {CONNECT:g} s")
        if code.is_failure:
            hint = ': write `"version": "3.1.1"`' if self._five and code.value == NO_SUCH_VERSION else ""
            raise MqttAway(f"the broker refuses: {code}{hint}")

    async def until(self, answer: asyncio.Future[AnswerT], late: str) -> AnswerT:
        """Raises MqttAway if the connection ends before, or if CONNECT is over: `late` says so."""
        either: list[asyncio.Future[AnswerT] | asyncio.Future[str]] = [answer, self._lost]
        await asyncio.wait(either, timeout=CONNECT, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise MqttAway(self._lost.result() if self._lost.done() else late)

    def _dial(self, properties: Properties | None) -> Client:
        address, keepalive = self._config.address, self._config.keepalive // 1_000_000_000
        if self._five:
            self.client.connect(address.host, address.port, keepalive, clean_start=self._clean, properties=properties)
        else:
            self.client.connect(address.host, address.port, keepalive)
        return self.client

    async def until_lost(self, fruitful: Callable[[], None]) -> str:
        """Returns why the connection ended. Calls `fruitful` if the broker took or sent a message on it, or if it
        stood for STEADY. Two clients of one name end each other's connections: what came between does not count."""
        began = self._half.scheduler.awake()
        while not self._lost.done():
            self.client.loop_misc()
            await asyncio.wait([self._lost], timeout=MISC)
        if (self.heard and not self._taken_over) or self._half.scheduler.awake() - began > STEADY:
            fruitful()
        return self._lost.result()

    def close(self) -> None:
        """With a word to the broker, if it takes one now."""
        client, sock = self.client, self.client.socket()
        if sock is not None:
            client.disconnect()
            client.loop_write()
        client.on_socket_register_write = client.on_socket_unregister_write = client.on_socket_close = None
        client.on_connect = client.on_disconnect = client.on_message = None
        client.on_publish = client.on_subscribe = client.on_released = None
        if sock is not None and sock.fileno() >= 0:
            self._on_close(client, None, sock)
            sock.close()

    def _readable(self) -> None:
        unread = 0
        for _ in range(TURN):
            before = self.received
            code = self.client.loop_read()
            sock = self.client.socket()
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS or sock is None:
                self._lose(f"the connection broke: {_words(code)}")
                return
            unread = sock.pending() if isinstance(sock, ssl.SSLSocket) else 0
            if self.received == before and not unread:
                return
        if unread:  # decrypted already: the loop sees nothing to read
            self._loop.call_soon(self._readable)

    def _writable(self) -> None:
        self.client.loop_write()

    def _lose(self, reason: str) -> None:
        if not self._lost.done():
            self._lost.set_result(reason)

    # called by paho, on the loop

    def _on_connect(
        self, _client: Client, _data: object, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.present = flags.session_present
        if properties is not None:
            self.limits = BrokerLimits.of(properties)
        if not self._answer.done():
            self._answer.set_result(code)

    def _on_disconnect(
        self,
        _client: Client,
        _data: object,
        flags: DisconnectFlags,
        code: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        """paho calls each error of the socket an unspecified error."""
        if flags.is_disconnect_packet_from_server:
            self._taken_over = code.value == TAKEN_OVER
            who = ": another client has the same client_id" if self._taken_over else ""
            self._lose(f"the broker ended the connection: {code}{who}")
        else:
            self._lose("the connection broke" if code.value == UNSPECIFIED else f"the connection ended: {code}")

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.received += 1
        self.heard = True
        self.on_message(message)

    def _on_want_write(self, _client: Client, _data: object, sock: "SocketLike") -> None:
        self._loop.add_writer(sock, self._writable)

    def _on_written(self, _client: Client, _data: object, sock: "SocketLike") -> None:
        self._loop.remove_writer(sock)

    def _on_close(self, _client: Client, _data: object, sock: "SocketLike") -> None:
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)


async def keep_connected(
    config: MqttConnector,
    half: Half,
    connect: Callable[[Callable[[], None]], Awaitable[str]],
    on_lost: Callable[[str], None],
) -> NoReturn:
    """One connection after the other, until it is cancelled. `connect` runs one. When it is over, `connect` calls its
    argument if it was fruitful, and returns the reason or raises MqttAway.

    Raises MqttAway after `max_retries`."""
    backoff = config.reconnect.retry.backoff()
    while True:
        try:
            reason = await connect(backoff.reset)
        except MqttAway as error:
            reason = str(error)
        delay = backoff.next()
        half.log.warning("disconnected", peer=str(config.address), reason=reason, retry_seconds=round(delay, 2))
        on_lost(reason)
        if backoff.gave_up:
            raise MqttAway(reason)
        await asyncio.sleep(delay)


def _hang_up(client: Client) -> None:
    """On the thread, after `close`."""
    sock = client.socket()
    if sock is not None:
        sock.close()


def new_properties(kind: int) -> Properties:
    make: Callable[[int], Properties] = Properties  # which has no types
    return make(kind)


def _nothing(_message: MQTTMessage) -> None: ...


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _words(code: MQTTErrorCode) -> str:
    return code.name.removeprefix("MQTT_ERR_").replace("_", " ").lower()
