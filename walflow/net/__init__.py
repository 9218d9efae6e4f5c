"""Shared by connectors on a network: addresses, sockets, TLS, secrets, reconnecting."""

from walflow.backoff import Backoff
from walflow.net.address import Address, check_host, check_socket_path, parse_address
from walflow.net.families import BROKER_FAMILIES, CLIENT_FAMILIES, REQUEST_FAMILIES, SERVER_FAMILIES
from walflow.net.message_retries import MessageRetries, NumberedMessage
from walflow.net.problem import connect_problem
from walflow.net.reconnect import Reconnect
from walflow.net.request_seconds import RequestOutcome, RequestSeconds
from walflow.net.retry_queue import Failure, FailureVerdict, HeldPart, RetryQueue
from walflow.net.retry_sink import RetrySink
from walflow.net.secrets import NoSecret, Secret
from walflow.net.sent_block import NotConfirmed, SentBlock
from walflow.net.sockets import CannotListen, SocketOptions
from walflow.net.thread import on_thread
from walflow.net.tls import BadCertificate, ClientTls, Contexts, ServerTls

__all__ = [
    "BROKER_FAMILIES",
    "CLIENT_FAMILIES",
    "REQUEST_FAMILIES",
    "SERVER_FAMILIES",
    "Address",
    "Backoff",
    "BadCertificate",
    "CannotListen",
    "ClientTls",
    "Contexts",
    "Failure",
    "FailureVerdict",
    "HeldPart",
    "MessageRetries",
    "NoSecret",
    "NotConfirmed",
    "NumberedMessage",
    "Reconnect",
    "RequestOutcome",
    "RequestSeconds",
    "RetryQueue",
    "RetrySink",
    "Secret",
    "SentBlock",
    "ServerTls",
    "SocketOptions",
    "check_host",
    "check_socket_path",
    "connect_problem",
    "on_thread",
    "parse_address",
]
