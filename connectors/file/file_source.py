"""The source half: reads one file from its beginning to its end, and decompresses it if its name says so."""

import asyncio
import os
import stat
from typing import Final

import aiofiles
import aiofiles.os
from aiofiles.threadpool.binary import AsyncFileIO

from walflow import Backoff, Outlet, Scheduler, Stream, WalflowError
from walflow.files import FILE_WINDOW_BITS, Corrupt, Members

READ_BYTES: Final = 256 << 10
ALGORITHMS: Final = {".gz": "gzip", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4"}  # by the end of the name
FIRST_DELAY: Final = 0.1
LAST_DELAY: Final = 10.0


class CannotRead(WalflowError):
    """The file does not exist, or has no end."""


async def read(path: str, out: Outlet) -> None:
    """Reads the file. Raises CannotRead before the first byte. A read that fails later is tried again at the same
    place, because a new start would send everything twice. Damage ends the file and is rejected."""
    file = await _open(path)
    unreadable = asyncio.Event()
    stream = out.stream({"file": {"path": path}}, broken=unreadable.set)
    algorithm = ALGORITHMS.get(os.path.splitext(path)[1])
    members = Members(algorithm, FILE_WINDOW_BITS) if algorithm else None
    try:
        while (data := await _read_on(file, path, out)) and not unreadable.is_set():
            if members is None:
                stream.feed(data)
            else:
                await _decompress(members, data, stream, out)
        if members is not None:
            members.end()
        stream.eof(complete=not unreadable.is_set())
    except Corrupt as error:
        out.log.error(f"{path} is damaged, the rest of it is not read", reason=str(error))
        stream.reject(f"{path} is damaged: {error}")
        stream.eof(complete=False)
    except BaseException:
        stream.close()
        raise
    finally:
        await file.close()


async def _decompress(members: Members, data: bytes, stream: Stream, out: Outlet) -> None:
    """Decompresses on a thread, only as far as the flow accepts events. Raises Corrupt."""
    members.feed(data)
    while (read := await asyncio.to_thread(members.read)) is not None:
        if read[0]:
            stream.feed(read[0])
        await out.ready()


async def _open(path: str) -> AsyncFileIO:
    try:
        mode = (await aiofiles.os.stat(path)).st_mode
        if not stat.S_ISREG(mode):
            raise CannotRead(f"cannot read {path}: it is {_kind(mode)}, which has no end")
        return await aiofiles.open(path, "rb", buffering=0)
    except FileNotFoundError as error:
        raise CannotRead(f"cannot read {path}: it does not exist") from error
    except PermissionError as error:
        raise CannotRead(f"cannot read {path}: permission denied for user {os.geteuid()}") from error
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {error.strerror}") from error


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"


async def _read_on(file: AsyncFileIO, path: str, out: Outlet) -> bytes:
    backoff = Backoff(FIRST_DELAY, LAST_DELAY)
    while True:
        await out.ready()
        try:
            return await file.read(READ_BYTES)
        except OSError as error:
            delay = backoff.next()
            out.log.warning(f"cannot read {path}: {error.strerror}; trying again", seconds=round(delay, 2))
        await _wait(out.scheduler, delay)


async def _wait(scheduler: Scheduler, delay: float) -> None:
    passed = asyncio.Event()
    scheduler.call_later(delay, passed.set)
    await passed.wait()
