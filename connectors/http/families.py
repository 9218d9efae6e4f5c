"""The metrics of both connectors."""

from typing import Final

from walflow import Families, Family
from walflow.net import CERTIFICATE_FAMILIES, REQUEST_FAMILIES, SERVER_FAMILIES

SERVER: Final[Families] = {
    "connections": Family("gauge", "Connections of HTTP clients that are open."),
    "refused_requests_total": Family("counter", "HTTP requests that were answered with an error."),
    "repeated_requests_total": Family(
        "counter", "HTTP requests with an Idempotency-Key that was known: answered as before, and not taken again."
    ),
    "request_bytes": Family("gauge", "Bytes of HTTP requests that are being read or wait for their acks."),
    "requests_total": REQUEST_FAMILIES["requests_total"],
    **CERTIFICATE_FAMILIES,
    **SERVER_FAMILIES,
}

CLIENT: Final[Families] = {
    "retried_requests_total": Family("counter", "HTTP requests that were sent again."),
    **CERTIFICATE_FAMILIES,
    **REQUEST_FAMILIES,
}
