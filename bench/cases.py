"""The rows of the tables, one entry each."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from bench import backlog, floor, history, lanes, logbytes
from bench.doors import DOORS, Asked, Followed, Handler, following, tailing
from bench.lines import Load
from bench.load import Target
from bench.peers import IN_MEMORY, ON_DISK, PARSES, BareEcho, Redis, Rsyslog
from bench.requests import Requests
from bench.systems import FLOWS, PLAIN, SERVER, STATE, System, Tapped, Walflow, WrongResult
from demo.server import FLOWS as ECHO_FLOWS, INSTALLED, ROOT

Figures = Mapping[str, float]  # of one run

# The tables of the report.
LINES: Final = "lines of 100 bytes, one connection unless named"
LONG_LINES: Final = "lines of 1,000 bytes, one connection"
SINGLE_LINES: Final = "lines of 100 bytes, 50 connections, each write a line"
LOOKS: Final = "looking at events: JSON of 100 bytes with five members, one a nanosecond timestamp; one connection"
LATENCY: Final = "latency"
SPACE: Final = "space"
RESTART: Final = "restart"
RECOVERY: Final = "recovery"
HISTORY: Final = "a log that keeps what is acked"
LAG: Final = "a lane that was away"
EIGHT: Final = "eight lanes at eight places"
REQUESTS: Final = "HTTP requests"
FOLLOWED: Final = "a file that is followed"
COMMANDS: Final = "commands"
TAPS: Final = "walflow tap: the same load with taps open; lines of 100 bytes, one connection"


class Timing(NamedTuple):
    """Seconds."""

    warmup: float
    measured: float


COMMAND_RUNS: Final = 5
LONG_ENOUGH: Final = Timing(0, 15)  # to find records in a log


class Case(Protocol):
    """`key`: what the goals know it by. `baseline`: a short name, where others of its table are divided by it."""

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def baseline(self) -> str: ...
    @property
    def once(self) -> bool:
        """In the first round only, for what takes long."""
        ...

    def absent(self) -> str | None: ...

    def measure(self, workdir: Path, timing: Timing) -> Figures:
        """Raises WrongResult, ServerFailed."""
        ...


@dataclass(frozen=True)
class Loaded:
    """A system under a load. What came back is what was sent, or there is no result."""

    key: str
    system: System
    load: Load = field(default_factory=Load)
    table: str = LINES
    note: str = ""
    baseline: str = ""
    once: bool = False

    @property
    def name(self) -> str:
        return f"{self.system.name}{self.note}"

    def absent(self) -> str | None:
        return self.system.absent()

    def measure(self, workdir: Path, timing: Timing) -> Figures:
        with self.system.running(workdir) as target:
            figures = generate(self.name, order(self.load, target, timing))
        if figures["returned"] != figures["sent"]:
            sent, returned = figures["sent"], figures["returned"]
            raise WrongResult(f"{self.name}: {sent:,} events were sent, {returned:,} came back")
        self.system.verify(workdir, int(figures["sent"]))
        return figures


@dataclass(frozen=True)
class Floor:
    key: str
    name: str
    work: Callable[[Path, float, float], Figures]
    table: str = LATENCY
    baseline: str = ""
    once: bool = False

    def absent(self) -> str | None:
        return None

    def measure(self, workdir: Path, timing: Timing) -> Figures:
        return self.work(workdir, timing.warmup, timing.measured)


@dataclass(frozen=True)
class Space:
    """Blocks of so many lines: one is underway at a time, so a read finds no more than a write had."""

    key: str
    name: str
    lines: int
    table: str = SPACE
    baseline: str = ""
    once: bool = False

    def absent(self) -> str | None:
        return None

    def measure(self, workdir: Path, timing: Timing) -> Figures:
        load = Load(lines_per_write=self.lines, window=self.lines * 100)
        with ECHO.running(workdir) as target:
            command = generator(order(load, target, LONG_ENOUGH))
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                figures = logbytes.while_it_works(workdir / STATE, target.pid, process)
                process.kill()
                _, said = process.communicate()
        if figures is None:
            raise WrongResult(f"{self.name}: {said.decode().strip() or 'no records were found in the log'}")
        return figures


@dataclass(frozen=True)
class Sized:
    """Of a log with so many bytes in it."""

    key: str
    name: str
    table: str
    work: Callable[[Path, int], Figures]
    size: int
    baseline: str = ""
    once: bool = False

    def absent(self) -> str | None:
        return None

    def measure(self, workdir: Path, timing: Timing) -> Figures:
        return self.work(workdir, self.size)


@dataclass(frozen=True)
class Command:
    """A program from its start to its end. The least of five counts: other work only adds."""

    key: str
    name: str
    command: Sequence[str]
    table: str = COMMANDS
    baseline: str = ""
    once: bool = False

    def absent(self) -> str | None:
        return None

    def measure(self, workdir: Path, timing: Timing) -> Figures:
        runs = [self._run() for _ in range(COMMAND_RUNS)]
        return {"cpu_ms": min(run.ru_utime + run.ru_stime for run in runs) * 1000}

    def _run(self) -> resource.struct_rusage:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with subprocess.Popen(
            self.command, cwd=ROOT, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.stderr is not None
            if process.returncode:
                raise WrongResult(f"{self.name}: {process.stderr.read().decode().strip()}")
        return used


def order(load: Load, target: Target, timing: Timing) -> Mapping[str, object]:
    return {
        "load": asdict(load),
        "target": asdict(target),
        "warmup": timing.warmup,
        "seconds": timing.measured,
    }


def generator(ordered: Mapping[str, object]) -> list[str]:
    return [sys.executable, "-m", "bench.load", json.dumps(ordered)]


def generate(name: str, ordered: Mapping[str, object]) -> Figures:
    """Raises WrongResult."""
    done = subprocess.run(generator(ordered), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongResult(f"{name}: {done.stderr.strip()}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def scratch(place: Path) -> Iterator[Path]:
    workdir = Path(tempfile.mkdtemp(dir=place))
    try:
        yield workdir
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


TAPPED: Final = "server/tcp_server/out"
FILE: Final = Walflow("walflow: wal, then file and echo", SERVER, file=True)
ECHO: Final = Walflow("walflow: wal, then echo", SERVER)
PLAIN_FILE: Final = Walflow("walflow without its wal: file and echo", PLAIN, file=True)
PLAIN_ECHO: Final = Walflow("walflow without its wal: echo", PLAIN)
WS_ECHO: Final = Walflow("walflow: wal, then echo, by WebSocket", ECHO_FLOWS / "ws.troy")
FILTER: Final = Walflow("walflow: wal, then a filter (`where`) and echo", FLOWS / "filter.troy")
PATCH: Final = Walflow("walflow: wal, then `patch` and echo", FLOWS / "patch.troy")
TURNS: Final = Walflow("walflow: wal, then a round robin of three and echo", FLOWS / "roundrobin.troy")
LOOK: Final = FLOWS / "look"
WHERE: Final = Walflow("walflow without its wal: `where` on one member, and echo", LOOK / "where.troy")
TWO: Final = Walflow("walflow without its wal: `where` on two members, and echo", LOOK / "two.troy")
TARGET: Final = Walflow("walflow without its wal: two members make a new event, and echo", LOOK / "target.troy")
INSERT: Final = Walflow("walflow without its wal: `patch … insert`, and echo", LOOK / "insert.troy")
SCRIPT: Final = Walflow("walflow without its wal: a script of three cases, and echo", LOOK / "script.troy")
COUNTER: Final = Walflow(
    "walflow without its wal: that script with a counter in `state`, and echo", LOOK / "counter.troy"
)
LANES: Final = Walflow("walflow: wal, then a script of three cases, echo and two more sinks", LOOK / "lanes.troy")
RE: Final = Walflow("walflow without its wal: `re` with two groups, and echo", LOOK / "re.troy")
GROK: Final = Walflow("walflow without its wal: `grok` with two fields, and echo", LOOK / "grok.troy")
IN_STRING: Final = Walflow("walflow without its wal: `json` within a string, and echo", LOOK / "json.troy")
TEN: Final = Walflow("walflow without its wal: `where` on ten members, and echo", LOOK / "ten.troy")
PACKED: Final = Walflow("walflow without its wal: `where` on one member of msgpack, and echo", LOOK / "msgpack.troy")
PACKED_PASS: Final = Walflow("walflow without its wal: echo of msgpack", LOOK / "msgpack_pass.troy")
PARSING: Final = Rsyslog("rsyslog, queue in memory, mmjsonparse, `if` on one member, forwards", IN_MEMORY, PARSES)
TAP: Final = Tapped("walflow without its wal: echo, a tap of its source", PLAIN, TAPPED, [[]])
TAP_WHERE: Final = Tapped(
    "walflow without its wal: echo, a tap with `--where`", PLAIN, TAPPED, [["--where", "event.id > 0"]]
)
TAP_UNREAD: Final = Tapped(
    "walflow without its wal: echo, three taps and one that never reads", PLAIN, TAPPED, [[], [], []], silent=True
)
HTTP: Final = Walflow("walflow: http_server, then null", DOORS / "http.troy")
HTTP_WAL: Final = Walflow("walflow: http_server, then wal", DOORS / "http_wal.troy")
HANDLER: Final = Handler()
DISK: Final = Rsyslog("rsyslog, disk queue, forwards (never syncs)", ON_DISK)
MEMORY: Final = Rsyslog("rsyslog, queue in memory, forwards", IN_MEMORY)
REDIS: Final = Redis()
BARE: Final = BareEcho()

PATCHED: Final = Load(added=',"seen":true')
STAMPED: Final = Load(stamped=True)
MISFITS: Final = Load(stamped=True, misfits=True)
STAMPED_LONG: Final = Load(stamped=True, size=1000)
WIDE: Final = Load(stamped=True, wide=True, size=150)
STAMPED_PACKED: Final = Load(stamped=True, speaks="msgpack")
LONG: Final = Load(size=1000)
SINGLE: Final = Load(connections=50, lines_per_write=1)
PACED: Final = Load(rate=1000)
CROWD: Final = Load(connections=1000, rate=1)
HUNDRED: Final = Requests(100)
WALFLOW: Final = INSTALLED.command[0]

CASES: Final[tuple[Case, ...]] = (
    Loaded("file", FILE),
    Loaded("echo", ECHO),
    Loaded("ws-echo", WS_ECHO, Load(speaks="ws")),
    Loaded("filter", FILTER),
    Loaded("patch", PATCH, PATCHED),
    Loaded("roundrobin", TURNS),
    Loaded("plain-file", PLAIN_FILE, baseline="without wal, with file"),
    Loaded("plain", PLAIN_ECHO, baseline="without wal"),
    Loaded("rsyslog-disk", DISK, baseline="rsyslog disk"),
    Loaded("rsyslog-memory", MEMORY, baseline="rsyslog memory"),
    Loaded("redis-1", REDIS, Load(speaks="redis"), baseline="Redis"),
    Loaded("redis-32", REDIS, Load(speaks="redis", connections=32), note=", 32 connections", baseline="Redis 32"),
    Loaded("bare", BARE),
    Loaded("echo-49", ECHO, Load(connections=49), note=", 49 clients", baseline="49 clients"),
    Loaded("echo-mute", ECHO, Load(connections=49, mute=1), note=", 49 clients beside a mute one"),
    Loaded("look-pass", PLAIN_ECHO, STAMPED, LOOKS, baseline="pass"),
    Loaded("look-where", WHERE, STAMPED, LOOKS),
    Loaded("look-misfits", WHERE, MISFITS, LOOKS, note=", 1 % are arrays"),
    Loaded("look-two", TWO, STAMPED, LOOKS),
    Loaded("look-target", TARGET, Load(stamped=True, picked=True), LOOKS),
    Loaded("look-insert", INSERT, Load(stamped=True, added=',"seen":true'), LOOKS),
    Loaded("look-script", SCRIPT, STAMPED, LOOKS),
    Loaded("look-counter", COUNTER, STAMPED, LOOKS),
    Loaded("look-re", RE, STAMPED, LOOKS),
    Loaded("look-grok", GROK, STAMPED, LOOKS),
    Loaded("look-json", IN_STRING, STAMPED, LOOKS),
    Loaded("look-wal", FILTER, STAMPED, LOOKS, note=", its wal before it"),
    Loaded("look-lanes", LANES, STAMPED, LOOKS),
    Loaded("look-rsyslog", PARSING, STAMPED, LOOKS, baseline="rsyslog mmjsonparse"),
    Loaded("look-long-pass", PLAIN_ECHO, STAMPED_LONG, LOOKS, note=", 1,000 bytes", baseline="pass, 1,000 bytes"),
    Loaded("look-long-where", WHERE, STAMPED_LONG, LOOKS, note=", 1,000 bytes"),
    Loaded(
        "look-wide-pass", PLAIN_ECHO, WIDE, LOOKS, note=", 150 bytes, eleven members", baseline="pass, eleven members"
    ),
    Loaded("look-wide-ten", TEN, WIDE, LOOKS, note=", 150 bytes, eleven members"),
    Loaded("look-packed-pass", PACKED_PASS, STAMPED_PACKED, LOOKS, baseline="pass, msgpack"),
    Loaded("look-packed-where", PACKED, STAMPED_PACKED, LOOKS),
    Loaded("long-echo", ECHO, LONG, LONG_LINES),
    Loaded("long-plain", PLAIN_ECHO, LONG, LONG_LINES, baseline="without wal"),
    Loaded("long-rsyslog-disk", DISK, LONG, LONG_LINES, baseline="rsyslog disk"),
    Loaded("long-rsyslog-memory", MEMORY, LONG, LONG_LINES, baseline="rsyslog memory"),
    Loaded(
        "long-redis-32",
        REDIS,
        Load(size=1000, speaks="redis", connections=32),
        LONG_LINES,
        note=", 32 connections",
        baseline="Redis 32",
    ),
    Loaded("single-echo", ECHO, SINGLE, SINGLE_LINES),
    Loaded("single-plain", PLAIN_ECHO, SINGLE, SINGLE_LINES, baseline="without wal"),
    Loaded("single-bare", BARE, SINGLE, SINGLE_LINES, baseline="bare echo"),
    Loaded("latency-echo", ECHO, PACED, LATENCY, note=", 1,000 lines/s"),
    Loaded("latency-plain", PLAIN_ECHO, PACED, LATENCY, note=", 1,000 lines/s"),
    Loaded("latency-crowd", ECHO, CROWD, LATENCY, note=", 1,000 connections, a line/s each"),
    Loaded("latency-crowd-plain", PLAIN_ECHO, CROWD, LATENCY, note=", 1,000 connections, a line/s each"),
    Loaded("tap-without", PLAIN_ECHO, table=TAPS, baseline="no tap"),
    Loaded("tap", TAP, table=TAPS),
    Loaded("tap-where", TAP_WHERE, table=TAPS),
    Loaded("tap-unread", TAP_UNREAD, table=TAPS),
    Floor("floor", "100 bytes appended to a file, fdatasync, 1,000/s", floor.appending, baseline="fdatasync"),
    Floor("floor-ahead", "the same in a file written ahead", floor.overwriting, baseline="fdatasync, written ahead"),
    Space("space-large", "blocks of 64 KiB", 655),
    Space("space-small", "blocks of 10 lines", 10),
    Asked("http-1", HTTP, Requests(), REQUESTS),
    Asked("http-1-wal", HTTP_WAL, Requests(), REQUESTS),
    Asked("http-1-aiohttp", HANDLER, Requests(), REQUESTS),
    Asked("http-100", HTTP, HUNDRED, REQUESTS),
    Asked("http-100-wal", HTTP_WAL, HUNDRED, REQUESTS),
    Asked("http-100-aiohttp", HANDLER, HUNDRED, REQUESTS),
    Followed("follow", "walflow: file with follow, then null", following, FOLLOWED),
    Followed("follow-tail", "tail -F into cat", tailing, FOLLOWED),
    Command("python", "python -c pass", (sys.executable, "-c", "pass")),
    Command("check", "walflow check flows/echo/server.troy", (WALFLOW, "check", "flows/echo/server.troy")),
    Command("help", "walflow --help", (WALFLOW, "--help")),
    Sized("lag-small", "100 MB of lag", LAG, lanes.catch_up, 100_000_000),
    Sized("catch-up", "1 GB of lag", LAG, lanes.catch_up, 1_000_000_000),
    Sized("lag-large", "10 GB of lag", LAG, lanes.catch_up, 10_000_000_000, once=True),
    Sized("eight-lanes", "a log of 256 MB", EIGHT, lanes.eight, 256_000_000),
    Sized("recovery", "a log of 500 MB", RECOVERY, backlog.recovery, 500_000_000),
    Sized("history", "2 GiB", HISTORY, history.kept, 2 << 30),
    Sized("restart-small", "100 MB to deliver", RESTART, backlog.restart, 100_000_000),
    Sized("restart-large", "10 GB to deliver", RESTART, backlog.restart, 10_000_000_000, once=True),
)
