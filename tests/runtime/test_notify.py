"""sd_notify, with a real socket in systemd's place."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from walflow.runtime.notify import Notifier


@pytest.fixture(params=["file", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A listening socket, and what NOTIFY_SOCKET would say."""
    name = str(tmp_path / "notify") if request.param == "file" else f"@walflow-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0", 1) if request.param == "abstract" else name)
        listening.settimeout(10)
        yield listening, name


def test_what_is_said_arrives(systemd: tuple[socket.socket, str]) -> None:
    listening, name = systemd
    notifier = Notifier(name)
    notifier.say("READY=1", "STATUS=ready")
    assert listening.recv(4096) == b"READY=1\nSTATUS=ready"
    notifier.status("not ready:\nREADY=1\x1b[2J")
    assert listening.recv(4096) == b"STATUS=not ready: READY=1?[2J"
    notifier.reloading()
    first, second = listening.recv(4096).split(b"\n")
    assert first == b"RELOADING=1"
    assert second.removeprefix(b"MONOTONIC_USEC=").isdigit()
    notifier.close()
    notifier.say("READY=1")


def test_the_environment_is_taken_and_not_passed_on(systemd: tuple[socket.socket, str]) -> None:
    listening, name = systemd
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    notifier = Notifier.from_environment(environment)
    assert notifier.watchdog == 3.0
    assert environment == {"HOME": "/"}
    notifier.say("WATCHDOG=1")
    assert listening.recv(4096) == b"WATCHDOG=1"
    notifier.close()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "1000000"},
        {"NOTIFY_SOCKET": "/nowhere/at/all", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "vsock:2:1234"},
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
    ],
)
def test_nobody_listens_and_nothing_fails(environment: dict[str, str]) -> None:
    notifier = Notifier.from_environment(environment)
    assert notifier.watchdog is None
    notifier.say("READY=1")
    notifier.close()


def test_a_listener_that_takes_nothing_holds_nobody_up(systemd: tuple[socket.socket, str]) -> None:
    _, name = systemd
    notifier = Notifier(name)
    for _ in range(10_000):  # far more than its queue holds
        notifier.say("WATCHDOG=1")
    notifier.close()
