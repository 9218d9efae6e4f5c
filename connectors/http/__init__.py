"""HTTP: a server that answers once the events are safe, and a client that acks what is answered with 2xx."""

from connectors.http.client import HttpClient
from connectors.http.server import HttpServer

__all__ = ["HttpClient", "HttpServer"]
