from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.wal_tools import append
from tests.wal.conftest import no_file_left_open  # noqa: F401  # a fixture, for every test here
from tests.wal.tools import QuickDisk, checkpoint
from walflow.wal import Log, LogOptions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Closed cleanly: 30 events in 10 records, several chunks, the first 4 acked."""
    path = tmp_path / "a log"
    log = Log(LogOptions(str(path), 1024, 64), QuickDisk())
    for number in range(1, 31, 3):
        append(log, *(b'{"n":%d,"rest":"%s"}' % (number + i, b"y" * 40) for i in range(3)))
    log.ack(1, 4)
    log.close()
    return path


@pytest.fixture
def held(path: Path) -> Iterator[Log]:
    log = Log(LogOptions(str(path)), QuickDisk())
    yield log
    log.abandon()


@pytest.fixture
def marked(path: Path) -> Path:
    """`near` has acked all 30 events, `far` four of them."""
    log = Log(LogOptions(str(path)), QuickDisk())
    near, _ = log.part([["near"], ["far"]])
    near.ack(1, 30)
    checkpoint(log)
    log.close()
    return path
