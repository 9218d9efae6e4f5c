"""The faults, each between a calm beginning and a calm end. Times are seconds from the first event."""

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from bench.crash.ends import Mood, Receiver

CALM: Final = 2.0
LASTS: Final = 5.0
RESTART: Final = 1.0  # until a service manager starts it again


class Running(Protocol):
    """A system under test."""

    receiver: Receiver
    directory: Path
    note: str

    def kill(self) -> None: ...

    def signal(self, number: int) -> None: ...

    async def start(self) -> None: ...

    def begins(self) -> None: ...

    def heals(self) -> None: ...


Fault = Callable[[Running], Awaitable[None]]


async def none(run: Running) -> None:
    """Nothing happens."""
    await asyncio.sleep(CALM)
    run.begins()
    run.heals()


async def kill(run: Running) -> None:
    """Of the process, three times."""
    for _ in range(3):
        await asyncio.sleep(CALM)
        run.begins()
        run.kill()
        await asyncio.sleep(RESTART)
        await run.start()
    run.heals()


def receiver_is(mood: Mood, what: str) -> Fault:
    async def fault(run: Running) -> None:
        await asyncio.sleep(CALM)
        run.begins()
        await run.receiver.becomes(mood)
        await asyncio.sleep(LASTS)
        await run.receiver.becomes("well")
        run.heals()

    fault.__doc__ = what
    return fault


async def killed_while_away(run: Running) -> None:
    """The receiver is away, the process is killed, the receiver comes back."""
    await asyncio.sleep(CALM)
    run.begins()
    await run.receiver.becomes("down")
    await asyncio.sleep(LASTS)
    run.kill()
    await asyncio.sleep(RESTART)
    await run.start()
    await asyncio.sleep(RESTART)
    await run.receiver.becomes("well")
    run.heals()


async def poison(run: Running) -> None:
    """One event is refused, for ever."""
    run.receiver.poison = True
    await asyncio.sleep(CALM)
    run.begins()
    run.heals()


async def stopped(run: Running) -> None:
    """SIGSTOP, SIGCONT."""
    await asyncio.sleep(CALM)
    run.begins()
    run.signal(signal.SIGSTOP)
    await asyncio.sleep(LASTS)
    run.signal(signal.SIGCONT)
    run.heals()


async def disk_full(run: Running) -> None:
    """The disk of the system has 8 MB: less than the bound that it was told. The receiver is away until long after it
    is full, the process is killed and started again, and the receiver is back. Room is made only for a system that
    does not start without."""
    await asyncio.sleep(CALM)
    run.begins()
    await run.receiver.becomes("down")
    await asyncio.sleep(4 * LASTS)
    run.kill()
    await asyncio.sleep(RESTART)
    try:
        await run.start()
    except ChildProcessError:
        run.note = "did not start until there was room"
        make_room(run.directory)
        await run.start()
    await run.receiver.becomes("well")
    run.heals()


FAULTS: Final[Mapping[str, Fault]] = {
    "none": none,
    "kill -9, three times": kill,
    "receiver killed for 5 s": receiver_is("down", "Nothing listens."),
    "receiver hangs for 5 s": receiver_is("hung", "It takes connections and requests, and answers none."),
    "500 to everything for 5 s": receiver_is("busy", "It refuses all for now: 500, or what its protocol has."),
    "kill -9 while the receiver is away": killed_while_away,
    "poison event": poison,
    "SIGSTOP for 5 s": stopped,
    "full disk, and kill -9": disk_full,
}
FULL: Final = "full disk, and kill -9"


@contextmanager
def place_for(fault: str) -> Iterator[Path]:
    """The directory of the system. For a full disk a small file system of its own: that needs root."""
    with tempfile.TemporaryDirectory(prefix="crash-") as name:
        directory = Path(name)
        if fault != FULL:
            yield directory
            return
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", name], capture_output=True, check=False
        )
        if mounted.returncode:
            raise PermissionError("a small file system is to be mounted, as root")
        try:
            yield directory
        finally:
            _unmount(name)


def make_room(directory: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=256m", str(directory)], capture_output=True, check=True)


def _unmount(name: str) -> None:
    for _ in range(50):
        if not subprocess.run(["umount", name], capture_output=True, check=False).returncode:
            return
        time.sleep(0.1)
    subprocess.run(["umount", "-l", name], capture_output=True, check=False)


def used_mb(directory: Path) -> float:
    """By the blocks that its files have."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name), follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
    return total / 1e6
