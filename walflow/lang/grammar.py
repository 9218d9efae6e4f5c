"""The grammar. Its tables are built once and then cached: building takes most of a second, reading them a fiftieth of
that."""

import os
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

import lark

LARGEST: Final = 64 << 20  # bytes; the tables are smaller than 1 MiB

_lark: Any = lark.Lark  # Any: lark's functions for the cache have no types


@cache
def grammar() -> lark.Lark:
    text = files("walflow.lang").joinpath("troy.lark").read_text(encoding="utf-8")
    kept = _kept(text)
    return _read(kept) or _build(text, kept)


def _build(text: str, kept: Path | None) -> lark.Lark:
    built = lark.Lark(
        text,
        parser="lalr",
        lexer="basic",
        start=["file", "query", "script_file"],
        propagate_positions=True,
        maybe_placeholders=True,
    )
    if kept:
        _keep(built, kept)
    return built


def _kept(text: str) -> Path | None:
    """The file of the cache, in the user's own cache directory. It is a pickle, so it is read from no place where
    other users may write."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(home):
        return None
    version = f"{lark.__version__}-{sys.version_info.major}.{sys.version_info.minor}"
    digest = sha256(f"{version}\n{text}".encode()).hexdigest()[:16]
    return Path(home) / "walflow" / f"troy-{digest}.tables"


def _read(kept: Path | None) -> lark.Lark | None:
    try:
        if kept is None or not _ours(kept.parent.stat()):
            return None
        # a FIFO without a writer would block, and a link may lead to a file that other users write
        with open(os.open(kept, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not (S_ISREG(status.st_mode) and _ours(status) and status.st_size <= LARGEST):
                return None
            read: lark.Lark = _lark.load(file)
            return read
    except Exception:  # noqa: BLE001 - half-written, of another lark, gone: in each case it is built again
        return None


def _ours(status: os.stat_result) -> bool:
    """No other user may have written it."""
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _keep(built: lark.Lark, kept: Path) -> None:
    """If the cache cannot be written (no such directory, a full disk), only the next start takes longer."""
    fresh = kept.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _ours(kept.parent.stat()):
            return
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                _lark.save(built, file)
            fresh.replace(kept)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
