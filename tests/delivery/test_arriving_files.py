"""A followed file in front of a log: what is read again after kill -9 is not appended again,
and nothing else is called known."""

import asyncio
import gzip
import os
import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.delivery.followed_row import PASSED, SELECTED, FollowedRow
from tests.examples import examples
from walflow.testing import MemoryDisk

ROWS = [(PASSED, 1, 1), (SELECTED, 3, 1)]


def lines(first: int, last: int, pad: str = "") -> bytes:
    return b"".join(b'{"id":%d,"x":"%s"}\n' % (number, pad.encode()) for number in range(first, last))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


class Lives:
    """One life after the other, with one log and one directory.
    `delivered`: by the log's position, all that was ever sent."""

    row: FollowedRow
    names = "app*.log"

    def __init__(self, directory: Path, body: str) -> None:
        self.directory = directory
        self.body = body
        self.disk = MemoryDisk()
        self.delivered: dict[int, int] = {}
        self.settled: set[int] = set()

    async def begin(self, boot: str = "one") -> FollowedRow:
        self.row = FollowedRow(self.directory, self.body, self.disk, boot, self.names)
        return await self.row.__aenter__()

    def note(self) -> None:
        self.settled |= self.row.settled()
        for position, id in self.row.delivered.items():
            assert self.delivered.setdefault(position, id) == id, "the position of another event"

    async def crash(self) -> None:
        self.note()
        await self.row.crash()

    async def finish(self) -> list[int]:
        """All that the log ever sent."""
        self.row.checkpoints.stuck = False
        for _ in range(4):
            self.row.ack()
            await self.row.passing(1)
        self.note()
        await self.row.close()
        return list(self.delivered.values())


async def begun(tmp_path: Path, body: str = PASSED) -> tuple[Lives, FollowedRow]:
    lives = Lives(tmp_path, body)
    row = await lives.begin()
    row.checkpoints.stuck = True
    return lives, row


@pytest.mark.parametrize(("body", "by", "without"), ROWS)
async def test_what_is_read_again_is_not_appended_again(tmp_path: Path, body: str, by: int, without: int) -> None:
    lives, row = await begun(tmp_path, body)
    log = tmp_path / "app.log"
    for first in range(0, 90, 30):
        append(log, lines(first, first + 30))
        await row.passing(1)
    assert row.settled(), "acked, and no checkpoint says so"
    await lives.crash()
    row = await lives.begin()
    wanted = [id for id in range(90) if id % by != without]
    assert row.known() == len(wanted)
    append(log, lines(90, 120))
    assert await lives.finish() == [id for id in range(120) if id % by != without]


async def test_lines_that_are_no_events_between_are_refused_again_and_the_others_known(tmp_path: Path) -> None:
    lives, row = await begun(tmp_path)
    log = tmp_path / "app.log"
    append(
        log, lines(0, 3) + b"no json\n" + lines(3, 5) + b"\n" + lines(5, 6) + b"x" * (2 << 20) + b"\n" + lines(6, 9)
    )
    await row.passing(2)
    assert row.settled() == set(range(9))
    await lives.crash()
    row = await lives.begin()
    assert row.known() == 9
    assert await lives.finish() == [*range(9)]


async def test_a_file_that_has_other_bytes_where_events_were_sent_from_is_new(tmp_path: Path) -> None:
    """Cut in the middle while walflow is down, and grown again: as it may be after a power cut."""
    lives, row = await begun(tmp_path)
    log = tmp_path / "app.log"
    append(log, lines(0, 200))
    await row.passing(1)
    await lives.crash()
    os.truncate(log, len(lines(0, 100)))
    append(log, lines(500, 700))
    row = await lives.begin()
    assert row.known() == 0
    assert set(await lives.finish()) == {*range(200), *range(500, 700)}


async def test_another_file_with_the_same_inode_is_new(tmp_path: Path) -> None:
    lives, row = await begun(tmp_path)
    log = tmp_path / "app.log"
    append(log, lines(0, 50))
    await row.passing(1)
    await lives.crash()
    log.write_bytes(lines(500, 600))  # the same inode, from the beginning
    row = await lives.begin()
    assert row.known() == 0
    assert await lives.finish() == [*range(50), *range(500, 600)]


@pytest.mark.parametrize("saved", [True, False])
async def test_a_new_file_with_the_inode_of_one_that_is_gone_is_known_by_its_own_name(
    tmp_path: Path, saved: bool
) -> None:
    """The slots of both are free, and the file takes the one of the other inode:
    then two would speak of its inode."""
    lives, row = await begun(tmp_path)
    for name, first in (("app1", 0), ("app2", 10)):
        append(tmp_path / f"{name}.log", lines(first, first + 10))
        await row.passing(1)
    for name in ("app2", "app1"):  # the one that is free last is taken first
        (tmp_path / f"{name}.log").rename(tmp_path / name)
        row.checkpoints.stuck = not saved
        await row.passing(3)
        row.checkpoints.stuck = True
    (tmp_path / "app2").write_bytes(lines(100, 400))  # the same inode
    (tmp_path / "app2").rename(tmp_path / "app3.log")
    await row.passing(1)
    await lives.crash()
    row = await lives.begin()
    assert row.known() == 300
    assert await lives.finish() == [*range(20), *range(100, 400)]


