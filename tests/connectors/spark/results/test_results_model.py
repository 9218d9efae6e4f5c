"""Any order of stage, publish, abort, restart and kill, against a dict of what is staged and a list of what is
published."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pyspark_walflow.wire import Code, RequestRefused
from tests.connectors.spark.results.results_world import PATH, Bench, rows_of
from tests.examples import examples
from walflow.testing import PowerCut, SimulatedDisk

T = TypeVar("T")

NAMES = [f"{number:032x}" for number in range(4)]
names = st.sampled_from(NAMES)
queries = st.sampled_from(["q", "r"])
several = st.lists(names, max_size=3, unique=True)
steps = st.sampled_from([1, 1, 1, 0, -1, 2])
LARGEST = 3000


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = SimulatedDisk()
        self.staged: dict[str, list[bytes]] = {}
        self.last: dict[str, tuple[int, int]] = {}
        self.published: list[bytes] = []
        self.drawn = 0

    @initialize()
    def start(self) -> None:
        self.bench = self.do(self._open())

    @rule(name=names, count=st.integers(0, 12), size=st.sampled_from([0, 200]))
    def stage(self, name: str, count: int, size: int) -> None:
        self.drawn += 1
        rows = rows_of(f"{self.drawn}", count, size)
        self.do(self.bench.stage(name, rows))
        self.staged[name] = rows

    @rule(query=queries, step=steps, wanted=several)
    def publish(self, query: str, step: int, wanted: list[str]) -> None:
        batch = max(0, self.last.get(query, (0, 0))[0] + step)
        expected = self.expect(query, batch, wanted)
        if isinstance(expected, str):
            with pytest.raises(RequestRefused) as refused:
                self.do(self.bench.publish(query, batch, *wanted))
            assert refused.value.code == expected
        else:
            assert self.do(self.bench.publish(query, batch, *wanted)) == expected
            self.take(query, batch, wanted, expected[0])

    @rule(query=queries, wanted=several, operations=st.integers(0, 40), writeback_fails=st.booleans())
    def publish_killed(self, query: str, wanted: list[str], operations: int, writeback_fails: bool) -> None:
        """Asked again after the start it is done, whether it had been or not."""
        batch = self.last.get(query, (-1, 0))[0] + 1
        expected = self.expect(query, batch, wanted)
        if isinstance(expected, str):
            return
        self.disk.operations_left = operations
        try:
            fresh, count = self.do(self.bench.publish(query, batch, *wanted))
            assert fresh
        except PowerCut:
            self.kill(writeback_fails=writeback_fails)
            fresh, count = self.do(self.bench.publish(query, batch, *wanted))
        self.disk.operations_left = -1
        assert count == expected[1]
        self.take(query, batch, wanted, True)

    @rule(wanted=several)
    def abort(self, wanted: list[str]) -> None:
        self.do(self.bench.finish(self.bench.results.abort(wanted)))
        for name in wanted:
            self.staged.pop(name, None)

    @rule()
    def restart(self) -> None:
        self.do(self.bench.close())
        self.bench = self.do(self._open())

    @rule(writeback_fails=st.booleans())
    def kill(self, writeback_fails: bool) -> None:
        self.disk.operations_left = 0
        self.do(_everyone_goes())
        self.disk.after_kill(writeback_fails=writeback_fails)
        self.bench = self.do(self._open())

    @rule()
    def an_hour_passes(self) -> None:
        self.do(self._advance(3700))
        self.staged.clear()

    @invariant()
    def each_row_is_there_once(self) -> None:
        if hasattr(self, "bench"):
            self.do(self.bench.settle())
            assert self.bench.rows() == self.published

    @invariant()
    def what_is_staged_is_there(self) -> None:
        folder = f"{PATH}/staging/"
        found = sorted(path[len(folder) :] for path in self.disk.sizes() if path.startswith(folder))
        assert found == sorted(f"{name}.{len(rows)}" for name, rows in self.staged.items())

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.do(self.bench.close())
        self.loop.close()

    def expect(self, query: str, batch: int, wanted: list[str]) -> tuple[bool, int] | str:
        last = self.last.get(query)
        if last is not None and batch <= last[0]:
            return False, last[1] if batch == last[0] else 0
        if any(name not in self.staged for name in wanted):
            return Code.UNKNOWN_STAGE
        if sum(len(row) + 1 for name in wanted for row in self.staged[name]) > LARGEST:
            return Code.TOO_LARGE
        return True, sum(len(self.staged[name]) for name in wanted)

    def take(self, query: str, batch: int, wanted: list[str], fresh: bool) -> None:
        if fresh:
            rows = [row for name in wanted for row in self.staged[name]]
            self.published += rows
            self.last[query] = batch, len(rows)
        for name in wanted:
            self.staged.pop(name, None)

    def do(self, work: Coroutine[object, object, T] | Awaitable[T]) -> T:
        return self.loop.run_until_complete(work)

    async def _advance(self, seconds: float) -> None:
        self.bench.scheduler.advance(seconds)
        await self.bench.settle()

    async def _open(self) -> Bench:
        bench = Bench(self.disk, chunk_size=4096, max_chunks=64, max_result_bytes=LARGEST)
        bench.log.block_cap = 500  # so that a batch is several records
        return bench


async def _everyone_goes() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_any_order_of_events() -> None:
    run_state_machine_as_test(Machine, settings=settings(max_examples=examples(60), stateful_step_count=30))
