"""The grammar, compiled once and kept: building its tables takes most of a second, reading them back a fiftieth."""

import os
import sys
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import lark

_lark: Any = lark.Lark  # Any: how it is kept carries no types


@cache
def grammar() -> lark.Lark:
    text = files("walflow.lang").joinpath("troy.lark").read_text(encoding="utf-8")
    kept = _kept(text)
    return _read(kept) or _build(text, kept)


def _build(text: str, kept: Path | None) -> lark.Lark:
    built = lark.Lark(
        text, parser="lalr", lexer="basic", start=["file", "query"], propagate_positions=True, maybe_placeholders=True
    )
    if kept:
        _keep(built, kept)
    return built


def _kept(text: str) -> Path | None:
    """In the user's own cache: what is read back is a pickle, so not from anywhere others may write."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(home):
        return None
    version = f"{lark.__version__}-{sys.version_info.major}.{sys.version_info.minor}"
    digest = sha256(f"{version}\n{text}".encode()).hexdigest()[:16]
    return Path(home) / "walflow" / f"troy-{digest}.tables"


def _read(kept: Path | None) -> lark.Lark | None:
    try:
        if kept is None or not _ours(kept):
            return None
        with kept.open("rb") as file:
            read: lark.Lark = _lark.load(file)
            return read
    except Exception:  # noqa: BLE001 - half-written, of another lark, gone: whatever it is, it is built again
        return None


def _ours(kept: Path) -> bool:
    status = kept.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _keep(built: lark.Lark, kept: Path) -> None:
    """A disk that is full or read-only costs the time at the next start, nothing else."""
    fresh = kept.with_suffix(f".{os.getpid()}")
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _lark.save(built, file)
        fresh.replace(kept)
    except OSError:
        fresh.unlink(missing_ok=True)
