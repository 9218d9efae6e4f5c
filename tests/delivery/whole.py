"""The connector `wal` without a loop: its parts as it puts them together, on a disk in memory, in virtual time."""

from connectors.wal import RunningLog, Wal
from walflow import Block
from walflow.receipt import Receipt
from walflow.testing import MemoryDisk, MemoryInlet, MemoryOutlet, VirtualClock, VirtualScheduler
from walflow.testing.clock import START_NS
from walflow.wal import Log

LOST = ConnectionError("gone")


class Whole:
    """One life of a log. What it sends stands in `sent` until the test settles it."""

    def __init__(self, config: Wal, disk: MemoryDisk, wall_ns: int = START_NS) -> None:
        self.config = config
        self.disk = disk
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler)
        self.outlet = MemoryOutlet(self.scheduler)
        self.clock = VirtualClock(self.scheduler, wall_ns)
        self.log = Log(config.options(), disk, self.clock)
        self.running = RunningLog(config, self.log, self.inlet, self.outlet)
        self.scheduler.run()

    @property
    def sent(self) -> list[Block]:
        return self.outlet.sent

    def give(self, *payloads: bytes) -> Receipt:
        """One block."""
        block = self.inlet.lines_of(*payloads)
        self.inlet.give(block)
        self.scheduler.run()
        return block.receipt

    def ack_all(self) -> None:
        while self.sent:
            self.sent.pop(0).receipt.ack("f::sink")
            self.scheduler.run()

    def gauge(self, name: str) -> float:
        return self.inlet.gauges[name]()

    def count(self, name: str) -> int:
        halves = (self.inlet, self.outlet)
        return sum(half.counters[name].value for half in halves if name in half.counters)

    def crash(self) -> None:
        """The process is gone: the kernel has its descriptors, its blocks are nobody's."""
        self.running.stop()
        self._void()
        self.log.abandon()

    def close(self) -> None:
        self.running.stop()
        self._void()
        self.scheduler.run()
        self.log.close()

    def _void(self) -> None:
        for block in self.sent:
            block.receipt.settled = _nobody
            block.receipt.pending = 0
        self.sent.clear()


def _nobody(receipt: Receipt) -> None: ...
