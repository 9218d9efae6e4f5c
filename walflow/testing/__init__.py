"""For tests, a stranger's too: the world a connector runs in (`world`), disks in memory (`disk`), what a power cut
may leave of one (`cuts`), and what every sink and every table owes, as suites (`sinks`, `tables`). What proves the
log with them is no part of the package: `tests/proof`, beside the source."""

from walflow.testing.clock import VirtualClock
from walflow.testing.cuts import images
from walflow.testing.disk import Image, MemoryDisk, PowerCut, SimulatedDisk
from walflow.testing.world import Fatal, MemoryCounter, MemoryInlet, MemoryOutlet, MemoryStream, VirtualScheduler

__all__ = [
    "Fatal",
    "Image",
    "MemoryCounter",
    "MemoryDisk",
    "MemoryInlet",
    "MemoryOutlet",
    "MemoryStream",
    "PowerCut",
    "SimulatedDisk",
    "VirtualClock",
    "VirtualScheduler",
    "images",
]
