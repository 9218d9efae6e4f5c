"""The parent of a daemon in a container: process 1 has to stay, and a handover ends the process that was started.

It is told which process the daemon is now, passes signals on to that one, waits for all that ends, and ends as the
daemon does.
"""

import os
import select
import signal
import struct
from collections.abc import MutableMapping
from types import FrameType
from typing import Final, NoReturn

PARENT: Final = "WALFLOW_PARENT"  # in the environment of the daemon: the number of its descriptor
PID: Final = struct.Struct("=i")
PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SIGNALLED: Final = 128  # and the number: as shells have it


def begin(environment: MutableMapping[str, str] = os.environ) -> None:
    """Returns in the daemon, which is a child from now on. Call it before there is a thread."""
    told, tells = os.pipe()
    numbers = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    child = os.fork()
    if child:
        os.close(tells)
        _Parent(child, told).run()
    os.close(told)
    signal.pthread_sigmask(signal.SIG_SETMASK, numbers)
    environment[PARENT] = str(tells)


def tell(pid: int, environment: MutableMapping[str, str] = os.environ) -> None:
    """The parent, if there is one, that this process is the daemon now."""
    number = environment.get(PARENT)
    if number is not None:
        os.write(int(number), PID.pack(pid))


def descriptors(environment: MutableMapping[str, str] = os.environ) -> list[int]:
    """What the next process needs, to tell the parent."""
    number = environment.get(PARENT)
    return [] if number is None else [int(number)]


class _Parent:
    def __init__(self, child: int, told: int) -> None:
        self._main = child
        self._told = told
        self._woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(self._told, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wakes)
        for number in (*PASSED_ON, signal.SIGCHLD):
            signal.signal(number, _nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)

    def run(self) -> NoReturn:
        while True:
            select.select([self._told, self._woken], [], [])
            for number in _read(self._woken):
                self._hear()
                if number != signal.SIGCHLD:
                    self._pass_on(number)
            self._hear()
            self._reap()

    def _hear(self) -> None:
        data = _read(self._told)
        if data:
            (self._main,) = PID.unpack(data[-PID.size :])

    def _pass_on(self, number: int) -> None:
        try:
            os.kill(self._main, number)
        except ProcessLookupError:
            pass

    def _reap(self) -> None:
        ended: dict[int, int] = {}
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended[found[0]] = found[1]
        except ChildProcessError:
            pass
        self._hear()
        if self._main in ended:
            code = os.waitstatus_to_exitcode(ended[self._main])
            os._exit(code if code >= 0 else SIGNALLED - code)


def _read(fd: int) -> bytes:
    data = b""
    try:
        while more := os.read(fd, 4096):
            data += more
    except BlockingIOError:
        pass
    return data


def _nothing(number: int, frame: FrameType | None) -> None:
    """With a handler, a signal wakes the descriptor."""
