"""`python -m pyspark_walflow.bundle [DIRECTORY]`: this package, and the kernel that compiled pipelines call, as one
file, pyspark_walflow.py, for `--py-files`.

Why not a zip: the process in which Spark looks for data sources has no zip of `--py-files` on its path, nor has the
one of an executor that reads what was found in this way. Single files are on the path of all of them.
"""

import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

PACKAGE: Final = "pyspark_walflow"
KERNEL: Final = "walflow_kernel"
HEAD: Final = '''\
"""The Spark half of walflow in one file, for `spark-submit --py-files`. \
Made by `python -m pyspark_walflow.bundle`."""

import contextlib
import importlib.abc
import importlib.util
import os
import sys

SOURCES = {
'''
TAIL: Final = """\
}


class _Bundle(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name in SOURCES else None

    def is_package(self, name):
        return any(other.startswith(name + ".") for other in SOURCES)

    def get_source(self, name):
        return SOURCES[name]

    def get_code(self, name):
        return self.source_to_code(SOURCES[name], f"{__file__}/{name}.py")


def show_to_planners(directory):
    # Spark gives the planner of a stream a directory of its own, and copies nothing into it
    if os.path.basename(directory).startswith("userFiles-"):  # the driver's
        with contextlib.suppress(OSError):
            os.makedirs(os.path.join(directory, "streaming_job"), exist_ok=True)
            link = os.path.join(directory, "streaming_job", os.path.basename(__file__))
            os.symlink(os.path.abspath(__file__), link)


show_to_planners(os.path.dirname(os.path.abspath(__file__)))
__path__ = []
sys.meta_path.append(_Bundle())
exec(SOURCES[__name__], globals())
"""


def bundle() -> str:
    """The text of the bundle: one Python file."""
    lines = [HEAD]
    for package in (PACKAGE, KERNEL):
        for name, text in sorted(modules(package)):
            lines.append(f"    {name!r}: {text!r},\n")
    return "".join([*lines, TAIL])


def modules(package: str) -> Iterator[tuple[str, str]]:
    """Their names and what is in them."""
    yield from _below(package, files(package))


def _below(name: str, folder: Traversable) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.name.endswith(".py"):
            module = f"{name}.{entry.name.removesuffix('.py')}".removesuffix(".__init__")
            yield module, entry.read_text(encoding="utf-8")
        elif entry.is_dir() and entry.joinpath("__init__.py").is_file():
            yield from _below(f"{name}.{entry.name}", entry)


def write(directory: str | Path = ".") -> Path:
    file = Path(directory, f"{PACKAGE}.py")
    file.write_text(bundle(), encoding="utf-8")
    return file


if __name__ == "__main__":
    sys.stdout.write(f"{write(*sys.argv[1:2])}\n")