async def test_a_new_file_with_inode_and_bytes_of_one_that_is_gone_is_not_known(tmp_path: Path) -> None:
    """It was there when walflow was killed, and nothing of it was sent."""
    lives, row = await begun(tmp_path)
    log = tmp_path / "app.log"
    append(log, lines(0, 50))
    await row.passing(1)
    log.rename(tmp_path / "gone")
    row.checkpoints.stuck = False
    await row.passing(3)
    row.checkpoints.stuck = True
    await lives.crash()
    (tmp_path / "gone").rename(log)
    row = await lives.begin()
    assert row.known() == 0
    assert await lives.finish() == [*range(50), *range(50)]


@pytest.mark.parametrize("read", ["rest", "all"])
async def test_written_anew_before_the_checkpoint_says_so_it_is_known(tmp_path: Path, read: str) -> None:
    lives, row = await begun(tmp_path)
    log = tmp_path / "app.log"
    append(log, lines(0, 50))
    row.checkpoints.stuck = read == "all"
    await row.passing(2)
    row.checkpoints.stuck = True
    log.write_bytes(lines(100, 300))
    await row.passing(1)
    await lives.crash()
    row = await lives.begin()
    assert row.known() == 200
    assert await lives.finish() == [*range(50), *range(100, 300)]


async def test_without_its_checkpoint_all_is_read_as_on_the_first_start(tmp_path: Path) -> None:
    lives, row = await begun(tmp_path)
    append(tmp_path / "app.log", lines(0, 50))
    await row.passing(1)
    await lives.crash()
    (tmp_path / "state" / "main::lines.json").unlink()
    row = await lives.begin()
    assert row.known() == 0
    assert await lives.finish() == [*range(50), *range(50)]


async def test_after_another_boot_every_file_is_new(tmp_path: Path) -> None:
    lives, row = await begun(tmp_path)
    append(tmp_path / "app.log", lines(0, 50))
    await row.passing(1)
    await lives.crash()
    row = await lives.begin("another")
    assert row.known() == 0
    assert await lives.finish() == [*range(50), *range(50)]


# a model

GROWS = st.tuples(st.just("append"), st.integers(1, 40))
HARMLESS = st.one_of(
    GROWS,
    GROWS,
    st.tuples(st.just("half"), st.integers(1, 8)),
    st.tuples(st.just("bad"), st.just(0)),
    st.tuples(st.sampled_from(["crash", "close", "ack", "fail", "rename"]), st.just(0)),
    st.tuples(st.just("stick"), st.integers(0, 1)),
    st.tuples(st.just("advance"), st.sampled_from([1, 4, 20])),
)
CUTS = st.one_of(
    HARMLESS,
    st.tuples(st.sampled_from(["empty", "reuse"]), st.integers(0, 1)),
    st.tuples(st.just("cut"), st.integers(1, 90)),
)


class Model(Lives):
    def __init__(self, directory: Path, body: str, seed: int) -> None:
        super().__init__(directory, body)
        self._chance = Random(seed)
        self._rest = b""  # of a line that was written in part
        self._number = 0
        self._names = 0
        self.log = directory / "app.log"

    def write(self, count: int) -> None:
        data = lines(self._number, self._number + count, "y" * self._chance.choice((0, 0, 40, 300)))
        self._number += count
        append(self.log, self._rest + data)
        self._rest = b""

    @property
    def written(self) -> set[int]:
        return set(range(self._number - bool(self._rest)))

    async def do(self, action: str, of: int) -> None:
        row = self.row
        if action == "append":
            self.write(of)
            await row.passing(0.2)
        elif action == "half" and not self._rest:
            line = lines(self._number, self._number + 1)
            self._number += 1
            append(self.log, line[:of])
            self._rest = line[of:]
        elif action == "bad" and not self._rest:
            append(self.log, b"no json\n")
        elif action == "ack":
            row.ack()
        elif action == "fail":
            row.last.fail()
        elif action == "stick":
            row.checkpoints.stuck = bool(of)
        elif action == "advance":
            await row.passing(of / 20)
        elif action in ("crash", "close"):
            await self._restart(action)
        elif not self._rest and self.log.exists():
            self._change(action, of)

    async def _restart(self, action: str) -> None:
        self.note()
        await (self.row.crash() if action == "crash" else self.row.close())
        if self._chance.random() < 0.5:
            await asyncio.sleep(0)
        await self.begin()

    def _change(self, action: str, of: int) -> None:
        if action == "rename":
            self._names += 1
            self.log.rename(self.log.with_name(f"app{self._names}.log"))
        elif action == "empty":
            os.truncate(self.log, 0)
            if of:
                self.write(self._chance.choice((1, 50, 200)))
        elif action == "cut":
            os.truncate(self.log, self.log.stat().st_size * of // 100)
            self.write(self._chance.choice((1, 50, 200)))
        elif action == "reuse":
            self.log.unlink()
            self.write(self._chance.choice((1, 50, 200)))


async def lived(model: Model, what: list[tuple[str, int]]) -> list[int]:
    await model.begin()
    for action, of in what:
        await model.do(action, of)
    if model._rest:
        model.write(0)
    return await model.finish()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(40))
