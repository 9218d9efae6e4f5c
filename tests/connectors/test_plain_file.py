"""An open file that is cut while it is read."""

import os
from pathlib import Path

import pytest

from connectors.file.follow.plain_file import HEAD_BYTES, LAST_BYTES, GrowingFile, Head, Rewritten

ALIKE = b"x" * (LAST_BYTES + 1)


def opened(path: Path) -> GrowingFile:
    status = path.stat()
    return GrowingFile.open(str(path), (status.st_dev, status.st_ino), 0, Head(), Head())


@pytest.mark.parametrize("head", [10, HEAD_BYTES, 3 * HEAD_BYTES])
def test_a_cut_file_that_has_grown_beyond_the_position_is_known_by_its_head(tmp_path: Path, head: int) -> None:
    """The bytes before the position are the same as before the cut: they are all alike."""
    path = tmp_path / "app.log"
    path.write_bytes(b"a" * head + ALIKE)
    file = opened(path)
    try:
        assert file.read(1 << 20) == b"a" * head + ALIKE
        os.truncate(path, 0)
        with path.open("ab") as again:
            again.write(b"b" * head + ALIKE + b"more")
        with pytest.raises(Rewritten):
            file.read(1 << 20)
        assert file.position == head + len(ALIKE), "what follows may be in a copy"
    finally:
        file.close()
