"""Lanes of a log that are behind: how fast one catches up from files that are not in the page cache, how much memory
that takes, and whether eight at eight places get the same.

The log is made by the engine, with the marks of its sinks, as if they had been away.
"""

import os
import selectors
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.backlog import LINE, build, take
from bench.processes import cpu_seconds, peak_rss_mb, read_mb
from bench.systems import WrongResult
from demo.server import Server, free_port
from walflow.wal.cursor import Acked

LANES: Final = 8
PLACES: Final = 16  # of the log: the lanes begin at its first eight sixteenths
STALLED: Final = 60.0  # seconds without a byte
AT_HAND: Final = 8  # MB: so much a lane may have read before its client listens
COLD: Final = 0.9  # of the rest, at least, came from the disk
FLOW: Final = """
define flow lanes
flow
  use tremor::pipelines;

  define connector tick from metronome
  with
    config = {{"interval": 3600000000000}}     # an hour: a log has a source, and this one stays silent
  end;

  define connector wal from wal
  with
    config = {{"path": "backlog", "chunk_size": 67108864, "max_chunks": 256}}
  end;

  define connector client from tcp_client
  args
    url
  with
    postprocessors = ["separate"],
    codec = "json",
    config = {{"url": args.url}}
  end;

  create connector tick;
  create connector wal;
  create pipeline before from pipelines::passthrough;
  create pipeline behind from pipelines::passthrough;
{clients}
  connect /connector/tick to /pipeline/before;
  connect /pipeline/before to /connector/wal;
  connect /connector/wal to /pipeline/behind;
end;

deploy flow lanes;
"""
CLIENT: Final = """
  create connector {name} from client with url = "127.0.0.1:{port}" end;
  connect /pipeline/behind to /connector/{name};
"""


def _flow(workdir: Path, ports: Mapping[str, int]) -> Path:
    path = workdir / "lanes.troy"
    clients = "".join(CLIENT.format(name=name, port=port) for name, port in ports.items())
    path.write_text(FLOW.format(clients=clients))
    return path


def catch_up(workdir: Path, size: int) -> Mapping[str, float]:
    """`far` was away and has nothing of the log, `near` has all of it. The files are not in the page cache when `far`
    listens. From the moment at which it is connected until it has the last byte. `dd` reads the same files before,
    past the page cache: the best of two. Raises WrongResult, ServerFailed."""
    path = workdir / "backlog"
    lines = build(path, size, marks=lambda last: {"near": Acked(last), "far": Acked()})
    megabytes = lines * LINE / 1e6
    files = sorted(path.glob("*.wal"))
    direct = sum(file.stat().st_size for file in files) / 1e6 / min(_dd(files), _dd(files))
    with socket.create_server(("127.0.0.1", free_port())) as near, socket.socket() as far:
        far.bind(("127.0.0.1", free_port()))
        ports = {"near": near.getsockname()[1], "far": far.getsockname()[1]}
        with Server(_flow(workdir, ports), workdir) as server:
            server.start()
            server.wait_for("ready")
            read, cpu = read_mb(server.pid), cpu_seconds(server.pid)
            _forget(files)
            far.listen()
            seconds = take(far, lines * LINE)
            read, cpu = read_mb(server.pid) - read, cpu_seconds(server.pid) - cpu
            peak = peak_rss_mb(server.pid)
            if code := server.stop():
                raise WrongResult(f"after {lines:,} lines: exit code {code}\n{server.last_words()}")
    if read < COLD * (megabytes - AT_HAND):
        raise WrongResult(f"{megabytes:,.0f} MB were sent, and {read:,.0f} of them read from the disk")
    return {
        "lag_mb": megabytes,
        "caught_up_mb_per_s": megabytes / seconds,
        "direct_mb_per_s": direct,
        "cpu_ms_per_mb": 1000 * cpu / megabytes,
        "peak_rss_mb": peak,
    }


def _dd(files: Sequence[Path]) -> float:
    """Seconds. Raises WrongResult where the file system has no direct I/O."""
    began = time.perf_counter()
    for file in files:
        command = ("dd", f"if={file}", "of=/dev/null", "bs=1M", "iflag=direct")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WrongResult(done.stderr)
    return time.perf_counter() - began


def _forget(files: Sequence[Path]) -> None:
    """Takes them out of the page cache. They are synced."""
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def eight(workdir: Path, size: int) -> Mapping[str, float]:
    """Eight lanes at eight places, each to a client that reads what comes. From the moment at which all are connected
    until the first has all that it lacks. Raises WrongResult, ServerFailed."""
    names = [f"sink{number}" for number in range(LANES)]
    lacks: dict[str, int] = {}

    def marks(last: int) -> Mapping[str, Acked]:
        found = {name: Acked(last * at // PLACES) for at, name in enumerate(names)}
        lacks.update({name: (last - mark.low) * LINE for name, mark in found.items()})
        return found

    build(workdir / "backlog", size, marks=marks)
    listeners = {name: socket.create_server(("127.0.0.1", free_port())) for name in names}
    try:
        flow = _flow(workdir, {name: one.getsockname()[1] for name, one in listeners.items()})
        with Server(flow, workdir) as server:
            server.start()
            server.wait_for("ready")
            seconds, got = _race(listeners, lacks)
            if code := server.stop():
                raise WrongResult(f"exit code {code}\n{server.last_words()}")
    finally:
        for one in listeners.values():
            one.close()
    rates = [taken / 1e6 / seconds for taken in got.values()]
    return {"slowest_mb_per_s": min(rates), "fastest_mb_per_s": max(rates), "together_mb_per_s": sum(rates)}


def _race(listeners: Mapping[str, socket.socket], lacks: Mapping[str, int]) -> tuple[float, Mapping[str, int]]:
    """Until the first has what it lacks: seconds, and what each had got. Then all get the rest.
    Raises WrongResult."""
    got = dict.fromkeys(lacks, 0)
    buffer = bytearray(256 << 10)
    with selectors.DefaultSelector() as ready:
        try:
            for name, one in listeners.items():
                one.settimeout(STALLED)
                ready.register(one.accept()[0], selectors.EVENT_READ, name)
            began, won = time.perf_counter(), None
            while any(got[name] < size for name, size in lacks.items()):
                found = ready.select(STALLED)
                for key, _ in found:
                    sock = key.fileobj
                    assert isinstance(sock, socket.socket)
                    if not (size := sock.recv_into(buffer)):
                        raise WrongResult(
                            f"{key.data} was closed after {got[key.data]:,} of {lacks[key.data]:,} bytes"
                        )
                    got[key.data] += size
                if not found or any(got[name] > size for name, size in lacks.items()):
                    raise WrongResult(f"{lacks} bytes were lacking, {got} came")
                if won is None and any(got[name] == size for name, size in lacks.items()):
                    won = time.perf_counter() - began, dict(got)
        finally:
            for key in list(ready.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
    assert won is not None
    return won
