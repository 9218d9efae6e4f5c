import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from walflow.disk import Disk
from walflow.wal import Log, LogOptions

Open = Callable[..., Log]


@pytest.fixture(autouse=True)
def no_file_left_open() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "log"
    yield path
    shutil.rmtree(path, ignore_errors=True)  # preallocated chunks are not small


@pytest.fixture
def open_log(directory: Path) -> Iterator[Open]:
    """Opens the one log of a test; opening it again crashes the one before."""
    opened: list[Log] = []

    def open_log(chunk_size: int = 4096, max_chunks: int = 16, disk: Disk | None = None, **more: Any) -> Log:
        while opened:
            opened.pop().abandon()
        log = Log(LogOptions(str(directory), chunk_size, max_chunks, **more), disk)
        opened.append(log)
        return log

    yield open_log
    while opened:
        opened.pop().abandon()
