"""The next process, as the operating system starts it: with the command line of this one."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from walflow.runtime.handover import parent
from walflow.runtime.handover.channel import SocketChannel

CHANNEL: Final = "WALFLOW_HANDOVER"  # in the environment of the next process: the number of its descriptor


class CommandLine(NamedTuple):
    """`walflow.runtime.handover.successor.Launch`: as this process was started, so is the next one."""

    arguments: Sequence[str]
    directory: str
    environment: Mapping[str, str]

    @classmethod
    def own(cls, environment: Mapping[str, str]) -> "CommandLine":
        """Call it before the process changes its directory or its environment."""
        return cls([sys.executable, *sys.orig_argv[1:]], str(Path.cwd()), dict(environment))

    def start(self) -> "SpawnedProcess":
        near, far = socket.socketpair()
        environment = {**self.environment, CHANNEL: str(far.fileno())}
        environment.pop("WATCHDOG_PID", None)  # this process's
        try:
            process = subprocess.Popen(
                self.arguments,
                cwd=self.directory,
                env=environment,
                pass_fds=[far.fileno(), *parent.descriptors()],
            )
        except OSError:
            near.close()
            raise
        finally:
            far.close()
        return SpawnedProcess(process, SocketChannel(near))


class SpawnedProcess:
    """`walflow.runtime.handover.successor.NextProcess`."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: SocketChannel) -> None:
        self.channel = channel
        self.ended = asyncio.Event()
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._has_ended)

    def __repr__(self) -> str:
        return f"<SpawnedProcess {self.pid}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    def _has_ended(self) -> None:
        self._watch_no_more()
        self.ended.set()

    def _watch_no_more(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    async def wait(self) -> int:
        await self.ended.wait()
        return self._process.wait()

    def tell(self, number: signal.Signals) -> None:
        if not self.ended.is_set():
            self._process.send_signal(number)

    def close(self) -> None:
        self.channel.close()
        self._watch_no_more()
