"""Whether the daemon is ready, and what systemd is told of it."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from walflow.nodes.connector import ConnectorNodes
from walflow.runtime.notify import Notifier

START_SECONDS: Final = 30.0  # systemd is told after them that we run, whatever is not ready yet

log = structlog.get_logger()


class Readiness:
    """Ready is a daemon whose connectors are, each by its `Health`, and that nothing stops."""

    def __init__(self, connectors: Sequence[ConnectorNodes], stop: asyncio.Event) -> None:
        self._connectors = connectors
        self._stop = stop
        self._notifier = Notifier.from_environment()
        self._said_ready = False

    def lacking(self) -> list[str]:
        """A line each for what keeps the daemon from being ready; empty: it is."""
        stopping = ["the daemon is stopping"] if self._stop.is_set() else []
        return stopping + [
            f"{nodes.name} is {nodes.health.state}{': ' if nodes.health.reason else ''}{nodes.health.reason}"
            for nodes in self._connectors
            if not nodes.health.ready
        ]

    def begin(self) -> None:
        """Tells systemd how it goes from here on."""
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
        """A timer of the loop: a loop that stands still does not feed the watchdog."""
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
