"""What a handover is made of on a machine: the channel between two processes, their locks, and the start of one."""

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from walflow.handover import HandedLocks, Identity
from walflow.runtime.handover.channel import ChannelClosed
from walflow.testing.disk import SimulatedDisk
from walflow.testing.simulation.life import Life, now_running

if TYPE_CHECKING:
    from walflow.testing.simulation.machine import Machine


class SimulatedLocks(HandedLocks):
    """Of a process on a simulated disk, which says which descriptors are of one open file."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__()
        self._disk = disk

    def identity(self, fd: int) -> Identity:
        return self._disk.stat(fd).identity

    def duplicate(self, fd: int) -> int:
        return self._disk.duplicate(fd, now_running())

    def become(self, fd: int, other: int) -> None:
        """The disk counts it among those that have the lock."""

    def close(self, fd: int) -> None:
        self._disk.close(fd)


class SimulatedChannel:
    """`walflow.runtime.handover.channel.Channel`: one end of a pair. What was sent arrives also if its sender is gone
    by then."""

    def __init__(self, machine: "Machine", life: Life) -> None:
        self._machine = machine
        self._life = life
        self._far = self
        self._closed = False
        self._sent: deque[tuple[bytes, list[int]]] = deque()  # to this end, and not there yet
        self._come: deque[tuple[bytes, list[int]]] = deque()
        self._there = asyncio.Event()
        life.on_gone.append(self.close)

    @classmethod
    def pair(cls, machine: "Machine", one: Life, other: Life) -> "tuple[SimulatedChannel, SimulatedChannel]":
        near, far = cls(machine, one), cls(machine, other)
        near._far, far._far = far, near
        return near, far

    async def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        self._life.check()
        far = self._far
        if self._closed or far._closed:
            raise ChannelClosed
        far._sent.append((msgspec.json.encode(message), [self._machine.hand(fd, far._life) for fd in descriptors]))
        self._machine.soon(far._lands)

    async def receive(self) -> tuple[Any, list[int]]:
        while not self._come:
            self._life.check()
            if self._closed or (self._far._closed and not self._sent):
                raise ChannelClosed
            self._there.clear()
            await self._there.wait()
        body, descriptors = self._come.popleft()
        return msgspec.json.decode(body), descriptors

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._machine.soon(self._far._wakes)

    def _lands(self) -> None:
        self._come.append(self._sent.popleft())
        self._wakes()

    def _wakes(self) -> None:
        self._life.run(self._there.set)


class SimulatedProcess:
    """`walflow.runtime.handover.successor.NextProcess`, as the process before has it."""

    def __init__(self, before: Life, life: Life, channel: SimulatedChannel, kill: Callable[[Life], None]) -> None:
        self.pid = life.pid
        self.channel = channel
        self.ended = asyncio.Event()
        self._life = life
        self._kill = kill
        life.on_gone.append(lambda: before.run(self.ended.set))

    async def wait(self) -> int:
        await self.ended.wait()
        return -signal.SIGKILL if self._life.exit_code is None else self._life.exit_code

    def tell(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self._kill(self._life)
        else:
            self._life.tell(number)

    def close(self) -> None:
        self.channel.close()
