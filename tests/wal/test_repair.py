"""What `walflow wal repair` does to a directory, called as the command calls it. With power cuts:
tests/testing/repairing.py; as a person sees it: tests/cli/test_wal.py."""

from pathlib import Path
from random import Random

import pytest

from tests.testing.repairing import DAMAGES, Files, Repair, mended, real, two_logs_and_no_meta
from tests.wal.conftest import Open
from tests.wal.tools import put
from walflow.testing import images
from walflow.testing.scripts import CHUNKS
from walflow.wal import Log, Options
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
