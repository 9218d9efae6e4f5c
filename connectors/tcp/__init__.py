"""TCP, with or without TLS."""

from connectors.tcp.server import TcpServer

__all__ = ["TcpServer"]
