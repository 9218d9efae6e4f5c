"""Directories that the first code of format version 1 left behind are read as it read them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.wal_tools import left
from tests.wal.golden.make import SHAPES, STORIES, Maker, noted, read
from tests.wal.tools import files_of
from walflow.wal import Gap, Record
from walflow.wal.tools.inspect import look, records

GOLDEN = Path(__file__).parent / "golden" / "v1"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copy(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / name, tmp_path / name))


def recorded(name: str) -> dict[str, object]:
    known: dict[str, object] = json.loads((GOLDEN / f"{name}.json").read_text())
    return known


def test_every_story_is_there() -> None:
    assert sorted(story.__name__ for story in STORIES) == NAMES


def test_what_is_in_it_is_what_was_appended(name: str, copy: Path) -> None:
    before = files_of(str(copy)) if name != "quarantine" else {}
    held = [one for one in records(look(str(copy)), 1, 1 << 40) if isinstance(one, Record)]
    assert noted(held) == recorded(name)["records"]
    assert not before or files_of(str(copy)) == before


def test_a_start_finds_what_it_found_then(name: str, copy: Path) -> None:
    known = recorded(name)
    del known["records"]
    assert read(copy) == known
    assert read(copy) == known | {"recovery": [], "gaps": []}  # and the next one all the same


def test_a_lost_record_is_in_quarantine(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(GOLDEN / "damaged", tmp_path / "damaged"))
    (gap,) = [one for one in records(look(str(copy)), 1, 1 << 40) if isinstance(one, Gap)]
    read(copy)
    (report,) = (copy / "quarantine").glob("*.json")
    kept = json.loads((GOLDEN / "quarantine" / "quarantine" / report.name).read_text())
    assert json.loads(report.read_text()) | {"reported_ns": 0} == kept | {"reported_ns": 0}
    assert (gap.first, gap.last, gap.file, gap.offset, gap.size) == tuple(kept.values())[:5]


def test_a_lane_goes_on_from_the_mark_that_it_had_then(tmp_path: Path) -> None:
    """That was by the name of the lane. Now each sink has one."""
    copy = Path(shutil.copytree(GOLDEN / "lanes", tmp_path / "lanes"))
    assert left(copy, ["near+far", "odd"]) == {"near+far": [(21, 24), (28, 30)], "odd": [(5, 30)]}


@pytest.mark.parametrize("story", STORIES)
def test_todays_code_tells_the_same_stories(story: Callable[[Maker], None], tmp_path: Path) -> None:
    """But for what is random in them."""
    make = Maker(tmp_path / "log", *SHAPES.get(story, (1024, 64)))
    story(make)
    known = recorded(story.__name__)
    assert noted(make.records) == known["records"]
    del known["records"]
    assert read(tmp_path / "log") | {"uuid": ""} == known | {"uuid": ""}
