"""A .tar.gz whose bytes depend on the files and on one time."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def pack(files: Mapping[str, Path], epoch: int, into: Path) -> Path:
    """By their names in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(files.items()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), epoch, 0o644
            archive.addfile(entry, io.BytesIO(data))
    into.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return into
