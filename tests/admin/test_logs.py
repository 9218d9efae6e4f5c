"""Log lines: what a value cannot do to a terminal, to a reader of JSON, and to the flow that logged it."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import structlog
from aiohttp.http_exceptions import BadHttpMessage

from walflow.cli import logs
from walflow.cli.stderr import WAITING_BYTES, Stderr

EVIL = 'a\x1b[2J\r\n{"event": "forged", "level": "critical"}\x07\x9b31m\x7f\u202e\u2028end'


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no words for it")


@contextmanager
def logging_to_pipe(format: logs.Format) -> Iterator[tuple[Stderr, int]]:
    """A configured log, and the descriptor to read what it wrote."""
    read, write = os.pipe()
    handlers = logging.root.handlers[:]
    stderr = logs.configure(format, "debug", write)
    try:
        yield stderr, read
    finally:
        stderr.flush()
        logging.root.handlers[:] = handlers
        structlog.reset_defaults()
        os.close(read)
        os.close(write)


def lines_of(stderr: Stderr, fd: int) -> list[str]:
    stderr.flush()
    return os.read(fd, 1 << 20).decode().splitlines()


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_value_neither_commands_the_terminal_nor_forges_a_line(format: logs.Format) -> None:
    with logging_to_pipe(format) as (stderr, fd):
        structlog.get_logger().warning(EVIL, component=EVIL, reason=EVIL, values=[EVIL], **{EVIL: 1})
        (line,) = lines_of(stderr, fd)
    assert line.isprintable()
    assert "forged" in line


def test_json_keeps_a_value_as_it_was() -> None:
    with logging_to_pipe("json") as (stderr, fd):
        structlog.get_logger().warning("strange", reason=EVIL)
        (line,) = lines_of(stderr, fd)
    assert json.loads(line)["reason"] == EVIL


@pytest.mark.parametrize("format", ["console", "json"])
def test_the_lines_of_a_traceback_cannot_pass_for_log_lines(format: logs.Format) -> None:
    with logging_to_pipe(format) as (stderr, fd):
        try:
            raise ValueError(EVIL)
        except ValueError as error:
            structlog.get_logger().debug("internal error", exc_info=error)
        first, *others = lines_of(stderr, fd)
    assert "internal error" in first
    assert all(line.startswith("    ") and line.isprintable() for line in others)


@pytest.mark.parametrize("format", ["console", "json"])
@pytest.mark.parametrize(
    "value",
    [Unshowable(), {Unshowable(): 1}, "\ud800", b"\xff", 10**5000],
    ids=["repr", "key", "surrogate", "bytes", "digits"],
)
def test_a_value_that_cannot_be_shown_costs_its_line_at_most(format: logs.Format, value: object) -> None:
    with logging_to_pipe(format) as (stderr, fd):
        structlog.get_logger().info("one", value=value)
        structlog.get_logger().info("two")
        assert "two" in lines_of(stderr, fd)[-1]


def test_a_long_value_is_cut() -> None:
    with logging_to_pipe("json") as (stderr, fd):
        structlog.get_logger().info("long", value="x" * 100_000)
        (line,) = lines_of(stderr, fd)
    assert len(line) < 5000
    assert "(100000 characters)" in json.loads(line)["value"]


SECRET = "S3CR3T-TOKEN"


@pytest.mark.parametrize(
    ("logger", "message", "arguments", "shown"),
    [
        ("aiohttp.server", "Error handling request from %s", ("127.0.0.1",), "Error handling request from"),
        ("aiohttp.server", "bad %s\nforged", (SECRET,), "bad"),
        ("aiohttp.client", f"Unclosed client session {SECRET}", (), "message"),
        ("asyncio", f"Exception in callback f(b'{SECRET}')\nhandle: {SECRET}", (), "Exception in callback f"),
        (
            "asyncio",
            "Task was destroyed but it is pending!\ntask: " + SECRET,
            (),
            "Task was destroyed but it is pending!",
        ),
        ("websockets.server", "%r in {what}", (SECRET,), "message"),
        ("any", "cannot read '%s'", (SECRET,), "cannot read"),
    ],
)
def test_of_a_library_only_its_own_words_are_shown(
    logger: str, message: str, arguments: tuple[object, ...], shown: str
) -> None:
    with logging_to_pipe("json") as (stderr, fd):
        try:
            raise ValueError(f"b'Authorization: Bearer {SECRET}'")
        except ValueError:
            logging.getLogger(logger).exception(message, *arguments)
        (line,) = lines_of(stderr, fd)
    assert SECRET not in line
    said = json.loads(line)
    assert (said["component"], said["event"], said["error"]) == (logger, shown, "ValueError")
    assert said["at"].startswith("test_logs.py:")
    assert said.get("peer") == ("127.0.0.1" if "127.0.0.1" in arguments else None)


def test_what_whoever_connects_can_cause_is_no_error_of_ours() -> None:
    with logging_to_pipe("json") as (stderr, fd):
        try:
            raise BadHttpMessage(SECRET)
        except BadHttpMessage:
            logging.getLogger("aiohttp.server").exception("Error handling request from %s", "::1")
        (line,) = lines_of(stderr, fd)
    assert json.loads(line)["level"] == "debug"


def test_similar_lines_are_left_out_and_counted_but_never_the_last_words() -> None:
    with logging_to_pipe("json") as (stderr, fd):
        for _ in range(50):
            structlog.get_logger().warning("again", component="c")
            structlog.get_logger().critical("fatal", component="c")
        events = [json.loads(line)["event"] for line in lines_of(stderr, fd)]
    assert events.count("again") == logs.BURST
    assert events.count("fatal") == 50


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def limited(clock: Clock, *events: dict[str, object]) -> list[dict[str, object]]:
    """Those that are not left out, through one limit."""
    limit, passed = logs.RateLimit(clock), list[dict[str, object]]()
    for event in events:
        clock.now = float(str(event.pop("now", clock.now)))
        with suppress(structlog.DropEvent):
            passed.append(dict(limit(None, "warning", {"component": "log", **event})))
    return passed


FLOOD = {"event": "redelivery", "events": 2, "cause": "500 boom"}


@pytest.mark.parametrize(
    ("left_out", "note"),
    [
        (
            [{**FLOOD, "position": position} for position in (90, 70, 80)],
            "3 similar lines of 6 events were left out (events are unaffected); positions 70 to 91; 500 boom",
        ),
        (
            [{"event": "redelivery", "position": 5, "events": 1}],
            "1 similar line of 1 event was left out (events are unaffected); position 5",
        ),
        (
            [{"event": "redelivery", "reason": f"reason {number % 5}"} for number in range(50)],
            "50 similar lines were left out (events are unaffected); reason 0 | reason 1 | reason 2 | and others",
        ),
    ],
)
def test_what_was_left_out_is_told_with_its_events_positions_and_reasons(
    left_out: list[dict[str, object]], note: str
) -> None:
    first = [{**FLOOD, "position": number} for number in range(logs.BURST)]
    shown = limited(Clock(), *first, *left_out, {**FLOOD, "now": logs.PERIOD}, {**FLOOD, "now": 3 * logs.PERIOD})
    assert [one.get("note") for one in shown[logs.BURST :]] == [note, None]


def test_a_pipe_that_nobody_reads_holds_nobody_up_and_what_is_dropped_is_told_later() -> None:
    read, write = os.pipe()
    stderr = Stderr(write, lambda lines: f"{lines} dropped")
    line = "x" * 1023
    for _ in range(2000):  # more than pipe and queue hold; it would block here
        stderr.write(line)
    assert stderr.dropped > 0
    dropped = stderr.dropped
    assert 2000 - dropped <= (WAITING_BYTES + (1 << 20)) // 1024
    found = bytearray()
    reader = threading.Thread(target=_read_until, args=(read, found, b"the end\n"))
    reader.start()
    while stderr._size:  # what waited has gone
        stderr.flush()
    stderr.write("the end")
    reader.join()
    assert found.endswith(b"\n%d dropped\nthe end\n" % dropped)
    assert found.count(line.encode()) == 2000 - dropped
    os.close(read)
    os.close(write)


def _read_until(fd: int, found: bytearray, end: bytes) -> None:
    while not found.endswith(end):
        found += os.read(fd, 1 << 16)


def test_a_reader_that_goes_away_is_no_ones_trouble() -> None:
    read, write = os.pipe()
    os.close(read)
    stderr = Stderr(write, str)
    stderr.write("one")
    stderr.flush()
    stderr.write("two")
    stderr.flush()
    assert stderr.dropped == 2
    os.close(write)


def test_a_process_ends_with_its_last_line_written() -> None:
    code = (
        "import structlog; from walflow.cli import logs; logs.configure('json'); structlog.get_logger().info('last')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(ended.stderr)["event"] == "last"
