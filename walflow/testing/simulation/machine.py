"""A machine: its disk, its clocks and its chance outlive the processes on it, of which several may run at once.

loop = SimulatedLoop(dice)
machine = Machine(loop, dice)
life = machine.start(assembly)
… await asyncio.sleep(1) …
life.reload()  # another process takes over, and is in `machine.lives`
… await asyncio.sleep(6) …
machine.cut()
machine.start(assembly)
"""

import contextvars
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from walflow.handover import NO_LOCKS, HandedLocks, Handover
from walflow.plan import Assembly
from walflow.runtime.daemon import Settings
from walflow.runtime.handover.predecessor import Predecessor
from walflow.testing.cuts import power_cut
from walflow.testing.disk import SimulatedDisk
from walflow.testing.simulation.handover import SimulatedChannel, SimulatedLocks, SimulatedProcess
from walflow.testing.simulation.life import Life, now_running
from walflow.testing.simulation.loop import SimulatedLoop
from walflow.testing.simulation.network import SimulatedNetwork
from walflow.testing.simulation.strands import Strand, strand
from walflow.world import World

NAME: Final = "walflow"  # of the host that daemons run on
START_NS: Final = 1_700_000_000_000_000_000
WAKES: Final = 50e-6  # seconds, on the average, until a thread has a processor
TAKES: Final = {"sync": 1e-3, "sync_directory": 1e-3}  # seconds, on the average, a call of the disk
QUICK: Final = 20e-6
STAMPS_NS: Final = 4_000_000  # a file system stamps by the kernel's clock, which ticks 250 times a second


