"""The writer's table of states: nothing that may happen, in any order, is missing from it,
and each block has one end."""

import asyncio
import errno
from collections.abc import Callable

from hypothesis import given, strategies as st

from connectors.file.output import Output
from tests.connectors.world import Sink
from walflow.sinks import SinkState
from walflow.testing import MemoryDisk


class Walk:
    """A life of the writer in virtual time, on a disk that fails and works as it is told."""

    def __init__(self) -> None:
        self.disk = MemoryDisk({"/d/x": b""})
        self.sink = Sink(Output("/d/out.log", self.disk, sync=True, empty=True, clock=lambda: 0.0))
        self.sink.scheduler.holding = True
        self.sink.writer.start()
        self.given: list[bytes] = []

    def give(self) -> None:
        if self.sink.writer.serving:
            line = b"%d" % len(self.given)
            self.given.append(line + b"\n")
            self.sink.inlet.give(self.sink.inlet.lines_of(line))

    def work(self) -> None:
        """What is due now, then the job in the air ends."""
        self.sink.scheduler.run()
        if self.sink.scheduler.in_air:
            self.sink.scheduler.work()

    def wait(self) -> None:
        self.sink.scheduler.advance(10)

    def reopen(self) -> None:
        if self.sink.writer.serving:
            self.sink.inlet.reopen()

    def fill(self) -> None:
        self.disk.fault = lambda operation, path: errno.ENOSPC if operation in ("append", "create") else None

    def mend(self) -> None:
        self.disk.fault = None


STEPS: list[Callable[[Walk], None]] = [Walk.give, Walk.work, Walk.wait, Walk.reopen, Walk.fill, Walk.mend]


@given(steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=40), patient=st.booleans())
def test_whatever_happens_each_block_is_acked_in_order_or_fails_at_the_end(
    steps: list[Callable[[Walk], None]], patient: bool
) -> None:
    walk = Walk()
    walk.work()
    for step in steps:
        step(walk)
    if patient:
        walk.mend()
        walk.sink.scheduler.holding = False
        walk.wait()
        assert walk.sink.inlet.acked == walk.given, "a file that can be written is written"
        assert walk.sink.inlet.breaker is None
    walk.sink.stop()
    assert walk.sink.scheduler.timers == []
    acked = walk.sink.inlet.acked
    failed = [data for data, _ in walk.sink.inlet.failed]
    assert acked + failed == walk.given
    assert walk.disk.content("/d/out.log") == b"".join(acked)
    assert walk.sink.writer.state is SinkState.CLOSED


def test_a_stop_that_is_cut_short_leaves_the_last_job_to_end_unheard() -> None:
    walk = Walk()

    async def cut_short() -> None:
        closing = asyncio.ensure_future(walk.sink.writer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    asyncio.run(cut_short())
    walk.work()
    assert walk.sink.writer.state is SinkState.CLOSED
    walk.sink.output.close()
