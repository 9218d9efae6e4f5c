"""HTTP: a server that answers once the events are safe, and a client that acks what is answered with 2xx."""

from connectors.http.connector import HttpClient, HttpServer

__all__ = ["HttpClient", "HttpServer"]
