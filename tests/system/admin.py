"""A daemon's admin interface as its users ask it: Prometheus, a probe, a script."""

import http.client
import json
import socket
from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.system.daemon import Daemon
from tests.waiting import PATIENCE, wait_until

LOOPBACK = "127.0.0.1:0"


class Connection(http.client.HTTPConnection):
    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("unix:").rpartition(":")
        super().__init__(host or "localhost", int(port) if host else None, timeout=PATIENCE)
        self._path = None if host else port

    def connect(self) -> None:
        if self._path is None:
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


class Admin:
    """`address`: as its log line says, for port 0 was asked for; or as it was given."""

    def __init__(self, daemon: Daemon | None, address: str = "") -> None:
        self.address = str(daemon.wait_for("admin listening")["address"]) if daemon is not None else address

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        connection = Connection(self.address)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        code, body = self.get("/status")
        assert code == 200
        answer: dict[str, Any] = json.loads(body)
        return answer

    def metrics(self) -> dict[tuple[str, str], float]:
        """Values by name and component; where there are further labels, the sum."""
        return values(self.get("/metrics")[1])

    def until(self, true: Callable[["Admin"], bool]) -> None:
        """Asks again and again, for what is asked changes by itself."""
        wait_until(lambda: true(self), lambda: self.get("/status") if self.answers() else "nobody answers")

    def until_ready(self) -> None:
        self.until(lambda admin: admin.get("/readyz")[0] == 200)

    def until_there(self) -> None:
        self.until(lambda admin: admin.answers())

    def answers(self) -> bool:
        try:
            return self.get("/livez")[0] == 200
        except OSError:
            return False


def values(text: str) -> dict[tuple[str, str], float]:
    """Of `/metrics`, as `Admin.metrics` has them."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, sample.labels.get("component", "")
            found[key] = found.get(key, 0.0) + sample.value
    return found
