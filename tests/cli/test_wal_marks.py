"""What the commands of a log do with the marks of its lanes: a lane may get events again, and misses none."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.cli.wal_tools import FIRST, flip, left, run
from tests.examples import examples
from tests.wal.tools import QuickDisk, checkpoint, put
from walflow.wal import Log, LogOptions
from walflow.wal.format import CHUNK_START

LANES = ["near", "far"]
AGAIN = {"near": [(5, 30)], "far": [(5, 30)]}


def exported(path: Path, *options: str) -> list[dict[str, object]]:
    result = run("export", path, *options)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def imported(path: Path, lines: list[dict[str, object]]) -> Path:
    file = path.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("import", path, file)
    assert result.exit_code == 0, result.output
    return path


def test_stats_say_what_each_sink_lacks(marked: Path) -> None:
    known = json.loads(run("stats", marked, "--json").output)
    assert known["sinks"] == [
        {"name": "far", "low": 4, "backlog_events": 26, "since": 5, "or_earlier": True},
        {"name": "near", "low": 30, "backlog_events": 0, "since": 5, "or_earlier": True},
    ]
    since = ", linked since position 5 or an earlier one"
    lines = run("stats", marked).output.splitlines()
    assert lines[4:6] == [f"  far: acked to 4, lacks 26 events{since}", f"  near: acked to 30, lacks 0 events{since}"]
    log = Log(LogOptions(str(marked)), QuickDisk())
    far = log.part([["near"], ["far"]])[1]
    far.ack(5, 5)
    far.ack(7, 29)
    checkpoint(log, force=True)
    log.abandon()
    known = json.loads(run("stats", marked, "--json").output)
    assert (known["sinks"][0]["low"], known["sinks"][0]["backlog_events"]) == (5, 2)


def test_an_import_gives_each_sink_what_it_had_not_acked(marked: Path, tmp_path: Path) -> None:
    lines = exported(marked)
    assert (lines[0]["version"], lines[0]["low"]) == (3, 4)
    assert lines[1:3] == [
        {"kind": "mark", "name": "near", "low": 30, "ranges": []},
        {"kind": "mark", "name": "far", "low": 4, "ranges": []},
    ]
    other = imported(tmp_path / "other", lines)
    assert exported(other) == lines
    assert left(other, LANES) == left(marked, LANES) == {"near": [], "far": [(5, 30)]}


@pytest.mark.parametrize(("first", "last"), [(1, 30), (7, 20), (1, 5), (26, 99), (2, 2), (31, 40)])
def test_a_part_has_the_marks_of_that_part(marked: Path, tmp_path: Path, first: int, last: int) -> None:
    log = Log(LogOptions(str(marked)), QuickDisk())
    log.part([[lane] for lane in LANES])[1].ack(9, 12)
    log.close()
    lines = exported(marked, "--from", str(first), "--to", str(last))
    other = imported(tmp_path / "other", lines)
    assert exported(other) == lines
    wanted = set(range(first, last + 1)) & (set(range(5, 31)) - set(range(9, 13)))
    found = left(other, LANES)
    assert found["near"] == []
    assert {at for low, high in found["far"] for at in range(low, high + 1)} == wanted


def test_what_was_exported_without_marks_begins_at_the_cursor(marked: Path, tmp_path: Path) -> None:
    head, _, _, *rest = exported(marked)
    assert left(imported(tmp_path / "other", [head | {"version": 1}, *rest]), LANES) == AGAIN


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=examples(40),
)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30), st.integers(0, 9)), max_size=12),
    st.integers(1, 32),
    st.integers(0, 32),
)
def test_whatever_was_acked(
    tmp_path_factory: pytest.TempPathFactory, acks: list[tuple[int, int, int]], first: int, more: int
) -> None:
    """Against a set of positions for each lane."""
    path = tmp_path_factory.mktemp("logs")
    model = {lane: set(range(1, 31)) for lane in LANES}
    log = Log(LogOptions(str(path / "log"), 1024, 64), QuickDisk())
    marks = log.part([[lane] for lane in LANES])
    for _ in range(10):
        put(log, b"x" * 100, count=3, tag=b"t")
    for lane, low, size in acks:
        marks[lane].ack(low, min(low + size, 30))
        model[LANES[lane]] -= set(range(low, low + size + 1))
    log.close()
    lines = exported(path / "log", "--from", str(first), "--to", str(first + more))
    found = left(imported(path / "other", lines), LANES)
    for name, lacks in model.items():
        assert {at for low, high in found[name] for at in range(low, high + 1)} == lacks & set(
            range(first, first + more + 1)
        )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": "mark", "name": "far", "low": 3, "ranges": []}, ":4: there is a mark of 'far' already"),
        ({"kind": "mark", "name": "odd", "low": 31, "ranges": []}, ":4: low, ranges and durable do not fit together"),
        ({"kind": "mark", "name": "odd", "low": 3, "ranges": [[4, 5]]}, ":4: low, ranges and durable do not fit"),
        ({"kind": "mark", "name": "odd", "low": 3, "ranges": [[29, 31]]}, ":4: low, ranges and durable do not fit"),
        ({"kind": "mark", "name": "odd", "low": 3}, ":4: Object missing required field `ranges`"),
    ],
)
def test_a_mark_that_cannot_be_is_named(marked: Path, tmp_path: Path, wrong: dict[str, object], words: str) -> None:
    lines = exported(marked)
    lines.insert(3, wrong)
    with pytest.raises(AssertionError, match=f"jsonl{words}"):
        imported(tmp_path / "other", lines)
    lines.remove(wrong)
    lines[1], lines[3] = lines[3], lines[1]
    with pytest.raises(AssertionError, match=":3: marks come before all records"):
        imported(tmp_path / "other", lines)
    assert not (tmp_path / "other").exists()


def test_a_slot_that_says_more_than_the_cursor_is_not_exported(marked: Path) -> None:
    """As a start takes the older slot, and gives no lane less than it lacks."""
    cursor = (marked / "cursor").read_bytes()
    log = Log(LogOptions(str(marked)), QuickDisk())
    near, far = log.part([[lane] for lane in LANES])
    put(log, b"later")
    near.ack(31, 31)
    far.ack(5, 6)
    checkpoint(log)
    log.close()
    (marked / "cursor").write_bytes(cursor)
    for chunk in sorted(marked.glob("*.wal"))[-1:]:
        chunk.unlink()
    lines = exported(marked)
    assert [(line["name"], line["low"]) for line in lines[1:3]] == [("near", 30), ("far", 4)]
    assert left(marked, LANES) == {"near": [], "far": [(5, 30)]}


def test_of_two_logs_each_keeps_its_marks(marked: Path, tmp_path: Path) -> None:
    """What repair moves to a directory of its own."""
    (marked / "meta").unlink()
    other = tmp_path / "other"
    log = Log(LogOptions(str(other), 1024, 64), QuickDisk())
    put(log, *[b"x" * 900] * 40)
    log.close()
    (chunk,) = sorted(other.glob("*.wal"))[-1:]
    chunk.rename(marked / chunk.name)
    said = run("repair", marked, "--yes", "--keep", log.uuid)
    assert said.exit_code == 0, said.output
    (moved,) = (marked / "quarantine").glob("log-*")
    assert left(moved, LANES) == {"near": [], "far": [(5, 30)]}


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
