"""Log lines to stderr: for people on a terminal, JSON otherwise. No payloads, no secrets, no floods."""

import logging
import sys
import time
from collections.abc import MutableMapping
from typing import Final, Literal

import structlog
from structlog.typing import EventDict, WrappedLogger

BURST: Final = 10  # similar lines in a period; more are counted and left out
PERIOD: Final = 10.0  # seconds

Format = Literal["auto", "console", "json"]


def configure(format: Format = "auto", level: str = "info") -> None:
    console = format == "console" or (format == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[
            RateLimit(),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), timestamp_key="ts", sort_keys=False)
            if console
            else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


class RateLimit:
    """Lines of one component that say the same: ten in ten seconds, then silence and a count. Errors of the
    process itself (`critical`) always pass."""

    def __init__(self) -> None:
        self._periods: dict[tuple[object, object], tuple[float, int]] = {}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if method == "critical":
            return event
        key = (event.get("component"), event["event"])
        now = time.monotonic()
        began, lines = self._periods.get(key, (now, 0))
        if now - began < PERIOD:
            self._periods[key] = (began, lines + 1)
            if lines >= BURST:
                raise structlog.DropEvent
            return event
        self._periods[key] = (now, 1)
        if lines > BURST:
            note(event, lines - BURST)
        return event


def note(event: MutableMapping[str, object], left_out: int) -> None:
    event["note"] = f"{left_out} similar lines were left out (events are unaffected)"
