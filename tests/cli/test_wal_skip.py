"""`walflow wal skip`: a poison event is shown, skipped, kept, and not delivered again."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.wal_tools import inventory, run
from tests.wal.tools import QuickDisk, read
from walflow.wal import Log, LogOptions


def test_a_dry_run_shows_the_event_and_changes_nothing(path: Path) -> None:
    before = inventory(path)
    result = run("skip", path, "7", "--dry-run")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("to skip: 7 2023-11-14T22:13:20.123456Z read#3 {")
    assert result.output.endswith("nothing was changed: this was a dry run\n")
    known = json.loads(run("skip", path, "7", "--dry-run", "--json").output)
    assert (known["skipped"], known["positions"][0]["events"][0]["event"]["n"]) == (False, 7)
    assert inventory(path) == before


def test_skipped_events_are_not_delivered_and_the_others_are(path: Path) -> None:
    result = run("skip", path, "7", "--to", "8")
    assert result.exit_code == 0, result.output
    assert [line.split()[:2] for line in result.output.splitlines()[:2]] == [["skipped:", "7"], ["skipped:", "8"]]
    kept = Path(result.output.splitlines()[2].removeprefix("kept: "))
    report = json.loads(kept.read_text())
    assert (report["first"], report["last"], report["reason"]) == (7, 8, "skipped by the operator")
    assert report["by"]
    assert b'{"n":7,' in kept.with_suffix(".bytes").read_bytes()
    log = Log(LogOptions(str(path)), QuickDisk())
    assert log.unacked(1, 30) == [(5, 6), (9, 30)]
    assert len(read(log)) == 9
    log.close()
    assert "00000000000000000007-00000000000000000008.json: skipped by the operator" in run("stats", path).output


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("31",), 1, "the log has no position 31: its positions end at 30"),
        (("4",), 1, "position 4 is acked already: there is nothing to skip"),
        (("1", "--to", "3"), 1, "positions 1 to 3 are acked already"),
        (("9", "--to", "8"), 2, "--to 8 comes before 9"),
        (("0",), 2, "POSITION"),
        (("seven",), 2, "POSITION"),
    ],
)
def test_what_cannot_be_skipped_is_told(path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    before = inventory(path)
    for more in ((), ("--dry-run",)):
        result = run("skip", path, *arguments, *more)
        assert (result.exit_code, words in result.output) == (code, True), result.output
    assert inventory(path) == before


def test_a_log_that_a_daemon_has_is_left_to_it(path: Path, held: Log) -> None:
    for more in ((), ("--dry-run",)):
        result = run("skip", path, "7", *more)
        assert result.exit_code == 75
        assert result.output == f"walflow: {path} is in use by process {os.getpid()}; stop it first\n"


def test_where_there_is_no_log_none_is_made(tmp_path: Path) -> None:
    result = run("skip", tmp_path / "nowhere", "1")
    assert (result.exit_code, result.output.count("\n")) == (74, 1)
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_copied_is_not_skipped(path: Path) -> None:
    (path / "quarantine").write_text("in the way")
    result = run("skip", path, "7")
    assert (result.exit_code, result.output.count("\n")) == (74, 1)
    log = Log(LogOptions(str(path)), QuickDisk())
    assert log.unacked(1, 30) == [(5, 30)]
    log.close()
