"""`walflow wal rename`: a sink with a new name goes on from what it had acked under its old one."""

import json
from pathlib import Path

import pytest

from tests.cli.wal_tools import inventory, left, run
from walflow.wal import Log


def test_it_goes_on_from_its_mark(marked: Path) -> None:
    assert left(marked, ["archive", "far"])["archive"] == [(5, 30)], "a new sink"
    result = run("rename", marked, "near", "archive")
    assert (result.exit_code, result.output) == (0, f"renamed: near is archive in {marked}\n")
    assert left(marked, ["archive", "far"]) == {"archive": [], "far": [(5, 30)]}
    known = json.loads(run("rename", marked, "archive", "near", "--json").output)
    assert known == {"path": str(marked), "old": "archive", "new": "near"}
    assert left(marked, ["near", "far"]) == {"near": [], "far": [(5, 30)]}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("peer", "archive"), "the log has no mark of 'peer': it has marks of near, far"),
        (("near", "far"), "the log has a mark of 'far' already"),
    ],
)
def test_what_cannot_be_renamed_is_told(marked: Path, names: tuple[str, str], words: str) -> None:
    before = inventory(marked)
    result = run("rename", marked, *names)
    assert (result.exit_code, result.output) == (1, f"walflow: {words}\n")
    assert inventory(marked) == before


def test_a_log_without_marks(path: Path) -> None:
    result = run("rename", path, "near", "far")
    assert (result.exit_code, result.output) == (
        1,
        "walflow: the log has no mark of 'near': it has no marks\n",
    )
    assert not (path / "marks").exists()


def test_what_is_no_log(tmp_path: Path) -> None:
    result = run("rename", tmp_path / "nothing", "near", "far")
    assert result.exit_code == 74
    assert not (tmp_path / "nothing").exists()


def test_a_log_that_a_daemon_has_is_left_to_it(path: Path, held: Log) -> None:
    assert run("rename", path, "near", "far").exit_code == 75
