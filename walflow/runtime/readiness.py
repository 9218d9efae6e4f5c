"""Whether the daemon is ready, and what systemd is told about it."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from walflow.nodes.connector import ConnectorNodes
from walflow.runtime.notify import Notifier

START_SECONDS: Final = 30.0  # then systemd is told that the daemon runs, even if a connector is not ready

log = structlog.get_logger()


class Readiness:
    """The daemon is ready if it is not stopping and each connector is ready, as its `Health` says."""

    def __init__(self, connectors: Sequence[ConnectorNodes], stop: asyncio.Event) -> None:
        self._connectors = connectors
        self._stop = stop
        self._notifier = Notifier.from_environment()
        self._said_ready = False

    def lacking(self) -> list[str]:
        """One line for each reason why the daemon is not ready. Empty: it is ready."""
        stopping = ["the daemon is stopping"] if self._stop.is_set() else []
        return stopping + [_why(nodes) for nodes in self._connectors if not nodes.health.ready]

    def begin(self) -> None:
        """From now on systemd is told each change."""
        for nodes in self._connectors:
            nodes.health.on_change = self._changed
        if self._notifier.watchdog is not None:
            self._feed_watchdog(self._notifier.watchdog / 2)
        asyncio.get_running_loop().call_later(START_SECONDS, self._say_ready)
        self._notifier.status("starting")

    @contextmanager
    def reloading(self) -> Generator[None]:
        self._notifier.reloading()
        yield
        if self._said_ready:
            self._notifier.say("READY=1")

    def stopping(self) -> None:
        self._notifier.say("STOPPING=1", "STATUS=draining")

    def end(self) -> None:
        self._notifier.close()

    def _feed_watchdog(self, every: float) -> None:
        """Called by a timer of the loop. If the loop stands still, the watchdog is not fed."""
        self._notifier.say("WATCHDOG=1")
        asyncio.get_running_loop().call_later(every, self._feed_watchdog, every)

    def _changed(self) -> None:
        if self._stop.is_set():
            return
        lacking = self.lacking()
        if not lacking:
            self._say_ready()
        self._notifier.status(f"not ready: {'; '.join(lacking)}" if lacking else "ready")

    def _say_ready(self) -> None:
        if self._said_ready or self._stop.is_set():
            return
        self._said_ready = True
        lacking = self.lacking()
        log.info("ready") if not lacking else log.warning("not ready", after_seconds=START_SECONDS, lacking=lacking)
        self._notifier.say("READY=1")


def _why(nodes: ConnectorNodes) -> str:
    reason = nodes.health.reason or nodes.sink.reason
    return f"{nodes.name} is {nodes.health.state}{': ' if reason else ''}{reason}"
