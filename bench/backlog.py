"""Logs with much in them: how long a start takes and how much memory, and how fast recovery reads.

The log is made by the engine, without a daemon: blocks of 64 KiB of 100-byte lines, in chunks as a flow has them.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bench.lines import made_lines
from bench.processes import cpu_seconds, peak_rss_mb
from bench.systems import FLOWS, WrongResult
from demo.server import Server, free_port, write_flow
from walflow.wal import Log, LogOptions
from walflow.wal.cursor import Acked
from walflow.wal.format import Record
from walflow.wal.tools.build import Builder

BLOCK: Final = 655  # lines: as many as fit 64 KiB
LINE: Final = 100  # bytes
TAG: Final = msgspec.msgpack.encode(("backlog::tcp_server", 1, 1, "json", "separate", {}, None))
CHUNK: Final = 64 << 20
STALLED: Final = 60.0  # seconds without a byte
QUIET: Final = 0.3  # seconds after the last byte, for one too many to come


def build(
    path: Path, size: int, chunk: int = CHUNK, marks: Callable[[int], Mapping[str, Acked]] = lambda last: {}
) -> int:
    """A log with `size` bytes of lines or a little more, all of them durable and none acked. How many lines. `marks`:
    what single sinks have acked of so many."""
    lines = made_lines(LINE)
    blocks = [lines[at : at + BLOCK * LINE] for at in range(0, len(lines) - BLOCK * LINE, BLOCK * LINE)]
    builder = Builder(str(path), b"bench-of-walflow", Acked(0, ()), chunk)
    try:
        while builder.last * LINE < size:
            payload = blocks[builder.records % len(blocks)]
            builder.add(Record(builder.last + 1, BLOCK, TAG, payload, time.time_ns()))
        builder.finish(builder.last, marks(builder.last))
    except BaseException:
        builder.discard()
        raise
    return builder.last


def restart(workdir: Path, size: int) -> Mapping[str, float]:
    """From the start of the process to `ready`; then all of it is delivered, and memory is what it took until then.
    Raises WrongResult, ServerFailed."""
    lines = build(workdir / "backlog", size)
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        host, port = listener.getsockname()
        flow = write_flow(workdir, FLOWS / "backlog.troy", {"url": f"{host}:{port}"})
        with Server(flow, workdir) as server:
            began = time.perf_counter()
            server.start()
            server.wait_for("ready")
            ready = time.perf_counter() - began
            ready_rss = peak_rss_mb(server.pid)
            seconds = take(listener, lines * LINE)
            taken = {"peak_rss_mb": peak_rss_mb(server.pid), "cpu_s": cpu_seconds(server.pid)}
            if code := server.stop():
                raise WrongResult(f"after {lines:,} lines: exit code {code}\n{server.last_words()}")
    return {
        "backlog_mb": lines * LINE / 1e6,
        "ready_s": ready,
        "ready_rss_mb": ready_rss,
        "delivered_mb_per_s": lines * LINE / 1e6 / seconds,
        **taken,
    }


def take(listener: socket.socket, size: int) -> float:
    """All that is delivered, and for how many seconds it came. Raises WrongResult if it is not so many bytes."""
    listener.settimeout(STALLED)
    buffer = bytearray(1 << 20)
    with listener.accept()[0] as sock:
        sock.settimeout(STALLED)
        began, taken = time.perf_counter(), 0
        while taken < size and (got := sock.recv_into(buffer)):
            taken += got
        seconds = time.perf_counter() - began
        sock.settimeout(QUIET)
        try:
            taken += sock.recv_into(buffer)
        except TimeoutError:
            pass
    if taken != size:
        raise WrongResult(f"{size:,} bytes were in the log, {taken:,} were delivered")
    return seconds


def recovery(workdir: Path, size: int) -> Mapping[str, float]:
    """A log of one chunk, which recovery reads and verifies to its end, beside programs that read the same file from
    the page cache: MB/s, the best of three, for what else the machine does only takes time. Raises WrongResult."""
    path = workdir / "backlog"
    lines = build(path, size, 2 * size)
    (chunk,) = path.glob("*.wal")
    megabytes = chunk.stat().st_size / 1e6
    seconds = {
        "dd": _best(lambda: _run("dd", f"if={chunk}", "of=/dev/null", "bs=4M")),
        "cksum": _best(lambda: _run("cksum", str(chunk))),
        "recovery": _best(lambda: _recover(path, lines)),
    }
    shutil.rmtree(path)
    return {f"{name}_mb_per_s": megabytes / taken for name, taken in seconds.items()} | {"log_mb": megabytes}


def _best(work: Callable[[], None]) -> float:
    taken: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)


def _recover(path: Path, lines: int) -> None:
    log = Log(LogOptions(str(path), chunk_size=1 << 40))
    found = log.recovery.backlog
    log.abandon()
    if found != lines:
        raise WrongResult(f"{lines:,} lines were written to the log, recovery found {found:,}")
