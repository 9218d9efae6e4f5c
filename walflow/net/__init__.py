"""Shared by connectors on a network: addresses, sockets, TLS, secrets, reconnecting, clients, servers,
and what sinks retry."""

from walflow.backoff import Backoff
from walflow.handover import HandedConnection
from walflow.net.acks import WhenWritten
from walflow.net.address import (
    Address,
    check_brackets,
    check_host,
    check_http_url,
    check_socket_path,
    parse_address,
    unwritten_port,
)
from walflow.net.client import ClientConnector, StreamClient, acks_of
from walflow.net.connection import Connection
from walflow.net.credentials import credential_in_the_open, credentials_written
from walflow.net.deadline import CLOSING, LATE, Deadline, within
from walflow.net.dial import Dial, connected_socket
from walflow.net.families import (
    BROKER_FAMILIES,
    CERTIFICATE_FAMILIES,
    CLIENT_FAMILIES,
    REQUEST_FAMILIES,
    SERVER_FAMILIES,
)
from walflow.net.files import warn_if_open
from walflow.net.fruitless import EndsEach, FruitlessConnections
from walflow.net.handed_on import hand_on
from walflow.net.keys import BearerToken, ReconnectKeys, TcpOptions, TlsToPeer
from walflow.net.listener import Listener
from walflow.net.message_retries import MessageRetries, NumberedMessage, any_untried
from walflow.net.needs import to_listen, to_make_socket, to_reach, to_reach_one, to_reach_socket, to_read
from walflow.net.over_tcp import Exposed, TcpListening, host_and_port
from walflow.net.peer import Peer
from walflow.net.problem import connect_problem
from walflow.net.reconnect import Reconnect, Retry
from walflow.net.request_seconds import RequestOutcome, RequestSeconds
from walflow.net.retry_queue import Failure, FailureVerdict, HeldPart, RetryQueue
from walflow.net.retry_sink import RetrySink
from walflow.net.secrets import NoSecret, Secret, bearer, same_token
from walflow.net.secure import TlsProtocol
from walflow.net.sent_block import NotConfirmed, Refusal, SentBlock
from walflow.net.server import SENT_TO_CLIENTS, ServerConnector, StreamServer
from walflow.net.socket_writer import Writing
from walflow.net.sockets import CannotListen, SocketOptions, UnixListener, listen_tcp, socket_of
from walflow.net.thread import on_thread
from walflow.net.tls import BadCertificate, ClientTls, Contexts, ServerTls, check_name
from walflow.net.url import HTTP, AtUrl, UrlScheme

__all__ = [
    "BROKER_FAMILIES",
    "CERTIFICATE_FAMILIES",
    "CLIENT_FAMILIES",
    "CLOSING",
    "HTTP",
    "LATE",
    "REQUEST_FAMILIES",
    "SENT_TO_CLIENTS",
    "SERVER_FAMILIES",
    "Address",
    "AtUrl",
    "Backoff",
    "BadCertificate",
    "BearerToken",
    "CannotListen",
    "ClientConnector",
    "ClientTls",
    "Connection",
    "Contexts",
    "Deadline",
    "Dial",
    "EndsEach",
    "Exposed",
    "Failure",
    "FailureVerdict",
    "FruitlessConnections",
    "HandedConnection",
    "HeldPart",
    "Listener",
    "MessageRetries",
    "NoSecret",
    "NotConfirmed",
    "NumberedMessage",
    "Peer",
    "Reconnect",
    "ReconnectKeys",
    "Refusal",
    "RequestOutcome",
    "RequestSeconds",
    "Retry",
    "RetryQueue",
    "RetrySink",
    "Secret",
    "SentBlock",
    "ServerConnector",
    "ServerTls",
    "SocketOptions",
    "StreamClient",
    "StreamServer",
    "TcpListening",
    "TcpOptions",
    "TlsProtocol",
    "TlsToPeer",
    "UnixListener",
    "UrlScheme",
    "WhenWritten",
    "Writing",
    "acks_of",
    "any_untried",
    "bearer",
    "check_brackets",
    "check_host",
    "check_http_url",
    "check_name",
    "check_socket_path",
    "connect_problem",
    "connected_socket",
    "credential_in_the_open",
    "credentials_written",
    "hand_on",
    "host_and_port",
    "listen_tcp",
    "on_thread",
    "parse_address",
    "same_token",
    "socket_of",
    "to_listen",
    "to_make_socket",
    "to_reach",
    "to_reach_one",
    "to_reach_socket",
    "to_read",
    "unwritten_port",
    "warn_if_open",
    "within",
]
