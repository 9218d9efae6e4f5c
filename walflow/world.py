"""What a daemon has from outside: a machine's disk, network, clocks and boot, and chance.

They are those of the machine, unless a `World` is entered. Then all that runs in this context has that one, and so
have the tasks and calls of an event loop that begin in it. So a simulation gives each daemon a
world, and no constructor passes it on. A thread begins in no context: walflow's find the machine.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random, SystemRandom
from typing import Final, NamedTuple

from walflow.clock import Clocks, SystemClock
from walflow.disk import Disk, RealDisk
from walflow.handover import OWN, Handover
from walflow.network import Network, SystemNetwork

NO_HANDOVER: Final = Handover()  # of simulated processes that are stopped before the next one starts


class World(NamedTuple):
    """`dice`: all that must differ from run to run, or from process to process. `boot`: the machine's, by name; None:
    as the system says. `handover`: of the process, with the one before and the one after."""

    disk: Disk
    clocks: Clocks
    dice: Random
    network: Network
    boot: str | None = None
    handover: Handover = NO_HANDOVER


MACHINE = World(RealDisk(OWN.locks), SystemClock(), SystemRandom(), SystemNetwork(), handover=OWN)

_current: ContextVar[World] = ContextVar("world", default=MACHINE)


@contextmanager
def entered(world: World) -> Generator[None]:
    token = _current.set(world)
    try:
        yield
    finally:
        _current.reset(token)


def enter(world: World) -> None:
    """For the rest of this context, and for all that begins in it."""
    _current.set(world)


def disk() -> Disk:
    return _current.get().disk


def network() -> Network:
    return _current.get().network


def handover() -> Handover:
    return _current.get().handover


def clocks() -> Clocks:
    return _current.get().clocks


def dice() -> Random:
    return _current.get().dice


def boot() -> str:
    """Another one after a power cut. Empty where the system does not say: then every start counts as one after a
    cut."""
    known = _current.get().boot
    if known is not None:
        return known
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def wall_ns() -> int:
    """Nanoseconds since 1970, by the wall clock: it may be set."""
    return _current.get().clocks.wall_ns()


def wall_seconds() -> float:
    """Seconds since 1970, by the wall clock."""
    return wall_ns() / 1e9


def monotonic() -> float:
    """Seconds since some moment before the process began."""
    return _current.get().clocks.monotonic_ns() / 1e9


def sleep(seconds: float) -> None:
    """For a job on a thread: the loop has its own."""
    _current.get().clocks.sleep(seconds)
