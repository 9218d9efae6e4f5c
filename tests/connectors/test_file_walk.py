"""Which paths match a pattern: as `glob` says, in a tree without links; each directory once, with them."""

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from connectors.file.follow.files_found import scan
from connectors.file.follow.walk import Walk, Walked, walk

TREE = ("a.log", "b/a.log", "b/c/a.log", "b/c/.hidden.log", ".d/a.log", "b/b/b/x.txt", "ab/z[1].log", "b/e.log/a.log")
PATTERNS = (
    "*.log", "*", "**", "**/*.log", "**/a.log", "b/**", "b/**/*.log", "*/*.log", "*/a.log", "**/**/a.log", ".*/*.log",
    "[ab]*/**/*",
    "b//*.log", "./*.log", "**/c/*", "**/b/**/*", "ab/z[[]1].log", "nothing/*", "*/", "**/.*", "b/*/", "?.log",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def files(paths: list[str]) -> set[str]:
    return {os.path.normpath(path) for path in paths if os.path.isfile(path)}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("absolute", [True, False])
def test_it_finds_what_glob_finds(tree: Path, pattern: str, absolute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    whole = f"{tree}/{pattern}" if absolute else pattern
    walked = walk(whole)
    assert not walked.stopped
    assert files(walked.paths) == files(glob.glob(whole, recursive=True))
    assert walked.paths == sorted(walked.paths)


@given(st.lists(st.sampled_from(["*", "**", "a*", "b", "*.log", "?", "[a-c]", ".*"]), min_size=1, max_size=5))
def test_it_finds_what_glob_finds_for_any_pattern(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    top = tmp_path_factory.getbasetemp() / "walked"
    for name in TREE:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).touch()
    pattern = str(top / "/".join(parts))
    assert files(walk(pattern).paths) == files(glob.glob(pattern, recursive=True))


@pytest.mark.parametrize("pattern", ["**/*.log", "*/*/*/*/*/*/*/*/*/*/*/*/*/*.log", "**/**/*", "**"])
def test_links_in_a_circle_lead_to_each_directory_once(tree: Path, pattern: str) -> None:
    for name in ("a", "z", "b/a", "b/c/up"):
        (tree / name).symlink_to(tree)
    walking = Walk(f"{tree}/{pattern}")
    walked = walking.run()
    assert not walked.stopped
    assert len(walked.paths) < 200
    if pattern == "**/*.log":
        names = {os.path.relpath(path, tree) for path in walked.paths if os.path.isfile(path)}
        assert names == {"a.log", "b/a.log", "b/c/a.log", "ab/z[1].log", "b/e.log/a.log"}  # by paths without links


def test_a_link_to_a_directory_elsewhere_is_followed(tree: Path, tmp_path: Path) -> None:
    (tree / "b" / "elsewhere").symlink_to(tree / ".d")
    assert f"{tree}/b/elsewhere/a.log" in walk(f"{tree}/**/*.log").paths


def test_it_ends_early_and_says_why(tree: Path) -> None:
    assert Walk(f"{tree}/**/*.log", visits=3).run().stopped == "3 directories were visited"
    assert Walk(f"{tree}/**/*.log", seconds=-1).run().stopped == "it took more than -1 s"


def test_what_is_known_is_found_also_where_it_ends_early(tree: Path) -> None:
    """Otherwise it would count as removed."""
    found = scan(
        f"{tree}/**/*.log", [f"{tree}/b/c/a.log", f"{tree}/gone.log"], lambda _: Walked([f"{tree}/a.log"], "why")
    )
    assert [os.path.relpath(each.path, tree) for each in found.files] == ["a.log", "b/c/a.log"]
    assert found.refused == {
        f"{tree}/**/*.log": "the search for files ended early: why. Files behind that are not found"
    }


def test_it_ends_where_its_caller_waits_no_more(tree: Path) -> None:
    visits: list[bool] = []

    def cancelled() -> bool:
        visits.append(len(visits) == 2)
        return visits[-1]

    assert Walk(f"{tree}/**/*.log", cancelled).run().stopped
    assert visits == [False, False, True]
