"""The power is cut at any operation, in the start after it too:
Spark asks again, and every row is in the log once."""

import asyncio
from random import Random

import pytest

from pyspark_walflow.wire import Code, RequestRefused
from tests.connectors.spark.results.results_world import Bench, rows_of
from walflow.testing import PowerCut, SimulatedDisk, images

pytestmark = pytest.mark.test

SHAPE = {"chunk_size": 4096, "max_chunks": 16}  # a cap of 4 KiB: a batch is several records, and several chunks
BATCHES = 3


class Driver:
    """Spark: tries a batch until it hears that it is published. What it staged before may be asked for again, or
    written anew under other names, as its own fate will have it."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.batch = 0
        self.staged: list[str] = []
        self.names = 0
        self.told: list[bool] = []

    def rows(self) -> list[bytes]:
        return [row for batch in range(BATCHES) for row in self.rows_of(batch)]

    def rows_of(self, batch: int) -> list[bytes]:
        return [row for task in range(2) for row in self.task(batch, task)]

    def task(self, batch: int, task: int) -> list[bytes]:
        return rows_of(f"{batch}/{task}", 30, 40 * (batch + 1) + 200 * task)

    async def work(self, bench: Bench) -> None:
        """Until all of it is published."""
        while self.batch < BATCHES:
            if not self.staged or self.dice.random() < 0.3:
                await self.write(bench)
            try:
                fresh, count = await bench.publish("q", self.batch, *self.staged)
            except RequestRefused as refused:
                if refused.code != Code.UNKNOWN_STAGE:
                    raise
                self.staged = []
                continue
            assert count == 60
            self.told.append(fresh)
            self.batch += 1
            self.staged = []

    async def write(self, bench: Bench) -> None:
        self.staged = []
        staged: list[str] = []
        for task in range(2):
            self.names += 1
            name = f"{self.names:032x}"
            await bench.stage(name, self.task(self.batch, task))
            staged.append(name)
        self.staged = staged


async def life(driver: Driver, disk: SimulatedDisk, operations: int) -> bool:
    """False: the power went."""
    disk.operations_left = operations
    try:
        bench = Bench(disk, **SHAPE)  # type: ignore[arg-type]
        await driver.work(bench)
        assert bench.rows() == driver.rows(), "each row once, in its order"
        assert bench.log.gaps == []
        await bench.close()
    except PowerCut:
        await everyone_goes()
        return False
    return True


async def everyone_goes() -> None:
    """The process is gone. What its tasks do about it, they do with the power off."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def full_length() -> int:
    disk = SimulatedDisk()
    assert await life(Driver(0), disk, -1)
    return disk.operations


@pytest.mark.parametrize("part", range(4))
async def test_the_power_may_be_cut_at_every_operation(part: int) -> None:
    length = await full_length()
    assert length > 100
    for operations in range(part, length, 4):
        disk, driver = SimulatedDisk(), Driver(operations)
        if await life(driver, disk, operations):
            continue
        for image in list(images(disk, driver.dice, 3)):
            await again(driver, image.files, operations)


async def again(driver: Driver, files: object, seed: int) -> None:
    """The same driver, after a cut that is followed by another one."""
    dice = Random(seed)
    later = Driver(seed)
    later.batch, later.staged, later.names = driver.batch, list(driver.staged), driver.names
    disk = SimulatedDisk(files)  # type: ignore[arg-type]
    if not await life(later, disk, dice.randrange(40)):
        disk = SimulatedDisk(dice.choice(list(images(disk, dice, 6))).files)
        assert await life(later, disk, -1)


@pytest.mark.parametrize("writeback_fails", [False, True])
async def test_a_kill_at_every_operation(writeback_fails: bool) -> None:
    length = await full_length()
    for operations in range(1, length, 3):
        disk, driver = SimulatedDisk(), Driver(operations)
        if not await life(driver, disk, operations):
            disk.after_kill(writeback_fails=writeback_fails)
            assert await life(driver, disk, -1)
