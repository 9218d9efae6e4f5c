"""TCP, with or without TLS."""

from connectors.tcp.client import TcpClient
from connectors.tcp.server import TcpServer

__all__ = ["TcpClient", "TcpServer"]
