"""HTTP: a server that answers once the events are safe."""

from connectors.http.server import HttpServer

__all__ = ["HttpServer"]
