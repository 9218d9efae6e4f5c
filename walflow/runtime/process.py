"""The process that a daemon is: signals come to it, and it ends."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import NoReturn, Protocol


class DaemonProcess(Protocol):
    """A simulation has another one."""

    def listen(self, told: Mapping[signal.Signals, Callable[[], None]]) -> None:
        """From now on calls these on the running loop."""
        ...

    def ignore(self) -> None:
        """All is stopped, and the process is about to end: it needs no signal for that."""
        ...

    def has_started(self) -> None: ...

    def end(self, code: int) -> NoReturn:
        """Now, with nothing else said to anyone."""
        ...


class OwnProcess:
    """Of the operating system."""

    def __init__(self, *, settled: bool = False) -> None:
        """`settled`: what the start has made was looked through before, while nobody waited."""
        self._settled = settled
        self._told: Mapping[signal.Signals, Callable[[], None]] = {}

    def listen(self, told: Mapping[signal.Signals, Callable[[], None]]) -> None:
        # Not `loop.add_signal_handler`: a loop that closes sets SIG_DFL, and what came then killed a daemon that had
        # already stopped. A handler of Python may only wake the loop, for it runs between any two instructions.
        loop = asyncio.get_running_loop()

        def wake(number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(told[signal.Signals(number)])

        self._told = told
        for number in told:
            signal.signal(number, wake)

    def ignore(self) -> None:
        for number in self._told:
            signal.signal(number, signal.SIG_IGN)

    def has_started(self) -> None:
        """Objects made at the start live as long as the process: the collector need not look at them again."""
        if not self._settled:
            gc.collect()
        gc.freeze()
        gc.enable()

    def end(self, code: int) -> NoReturn:
        if sys.stderr is not None:  # it was closed
            sys.stderr.flush()
        os._exit(code)
