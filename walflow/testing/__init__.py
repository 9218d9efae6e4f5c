"""For tests: the world a connector runs in (`world`), and disks in memory, with the power cuts that prove what the
log promises (`disk`, `cuts`, `judge`, `stories`, `soak`)."""

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
    "VirtualScheduler",
    "images",
]
