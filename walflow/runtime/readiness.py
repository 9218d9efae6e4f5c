"""Whether the daemon is ready, and what systemd is told about it."""

import asyncio
import errno
from collections.abc import Callable, Generator, Sequence, Set as AbstractSet
from contextlib import contextmanager
from typing import Final

import structlog

from walflow.nodes.connector import ConnectorNodes
from walflow.runtime.notify import Notifier

START_SECONDS: Final = (
    30.0  # then systemd is told that the daemon runs, even if a connector is not ready, unless it cannot listen
)

log = structlog.get_logger()


class Readiness:
    """The daemon is ready if it is not stopping and each connector is ready, as its `Health` says. `on_failed`: the
    start has failed, of which a service manager is told. `on_serving`: all is ready that was ready in the process
    before; `tolerated`: the connectors that were not."""

    def __init__(
        self,
        connectors: Sequence[ConnectorNodes],
        stop: asyncio.Event,
        on_failed: Callable[[], None],
        start_seconds: float = START_SECONDS,
        notifier: Notifier | None = None,
        tolerated: AbstractSet[str] = frozenset(),
    ) -> None:
        self.on_serving: Callable[[], None] = _nothing
        self._tolerated = tolerated
        self._on_failed = on_failed
        self._start_seconds = start_seconds
        self._connectors = connectors
        self._stop = stop
        self._notifier = notifier or Notifier.from_environment()
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
        asyncio.get_running_loop().call_later(self._start_seconds, self._start_is_over)
        self._notifier.status("starting")

    @contextmanager
    def reloading(self) -> Generator[None]:
        self._notifier.reloading()
        yield
        if self._said_ready:
            self._notifier.say("READY=1")

    def stopping(self) -> None:
        self._notifier.say("STOPPING=1", "STATUS=draining")

    def leaving(self) -> None:
        """The next process says that it is ready."""
        self._notifier.reloading()
        self._notifier.status("handing over")

    def end(self) -> None:
        for nodes in self._connectors:
            nodes.health.on_change = _nothing

    def _feed_watchdog(self, every: float) -> None:
        """Called by a timer of the loop. If the loop stands still, the watchdog is not fed."""
        self._notifier.say("WATCHDOG=1")
        asyncio.get_running_loop().call_later(every, self._feed_watchdog, every)

    def _changed(self) -> None:
        if self._stop.is_set():
            return
        lacking = self.lacking()
        if all(nodes.health.ready or nodes.name in self._tolerated for nodes in self._connectors):
            self._serve()
        if not lacking:
            self._say_ready()
        self._notifier.status(f"not ready: {'; '.join(lacking)}" if lacking else "ready")

    def _start_is_over(self) -> None:
        """A peer that is away may come back; an address that another program has does not become free by waiting."""
        blocked = [_why(nodes) for nodes in self._connectors if nodes.health.cannot_listen]
        if not blocked or not self._notifier.heard or self._said_ready or self._stop.is_set():
            self._say_ready()
            return
        log.error("start failed", after_seconds=self._start_seconds, lacking=blocked)
        self._notifier.say(f"ERRNO={errno.EADDRINUSE}")
        self._notifier.status(f"start failed: {'; '.join(blocked)}")
        self._on_failed()

    def _serve(self) -> None:
        serve, self.on_serving = self.on_serving, _nothing
        serve()

    def _say_ready(self) -> None:
        if self._said_ready or self._stop.is_set():
            return
        self._said_ready = True
        self._serve()
        lacking = self.lacking()
        log.info("ready") if not lacking else log.warning(
            "not ready", after_seconds=self._start_seconds, lacking=lacking
        )
        self._notifier.say("READY=1")


def _nothing() -> None: ...


def _why(nodes: ConnectorNodes) -> str:
    reason = nodes.health.why or nodes.sink.reason or ""
    return f"{nodes.name} is {nodes.health.state}{': ' if reason else ''}{reason}"
