"""A copy of the source, in which one module at a time is another."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from tests.mutation.rows import ROOT, Row

PARTS: Final = (
    "walflow",
    "connectors",
    "pyspark_walflow",
    "walflow_kernel",
    "tests",
    "docs",
    "flows",
    "demo",
    "pyproject.toml",
    "README.md",
)
MARK: Final = "__mutant__"


def module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root
        for part in PARTS:
            source, target = ROOT / part, root / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "spark-warehouse"))
            elif source.exists():
                shutil.copy2(source, target)
        self._file: str | None = None
        self._times = 0

    def mutate(self, row: Row) -> None:
        """It alone. The module gets a mark, by which a test run shows that it imported this one and no other."""
        self.restore()
        self._file = row.file
        source = row.applied((ROOT / row.file).read_bytes())
        self._write(row.file, source + f"\n{MARK} = {row.key!r}\n".encode())

    def restore(self) -> None:
        if self._file is not None:
            self._write(self._file, (ROOT / self._file).read_bytes())
            self._file = None

    def _write(self, file: str, source: bytes) -> None:
        path = self.root / file
        path.write_bytes(source)
        # Bytecode is told by the second and the size of its source, which two mutants may share.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        self._times += 1
        os.utime(path, (self._times, self._times))

    def environment(self) -> dict[str, str]:
        """Wherever a test starts a process: this tree comes before an installed one."""
        return os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
