"""What the commands of a log do with the marks of its lanes: a lane may get events again, and misses none."""

from pathlib import Path

from tests.cli.wal_tools import FIRST, flip, left, run
from walflow.wal.format import CHUNK_START

LANES = ["near", "far"]
AGAIN = {"near": [(5, 30)], "far": [(5, 30)]}


def test_what_was_imported_has_no_marks(marked: Path, tmp_path: Path) -> None:
    """All lanes begin at the cursor, which is what all of them had acked."""
    lines = tmp_path / "lines"
    lines.write_text(run("export", marked).stdout)
    assert run("import", tmp_path / "other", lines).exit_code == 0
    assert left(tmp_path / "other", LANES) == AGAIN
    assert left(marked, LANES) == {"near": [], "far": [(5, 30)]}, "the log itself is as it was"


def test_a_repair_keeps_them(marked: Path) -> None:
    """An event that no lane can read any more is lost for the lane that had not acked it."""
    flip(marked / FIRST, CHUNK_START + 300)
    said = run("repair", marked, "--yes")
    assert said.exit_code == 0, said.output
    assert "report these positions as lost" in said.output
    assert left(marked, LANES) == {"near": [], "far": [(7, 30)]}


def test_a_repair_moves_away_what_is_no_file(marked: Path) -> None:
    (marked / "marks").unlink()
    (marked / "marks").mkdir()
    said = run("repair", marked, "--yes")
    assert said.exit_code == 0, said.output
    assert (marked / "quarantine" / "marks").is_dir()
    assert left(marked, LANES) == AGAIN
