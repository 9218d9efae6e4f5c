"""The metrics that connectors on a network share."""

from typing import Final

from walflow.families import Families, Family

CERTIFICATE_FAMILIES: Final[Families] = {
    "certificate_expiry_timestamp_seconds": Family(
        "gauge", "When walflow's own certificate of a connector with TLS expires, in seconds since 1970."
    ),
}

CLIENT_FAMILIES: Final[Families] = {
    "connections_total": Family("counter", "Connections that the client has made to its peer."),
    "unlinked_bytes_total": Family(
        "counter", "Bytes from the peer that were dropped because no pipeline is linked to the source."
    ),
}

SERVER_FAMILIES: Final[Families] = {
    "orphaned_events_total": Family("counter", "Events for a client that has disconnected: acked and dropped."),
    "slow_clients_closed_total": Family("counter", "Connections closed because their client did not read."),
    "idle_clients_closed_total": Family(
        "counter",
        "Connections closed because they were idle, did not answer a ping, or had to make room for a new client.",
    ),
    "refused_connections_total": Family(
        "counter", "Connections of clients that were closed at once because there were too many."
    ),
    "failed_handshakes_total": Family(
        "counter", "Connections whose TLS or WebSocket handshake failed or took too long."
    ),
}

REQUEST_FAMILIES: Final[Families] = {
    "requests_total": Family("counter", "HTTP requests, received or sent."),
    "request_seconds": Family(
        "histogram",
        "How long requests of the sink took, by outcome: `taken`, `refused` (for good), `failed` (tried again).",
        ("outcome",),
    ),
}

BROKER_FAMILIES: Final[Families] = {
    "messages_total": Family("counter", "Messages that were given to the client of the broker (Kafka, MQTT)."),
    "retried_messages_total": Family(
        "counter", "Messages that were given to the client of the broker again after a failure."
    ),
}
