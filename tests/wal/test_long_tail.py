"""A tail of many windows: recovery reads it piece by piece, and no piece may begin at the wrong byte."""

import random
from pathlib import Path

import pytest

from tests.wal.tools import QuickDisk, files_of, payloads, put, restore
from walflow.wal import Log, LogOptions


@pytest.mark.parametrize("tag", [b"t" * length for length in range(8)], ids=lambda tag: f"tag of {len(tag)}")
def test_a_tail_of_records_of_all_sizes_is_sound(tmp_path: Path, tag: bytes) -> None:
    chance = random.Random(len(tag))
    sizes = [chance.choice([1, 90, 3_000, 20_000, 70_000, 250_000]) + chance.randrange(9) for _ in range(200)]
    written = [bytes([number]) * size for number, size in enumerate(sizes)]
    first = Log(LogOptions(str(tmp_path / "killed"), 1 << 26, 4), QuickDisk())
    put(first, *written, tag=tag)
    files = files_of(str(tmp_path / "killed"))
    first.close()
    restore(str(tmp_path / "found"), files)

    second = Log(LogOptions(str(tmp_path / "found"), 1 << 26, 4), QuickDisk())

    assert second.gaps == []
    assert [len(payload) for payload in payloads(second)] == sizes
    assert payloads(second) == written
    second.close()