class MachineClocks:
    """`walflow.clock.Clocks`: as the loop's time goes; `turn` sets the wall clock."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._start_ns = START_NS

    def wall_ns(self) -> int:
        return self._start_ns + self.monotonic_ns()

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1e9)

    def sleep(self, seconds: float) -> None:
        one = strand()
        assert one is not None, "the loop does not sleep"
        self._loop.call_later(seconds, one.resume)
        one.pause()

    def turn(self, seconds: float) -> None:
        """Forward, or back if it is less than 0."""
        self._start_ns += round(seconds * 1e9)


class Weather:
    """What calls of the disk meet. `fails`: an errno for so many out of a thousand calls of an operation. `slow`: how
    many times as long they take. `hangs`: operations that do not return until it is clear again."""

    def __init__(self, loop: SimulatedLoop, dice: Random) -> None:
        self.fails: dict[str, tuple[int, int]] = {}
        self.slow = 1.0
        self.hangs: frozenset[str] = frozenset()
        self.calls = 0
        self._loop = loop
        self._dice = dice
        self._hanging: list[Strand] = []

    def clear(self) -> None:
        self.fails, self.slow, self.hangs = {}, 1.0, frozenset()
        hanging, self._hanging = self._hanging, []
        for one in hanging:
            self._loop.call_soon(one.resume)

    def met(self, operation: str, path: str) -> int | None:
        """`MemoryDisk.fault`."""
        self.calls += 1
        life = now_running()
        if life is not None:
            life.check()
        one = strand()
        if one is not None:
            if operation in self.hangs:
                self._hanging.append(one)
            else:
                takes = self._dice.expovariate(1 / TAKES.get(operation, QUICK)) * self.slow
                self._loop.call_later(takes, one.resume)
            one.pause()
        number, often = self.fails.get(operation, (0, 0))
        return number if often and self._dice.randrange(1000) < often else None


class Machine:
    def __init__(self, loop: SimulatedLoop, dice: Random) -> None:
        self.loop = loop
        self.dice = dice
        self.disk = SimulatedDisk()
        self.clocks = MachineClocks(loop)
        self.net = SimulatedNetwork(loop, dice)
        self.host = self.net.host(NAME)
        self.weather = Weather(loop, dice)
        self.boots = 1
        self.pids = 0
        self._story = contextvars.copy_context()  # of no process
        self.lives: list[Life] = []  # of the processes that there are, by age
        self.began: list[Life] = []  # and of all that there were
        self.disk.fault = self.weather.met
        self.disk.opener = now_running
        self.disk.locks = _locks
        self.disk.now_ns = lambda: self.clocks.wall_ns() // STAMPS_NS * STAMPS_NS
        self._wait: Callable[[], float] = lambda: dice.expovariate(1 / WAKES)

    def holds(self, directory: str, at: str) -> None:
        """A real directory is on its disk, with all that is in it, under the name `at`: the log of a daemon that has
        stopped, for example."""
        for folder, _, names in os.walk(directory):
            there = os.path.normpath(os.path.join(at, os.path.relpath(folder, directory)))
            self.disk.makedir(there)
            for name in names:
                fd = self.disk.open(os.path.join(there, name), create=True)
                self.disk.write(fd, [Path(folder, name).read_bytes()], 0)
                self.disk.sync(fd)
                self.disk.close(fd)
            self.disk.sync_directory(there)

    def start(self, assembly: Assembly, settings: Settings | None = None) -> Life:
        """A process of a daemon. It ends when `kill` or `cut` is called, or as its signals and errors say. Its
        `reload` starts the next one."""
        life = self._process(assembly, settings or Settings())
        life.begin()
        return life

    def _process(self, assembly: Assembly, settings: Settings) -> Life:
        handover = Handover(SimulatedLocks(self.disk))
        world = World(self.disk, self.clocks, self.dice, self.host, f"boot {self.boots}", handover)
        self.pids += 1
        life = Life(self.loop, world, assembly, settings, self._wait, self.pids)
        life.launch = _Launch(self, life, settings)
        life.on_gone.append(lambda: self._let_go_of(life))
        life.on_go_on.append(lambda: self.host.stir(life))
        self.lives.append(life)
        self.began.append(life)
        return life

    def take_over(self, before: Life, settings: Settings) -> SimulatedProcess:
        """The next process, which `before` starts."""
        life = self._story.copy().run(self._process, before.next_assembly or before.assembly, settings)
        near, far = SimulatedChannel.pair(self, before, life)
        life.begin(lambda: Predecessor(far, before.pid, lambda: self.kill(before)))
        return SimulatedProcess(before, life, near, self.kill)

    def hand(self, fd: int, owner: Life) -> int:
        """Another descriptor of an open socket or file, for that process."""
        there = self.net.sockets.get(fd)
        return self.disk.duplicate(fd, owner) if there is None else there.handed_to(owner)

    def soon(self, call: Callable[[], object]) -> None:
        """As soon as another process has a processor."""
        self.loop.call_outside(self._wait(), call)

    def _let_go_of(self, life: Life) -> None:
        self.host.let_go_of(life)
        self.disk.let_go_of(life)
        if life in self.lives:
            self.lives.remove(life)

    def kill(self, life: Life) -> None:
        """SIGKILL: what was written is in the page cache."""
        life.kill()

    def cut(self) -> None:
        """The power goes, and comes back: what was not synced may be there, or not, or in part."""
        self.host.cut()
        for life in [*self.lives]:
            life.kill()
        self.boots += 1
        power_cut(self.disk, self.dice)

    def other(self, name: str) -> World:
        """Another host, for a peer: it has these clocks, and no disk of its own."""
        return World(self.disk, self.clocks, self.dice, self.net.host(name))

    def full(self, free: int | None = 0) -> None:
        """From now on there is room for so many bytes more; None: for all."""
        self.disk.capacity = None if free is None else self.disk.used() + free


class _Launch(NamedTuple):
    """`walflow.runtime.handover.successor.Launch`."""

    machine: Machine
    life: Life
    settings: Settings

    def start(self) -> SimulatedProcess:
        return self.machine.take_over(self.life, self.settings)


def _locks() -> HandedLocks:
    life = now_running()
    return NO_LOCKS if life is None else life.locks
