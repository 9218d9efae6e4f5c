"""`qos::wal` as the connector it is run as."""

import pytest
from pydantic import ValidationError

from walflow.operators.wal import QosWal

MIB = 1 << 20


@pytest.mark.parametrize(
    ("max_bytes", "size", "number"),
    [
        (16 << 10, 8 << 10, 2),
        (10 * MIB, MIB, 10),
        (1 << 30, 64 * MIB, 16),
        (1 << 40, 64 * MIB, 1 << 14),  # files that a disk has room for one after the other
        ((1 << 40) + 1, (1 << 26) - (1 << 12) + 1, (1 << 14) + 1),
    ],
)
def test_its_files_are_not_too_small_and_not_too_large(max_bytes: int, size: int, number: int) -> None:
    config = QosWal(dir="store", max_bytes=max_bytes).stands_for().config
    assert config["max_chunks"] == number
    chunk_size = config["chunk_size"]
    assert isinstance(chunk_size, int)
    assert chunk_size == max_bytes // number
    assert abs(chunk_size - size) < 1 << 13
    assert chunk_size * number <= max_bytes


def test_no_disk_has_so_many_bytes() -> None:
    with pytest.raises(ValidationError, match="max_bytes"):
        QosWal(dir="store", max_bytes=10**23)
