"""Log lines to stderr: for people on a terminal, JSON otherwise. No payloads, no secrets, no floods.

Nothing here may end or hold up a flow: a value that cannot be shown costs its line, a stderr that is not read costs
the lines that do not fit (stderr.py).
"""

import atexit
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, Literal, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from walflow.admin.text import printable
from walflow.cli.stderr import Stderr

BURST: Final = 10  # similar lines in a period; more are counted and left out
PERIOD: Final = 10.0  # seconds
REASONS: Final = 3  # different ones that the note on lines left out has
KINDS: Final = 1000  # of lines that are remembered
LONGEST: Final = 2000  # characters of one value

Format = Literal["auto", "console", "json"]
Event = Mapping[str, object]


def configure(format: Format = "auto", level: str = "info", fd: int = 2) -> Stderr:
    """Configures all logging. The object that it returns knows how many lines were dropped."""
    terminal = _is_terminal(fd)
    console = format == "console" or (format == "auto" and terminal)
    render: Processor = (
        structlog.dev.ConsoleRenderer(
            colors=terminal, timestamp_key="ts", sort_keys=False, exception_formatter=structlog.dev.plain_traceback
        )
        if console
        else cast(Processor, structlog.processors.JSONRenderer())
    )
    lines = LogLines([structlog.processors.format_exc_info, shown if console else bounded, render])
    stderr = Stderr(fd, lambda dropped: lines.line(_dropped(dropped)))
    atexit.register(stderr.flush)
    structlog.configure(
        processors=[RateLimit(), lines],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _Logger(stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Others()], level=logging.WARNING, force=True)
    return stderr


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _dropped(lines: int) -> EventDict:
    return {
        "event": "log lines dropped",
        "level": "warning",
        "lines": lines,
        "reason": "stderr was not read (events are unaffected)",
    }


class LogLines:
    """Formats a log event as a line, with any values."""

    def __init__(self, processors: Sequence[Processor]) -> None:
        self._processors: list[Processor] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            *processors,
        ]

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        try:
            return self._rendered(logger, method, event)
        except Exception as error:  # noqa: BLE001  # a value that cannot be shown ends a line, not a flow
            failed = {"event": "log line failed", "error": type(error).__name__}
            return self._rendered(logger, "error", failed)

    def line(self, event: EventDict) -> str:
        return self(None, str(event["level"]), event)

    def _rendered(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        result: Any = event  # each takes what the one before made, the last one makes the line
        for processor in self._processors:
            result = processor(logger, method, result)
        return str(result).replace("\x7f", "\\u007f")  # the one control character that JSON lets pass


def shown(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Values with control characters made visible. A traceback keeps its lines, each of them indented."""
    exception = event.pop("exception", None)
    clean: EventDict = {printable(str(key)): _shown(value) for key, value in event.items()}
    if exception is not None:
        clean["exception"] = "\n".join(f"    {printable(line)}" for line in str(exception).splitlines())
    return clean


def _shown(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return printable(_cut(value if isinstance(value, str) else repr(value)))


def bounded(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """JSON escapes what a terminal may not have; a value may only be too long."""
    return {
        key: _cut(value) if isinstance(value, str) and key != "exception" else value for key, value in event.items()
    }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


class _Logger:
    """The last step for structlog's lines. The last line of a process is waited for."""

    def __init__(self, stderr: Stderr) -> None:
        self._stderr = stderr

    def write(self, line: str) -> None:
        self._stderr.write(line)

    def critical(self, line: str) -> None:
        self._stderr.write(line)
        self._stderr.flush()

    debug = info = warning = error = exception = msg = write


class _Others(logging.Handler):
    """Lines of libraries, which use the standard library's logging.

    A library quotes what it could not read, and that may be a password:
    `Missing expected LF after header value: b'Authorization: …'`. So of its words only those are shown that stand in
    its source, with the peer's address, the type of the error and its place in the source."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            level = record.levelno
            fields: dict[str, object] = {}
            if peers := _peers(record.args):
                fields["peer"] = peers[0]
            error = record.exc_info[1] if record.exc_info else None
            if error is not None:
                fields |= {"error": type(error).__name__, "at": _place(error)}
                if type(error).__module__ in PEERS_FAULT:
                    level = logging.DEBUG
            fields.setdefault("at", f"{record.filename}:{record.lineno}")
            words = _words(str(record.msg)) if record.args or record.name in PLAIN else "message"
            structlog.get_logger(component=record.name).log(level, words, **fields)
        except Exception:  # noqa: BLE001  # as above
            return


PLAIN: Final = frozenset({"asyncio"})  # their messages without arguments begin with words of theirs
PEERS_FAULT: Final = frozenset({"aiohttp.http_exceptions"})  # modules of errors that any peer can cause
_MADE: Final = re.compile(r"%[#0\- +]*[\d.*]*[a-zA-Z]|[^\w ,./;!?-]", re.ASCII)


def _words(message: str) -> str:
    """What stands before the first place at which something may have been filled in, in the first line."""
    return _MADE.split(message.partition("\n")[0], maxsplit=1)[0].strip() or "message"


def _peers(args: object) -> list[str]:
    found: list[str] = []
    for one in cast("tuple[object, ...]", args) if isinstance(args, tuple) else ():
        try:
            found.append(str(ip_address(str(one))))
        except ValueError:
            continue
    return found


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return "unknown"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


class LeftOut:
    """Lines that were left out: how many, of how many events, at which positions, and for which reasons."""

    def __init__(self) -> None:
        self.lines = 0
        self._events = 0
        self._first: int | None = None
        self._last: int | None = None
        self._reasons: dict[str, None] = {}
        self._more = False  # reasons

    def add(self, event: Event) -> None:
        self.lines += 1
        told = event.get("events")
        events = told if isinstance(told, int) else 0
        self._events += events
        position = event.get("position")
        if isinstance(position, int):
            self._first = position if self._first is None else min(self._first, position)
            self._last = max(self._last or 0, position + max(0, events - 1))
        reason = str(event.get("reason") or event.get("cause") or event.get("error") or "")
        if reason and reason not in self._reasons:
            if len(self._reasons) < REASONS:
                self._reasons[reason] = None
            else:
                self._more = True

    def __str__(self) -> str:
        of = f" of {_counted(self._events, 'event')}" if self._events else ""
        told = (
            f"{_counted(self.lines, 'similar line')}{of} {'was' if self.lines == 1 else 'were'} left out (events "
            "are unaffected)"
        )
        if self._first is not None:
            same = self._first == self._last
            told += f"; position {self._first:,}" if same else f"; positions {self._first:,} to {self._last:,}"
        if self._reasons:
            told += f"; {' | '.join(self._reasons)}{' | and others' if self._more else ''}"
        return told


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class RateLimit:
    """Lines of one component that say the same: ten in ten seconds, then silence, and a note on the next one that
    says what was left out. Errors of the process itself (`critical`) always pass."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._periods: dict[tuple[str, str], tuple[float, int, LeftOut]] = {}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if method == "critical":
            return event
        key = (str(event.get("component")), str(event["event"]))
        now = self._clock()
        began, lines, left_out = self._periods.get(key, (now, 0, LeftOut()))
        if now - began < PERIOD:
            self._periods[key] = (began, lines + 1, left_out)
            if lines >= BURST:
                left_out.add(event)
                raise structlog.DropEvent
            return event
        if len(self._periods) >= KINDS:
            self._periods.clear()
        self._periods[key] = (now, 1, LeftOut())
        if left_out.lines:
            event["note"] = str(left_out)
        return event
