"""Reads flow files, and finds the files that they `use`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Final

from walflow.diagnostics import Diagnostic, Source, error

SUFFIXES = (".tremor", ".trickle", ".troy")
LARGEST = 16 << 20

Unsaved = Mapping[str, str]  # what an editor holds: texts by absolute path, which count instead of what is on disk
ALL_SAVED: Final[Unsaved] = MappingProxyType({})


def read(path: Path | Traversable, order: int, unsaved: Unsaved = ALL_SAVED) -> Source | Diagnostic:
    """A file that cannot be read is one error line, for any reason."""
    if unsaved and isinstance(path, Path) and (text := unsaved.get(os.path.abspath(path))) is not None:
        return Source(str(path), text, order)
    try:
        return Source(str(path), _bytes(path).decode("utf-8-sig"), order)
    except UnicodeDecodeError as bad:
        line = bad.object.count(b"\n", 0, bad.start) + 1
        return error(f"cannot read {path}: line {line} is not UTF-8")
    except OSError as failed:
        return error(f"cannot read {path}: {failed.strerror.lower() if failed.strerror else failed}")
    except ValueError:
        return error(f"cannot read {str(path)!r}: this is no file name")


def _bytes(path: Path | Traversable) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(f"it is larger than {LARGEST >> 20} MiB")
    return data


def search_path(beside: Path) -> Sequence[Path | Traversable]:
    """The folders in which a module may be: those of WALFLOW_PATH, the folder of the flow file, the shipped modules,
    those of TREMOR_PATH. The first file that is found counts."""
    # TREMOR_PATH contains tremor's own library; modules that both have are taken from walflow
    return [*_named("WALFLOW_PATH"), beside, shipped(), *_named("TREMOR_PATH")]


def _named(variable: str) -> list[Path]:
    return [Path(folder) for folder in os.environ.get(variable, "").split(":") if folder]


def shipped() -> Traversable:
    return files("walflow").joinpath("modules")


def find(path: Sequence[str], folders: Sequence[Path | Traversable]) -> Path | Traversable | None:
    for folder in folders:
        for suffix in SUFFIXES:
            try:
                candidate = folder.joinpath(*path[:-1], path[-1] + suffix)
                if candidate.is_file():
                    return candidate
            except (OSError, ValueError):  # a folder that cannot be read, a name that no file can have
                continue
    return None


def known_modules(near: Sequence[str], folders: Sequence[Path | Traversable]) -> Iterator[str]:
    """For suggestions: the shipped modules, and those in the folders in which `near` is looked for."""
    yield from shipped_modules()
    for folder in folders:
        try:
            names = sorted(entry.name for entry in folder.joinpath(*near[:-1]).iterdir() if entry.is_file())
        except (OSError, ValueError):
            continue
        stems = (os.path.splitext(name) for name in names)
        yield from ("::".join([*near[:-1], stem]) for stem, suffix in stems if suffix in SUFFIXES)


@cache
def shipped_modules() -> list[str]:
    return ["::".join(path) for path in _walk(shipped(), ())]


def _walk(folder: Traversable, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for entry in folder.iterdir():
        stem, suffix = os.path.splitext(entry.name)
        if entry.is_dir():
            yield from _walk(entry, (*prefix, entry.name))
        elif suffix in SUFFIXES:
            yield (*prefix, stem)
