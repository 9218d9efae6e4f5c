"""What `walflow wal repair` does to a directory, called as the command calls it. With power cuts:
tests/testing/repairing.py; as a person sees it: tests/cli/test_wal.py."""

from pathlib import Path
from random import Random

import pytest

from tests.testing.repairing import DAMAGES, Files, Mirrored, Repair, mended, real, two_logs_and_no_meta
from tests.wal.conftest import Open
from tests.wal.tools import payloads, put
from walflow.testing import SimulatedDisk, images
from walflow.testing.scripts import CHUNKS
from walflow.wal import Log, Options
from walflow.wal.format import SLOT
from walflow.wal.repair import pass_over


def broken(number: int) -> Files:
    return dict(Repair(number).promises.files)


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_it_leaves_no_file_open_and_has_nothing_left_to_do(number: int) -> None:
    with real(broken(number)) as path:
        mended(path)
        before = sorted(each for each in Path(path).rglob("*"))
        mended(path)
        assert sorted(each for each in Path(path).rglob("*")) == before


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_what_it_did_is_on_disk_when_it_says_so(number: int) -> None:
    story = Repair(number)
    story.live()
    image = next(images(story.disk, Random(1), 2))
    there = {path: kept.data for path, kept in image.files.items() if kept.data is not None}
    assert there == {path: story.disk.content(path) for path in story.disk.sizes() if not path.endswith("/LOCK")}


def test_a_name_that_was_half_written_is_in_nobodys_way() -> None:
    files = broken(DAMAGES.index(two_logs_and_no_meta)) | {"meta.tmp": b"half of it"}
    with real(files) as path:
        mended(path)
        assert not Path(path, "meta.tmp").exists()
        Log(Options(path, 1024, 64)).close()


def test_half_a_header_is_written_again_from_the_other_half() -> None:
    files = broken(3)
    with real(files) as path:
        mended(path)
        for name in CHUNKS[1:3]:
            header = Path(path, name).read_bytes()[:160]
            assert header[:80] == header[80:]
            assert header != files[name][:160]


def test_all_that_is_read_is_told(open_log: Open) -> None:
    log = open_log(1024, 64, cache_bytes=0)
    put(log, *[b"p" * 400] * 5, tag=b"tag")
    told: list[int] = []
    assert pass_over(log, told.append) == []
    assert sum(told) == 5 * 403


def a_log(payload: bytes) -> Files:
    disk = SimulatedDisk()
    log = Log(Options("/log", 1024, 64), disk)
    put(log, payload, payload)
    log.ack(1, 1)
    log.close()
    return {path[5:]: disk.content(path) for path in disk.sizes() if not path.endswith("LOCK")}


def test_of_two_logs_each_is_a_log_again_and_on_disk() -> None:
    """The cursor has a slot of either."""
    ours, theirs = a_log(b"a" * 300), a_log(b"b" * 300)
    files = {name: data for name, data in ours.items() if name != "meta"}
    files |= {f"{int(name[:20]) + 50:020d}.wal": data for name, data in theirs.items() if name.endswith(".wal")}
    files["cursor"] = ours["cursor"][:SLOT] + theirs["cursor"][SLOT:]
    disk = SimulatedDisk({f"/log/{name}": data for name, data in files.items()})
    with real(files) as path:
        mended(path, Mirrored(path, disk))
    image = next(images(disk, Random(1), 2))
    there = {path: kept.data for path, kept in image.files.items() if kept.data is not None}
    assert there == {path: disk.content(path) for path in disk.sizes() if not path.endswith("/LOCK")}
    (split,) = {path.rpartition("/")[0] for path in there if "/log-" in path}
    found = [payloads(Log(Options(path, 1024, 64), disk.like_this(image.files))) for path in ("/log", split)]
    assert sorted(found) == [[b"a" * 300], [b"b" * 300]]
