"""CPU and memory of one process that is not ours to ask: /proc. And memory of ours."""

import ctypes
import os
from pathlib import Path
from typing import Final

TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Of all its threads, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def peak_rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]
    return int(kilobytes) * 1024 / 1e6


def read_mb(pid: int) -> float:
    """What it had from the disk, and not from the page cache."""
    return _io(pid, "read_bytes")


def written_mb(pid: int) -> float:
    """What it has made the disk write, now or later."""
    return _io(pid, "write_bytes")


def _io(pid: int, name: str) -> float:
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counts[name]) / 1e6


def keep_freed_memory() -> None:
    """As the daemon does, and for the same reason: or every read is given back and faulted in anew."""
    try:
        for option, size in ((-1, 1 << 30), (-2, 64 << 20), (-3, 32 << 20)):
            ctypes.CDLL(None).mallopt(option, size)
    except (OSError, AttributeError):
        pass