@given(st.sampled_from(ROWS), st.integers(0, 1 << 16), st.lists(HARMLESS, max_size=20))
def test_each_line_is_in_the_log_once(row: tuple[str, int, int], seed: int, what: list[tuple[str, int]]) -> None:
    body, by, without = row
    with TemporaryDirectory() as directory:
        model = Model(Path(directory), body, seed)
        found = asyncio.run(lived(model, what))
    assert len(found) == len(set(found)), "twice"
    assert set(found) == {id for id in model.written if id % by != without}, "lost"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(40))
@given(st.sampled_from(ROWS), st.integers(0, 1 << 16), st.lists(CUTS, max_size=20))
def test_what_is_called_known_was_appended(row: tuple[str, int, int], seed: int, what: list[tuple[str, int]]) -> None:
    """Whatever is done to the file: what the log took and acked, it has."""
    with TemporaryDirectory() as directory:
        model = Model(Path(directory), row[0], seed)
        found = asyncio.run(lived(model, what))
    assert model.settled <= set(found), "lost"


# a model of rotation

ROTATIONS = ["rename", "copytruncate", "remove"]
ROTATES = st.one_of(
    GROWS,
    GROWS,
    HARMLESS.filter(lambda one: one[0] != "rename"),
    st.tuples(st.sampled_from(ROTATIONS), st.integers(0, 40)),
    st.tuples(st.sampled_from([f"down {each}" for each in ROTATIONS[:2]]), st.integers(0, 40)),
    st.tuples(st.just("gzip"), st.just(0)),
)


class Rotated(Model):
    """As logrotate does it, also while walflow is down. Lines are written before and after; what was read last may be
    compressed or removed once the checkpoint has it."""

    names = "app.log*"

    def __init__(self, directory: Path, body: str, seed: int) -> None:
        super().__init__(directory, body, seed)
        self._gone: set[int] = set()  # inodes of files that were removed

    async def do(self, action: str, of: int) -> None:
        down, _, rotation = action.rpartition(" ")
        if rotation not in (*ROTATIONS, "gzip"):
            await super().do(action, of)
        elif self._rest or not self.log.exists():
            return
        elif down:
            self.note()
            await self.row.crash()
            self._rotate(rotation, of, down=True)
            await self.begin()
        elif rotation == "gzip":
            await self._gzip()
        else:
            if rotation == "remove":
                await self.row.passing(0.4)  # it is open by now
            self._rotate(rotation, of)
            await self.row.passing(0.4)

    def _rotate(self, rotation: str, of: int, *, down: bool = False) -> None:
        if of:
            self.write(of)
        if rotation == "remove":
            self._remove(self.log)
        else:
            self._names += 1
            target = self.log.with_name(f"app.log.{self._names}")
            if rotation == "rename":
                self.log.rename(target)
            else:
                shutil.copyfile(self.log, target)
                while down and target.stat().st_ino in self._gone:  # left in decision 0054: its lines come twice
                    target.rename(self.log.with_name(f"kept{target.stat().st_ino}"))
                    shutil.copyfile(self.log, target)
                os.truncate(self.log, 0)
        if of % 2:
            self.write(of)

    async def _gzip(self) -> None:
        self.row.checkpoints.stuck = False
        await self.row.passing(2)
        for path in self.log.parent.glob("app.log.?"):
            packed = path.with_name(path.name + ".gz")
            packed.write_bytes(gzip.compress(path.read_bytes()))
            self._remove(path)
            await self.row.passing(0.1)
            break

    def _remove(self, path: Path) -> None:
        self._gone.add(path.stat().st_ino)
        path.unlink()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(60))
@given(st.sampled_from(ROWS), st.integers(0, 1 << 16), st.lists(ROTATES, max_size=20))
def test_each_line_of_rotated_files_is_in_the_log_once(
    row: tuple[str, int, int], seed: int, what: list[tuple[str, int]]
) -> None:
    body, by, without = row
    with TemporaryDirectory() as directory:
        model = Rotated(Path(directory), body, seed)
        found = asyncio.run(lived(model, what))
    assert len(found) == len(set(found)), "twice"
    assert set(found) == {id for id in model.written if id % by != without}, "lost"
