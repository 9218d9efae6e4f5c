"""WebSocket, with or without TLS: a message is an event."""

from connectors.ws.connector import WsClient
from connectors.ws.server import WsServer

__all__ = ["WsClient", "WsServer"]
