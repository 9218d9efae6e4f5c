"""A real mosquitto, and its own programs as peers."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from demo.server import free_port
from tests.waiting import PATIENCE

SBIN: Final = "/usr/sbin/mosquitto"
BROKER: Final = shutil.which("mosquitto") or (SBIN if os.path.exists(SBIN) else None)
needs_mosquitto = pytest.mark.skipif(
    BROKER is None or shutil.which("mosquitto_sub") is None,
    reason="mosquitto is missing (apt install mosquitto mosquitto-clients)",
)


class Mosquitto:
    """Keeps sessions over its end by SIGTERM. `lines`: more of its configuration."""

    def __init__(self, directory: Path, *lines: str) -> None:
        self.port = free_port()
        self._directory = directory
        user = ["user root"] if os.getuid() == 0 else []  # the directory of a test is for its owner alone
        self._config = directory / "mosquitto.conf"
        text = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {directory}/",
            "max_queued_messages 0",
            "queue_qos0_messages true",
            *user,
            *lines,
        ]
        self._config.write_text("\n".join(text) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert BROKER is not None
        with open(self._directory / "mosquitto.log", "ab") as log:
            self._process = subprocess.Popen([BROKER, "-c", str(self._config)], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()
            except OSError:
                assert self._process.poll() is None, (self._directory / "mosquitto.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def pause(self) -> None:
        """It reads nothing from now on, until `go_on`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def publish(self, topic: str, lines: Sequence[bytes], *options: str) -> None:
        """A message a line, with QoS 1 unless `options` say otherwise. Returns when the broker has them."""
        command = ["mosquitto_pub", "-p", str(self.port), "-t", topic, "-q", "1", "-l", *options]
        subprocess.run(command, input=b"".join(line + b"\n" for line in lines), check=True, timeout=PATIENCE)

    def keep(self, topic: str) -> None:
        """From now on it keeps the messages of this topic for `kept`."""
        self._subscriber(topic, "-E")

    def kept(self, topic: str, count: int) -> list[bytes]:
        """So many messages, as soon as it has them."""
        return self._subscriber(topic, "-C", str(count)).splitlines()

    def _subscriber(self, topic: str, *options: str) -> bytes:
        session = ["-c", "-i", "kept", "-q", "2"]
        command = ["mosquitto_sub", "-p", str(self.port), "-t", topic, *session, *options]
        return subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True).stdout


@contextmanager
def broker(directory: Path, *lines: str) -> Iterator[Mosquitto]:
    made = Mosquitto(directory, *lines)
    made.start()
    try:
        yield made
    finally:
        made.end()
