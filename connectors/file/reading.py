"""The source half: one file, from its beginning to its end."""

import asyncio
import os
import stat
from typing import Final

import aiofiles
import aiofiles.os
from aiofiles.threadpool.binary import AsyncFileIO

from walflow.contract import Outlet, Scheduler
from walflow.errors import WalflowError

READ_BYTES: Final = 256 << 10
FIRST_DELAY: Final = 0.1
LAST_DELAY: Final = 10.0


class CannotRead(WalflowError):
    """The file is not there, or not one that has an end."""


async def read(path: str, out: Outlet) -> None:
    """Raises CannotRead before the first byte. After it, a read that fails is tried again where it failed:
    beginning anew would send everything twice."""
    file = await _open(path)
    stream = out.stream({"file": {"path": path}})
    try:
        while data := await _read_on(file, path, out):
            stream.feed(data)
        stream.eof(complete=True)
    except BaseException:
        stream.close()
        raise
    finally:
        await file.close()


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
    delay = FIRST_DELAY
    while True:
        await out.ready()
        try:
            return await file.read(READ_BYTES)
        except OSError as error:
            out.log.warning(f"cannot read {path}: {error.strerror}; trying again", seconds=delay)
        await _wait(out.scheduler, delay)
        delay = min(delay * 1.5, LAST_DELAY)


async def _wait(scheduler: Scheduler, delay: float) -> None:
    passed = asyncio.Event()
    scheduler.call_later(delay, passed.set)
    await passed.wait()
