"""What no log can beat: a line written and synced, a thousand times a second, by a loop that does nothing else."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.load import percentiles

LINE: Final = bytes(99) + b"\n"
RATE: Final = 1000
AHEAD: Final = 64 << 20  # bytes of a file that is written before


def appending(directory: Path, warmup: float, seconds: float) -> Mapping[str, float]:
    """To a file that grows, as a program without chunks made ahead would."""
    with tempfile.NamedTemporaryFile(dir=directory, buffering=0) as file:
        return _paced(file.fileno(), warmup, seconds, os.write)


def overwriting(directory: Path, warmup: float, seconds: float) -> Mapping[str, float]:
    """In a file that has its bytes already: a sync has no size to write."""
    with tempfile.NamedTemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(AHEAD >> 20):
            os.write(file.fileno(), bytes(1 << 20))
        os.fsync(file.fileno())
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        return _paced(file.fileno(), warmup, seconds, os.write)


LEAST: Final = 2  # that have percentiles, on a disk that is slow just now


def _paced(fd: int, warmup: float, seconds: float, write: Callable[[int, bytes], int]) -> Mapping[str, float]:
    began = time.perf_counter()
    due, taken = began, list[float]()
    while due < began + warmup + seconds or len(taken) < LEAST:
        time.sleep(max(due - time.perf_counter(), 0))
        started = time.perf_counter()
        write(fd, LINE)
        os.fdatasync(fd)
        ended = time.perf_counter()
        if started > began + warmup:
            taken.append(ended - started)
        due = max(due + 1 / RATE, ended)  # a slow sync is not made up for
    return percentiles(taken)
