"""`walflow frontier`: what an operator says of a sink that was refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from tests.cli.wal_tools import append, inventory, left
from tests.wal.tools import QuickDisk, checkpoint
from walflow.cli import app
from walflow.disk import RealDisk
from walflow.exit_codes import EX_USAGE
from walflow.frontier import Confirmed, Frontier, KeptFrontiers, RefusedOpening, WriterKeys
from walflow.wal import Log, LogOptions
from walflow.wal.tools.inspect import look

SINK = "main::near"


def run(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(app(), ["frontier", command, *map(str, arguments)], env={"COLUMNS": "200"})


def kept(path: Path) -> KeptFrontiers:
    return KeptFrontiers(RealDisk(), str(path))


def terms(path: Path) -> dict[int, tuple[int, int]]:
    return {chunk.salt: (chunk.first, chunk.last) for chunk in look(str(path)).chunks}


def had(path: Path, highest: int, *, forgotten: int = 0) -> Frontier:
    """Of a table that has the positions above `forgotten`, up to `highest`."""
    ranges = {
        term: [(max(first, forgotten + 1), min(last, highest))]
        for term, (first, last) in terms(path).items()
        if first <= highest and last > forgotten
    }
    term = next(term for term, (first, last) in terms(path).items() if first <= highest <= last)
    return Frontier(epoch=1, token="t", highest=highest, term=term, forgotten=forgotten, ranges=ranges)


@pytest.fixture
def refused(marked: Path) -> Callable[[RefusedOpening | None], Path]:
    """The table had confirmed all 30 events."""

    def write(refusal: RefusedOpening | None) -> Path:
        keys = WriterKeys(("t",), 2, Confirmed(30, 1), refusal=refusal)
        kept(marked).write(SINK, keys)
        return marked

    return write


def test_a_table_that_is_empty_gets_all_that_the_log_has(refused: Callable[[RefusedOpening], Path]) -> None:
    path = refused(RefusedOpening("receiver", "the table went back", None))
    before = left(path, ["near", "far"])
    assert before == {"near": [], "far": [(5, 30)]}
    said = f"{SINK}: the log sends 30 events: 0 are in the table already, 30 are new\n"
    dry = run("accept", path, SINK, "--resend", "--dry-run")
    assert (dry.exit_code, dry.output) == (0, said)
    assert left(path, ["near", "far"]) == before
    assert run("accept", path, SINK, "--resend").output == f"{said}it goes on once walflow starts again\n"
    assert left(path, ["near", "far"]) == {"near": [(1, 30)], "far": [(5, 30)]}
    assert kept(path).read(SINK).accepts == "resend"


def test_what_the_table_has_is_counted_as_known_and_what_it_forgot_is_not_sent(
    refused: Callable[[RefusedOpening], Path], marked: Path
) -> None:
    path = refused(RefusedOpening("receiver", "the table went back", had(marked, 20, forgotten=12)))
    known = json.loads(run("accept", path, SINK, "--resend", "--json").output)
    assert known == {"sink": SINK, "done": True, "known": 8, "new": 10, "lost": 0}
    assert left(path, ["near", "far"]) == {"near": [(13, 30)], "far": [(5, 30)]}
    assert run("accept", path, SINK, "--resend").exit_code == 0, "said twice, it is the same"
    assert left(path, ["near", "far"]) == {"near": [(13, 30)], "far": [(5, 30)]}


def test_keep_sends_nothing_again(refused: Callable[[RefusedOpening], Path], marked: Path) -> None:
    path = refused(RefusedOpening("receiver", "the table went back", had(marked, 20)))
    known = json.loads(run("accept", path, SINK, "--keep", "--json").output)
    assert known == {"sink": SINK, "done": True, "known": 0, "new": 0, "lost": 10}
    assert left(path, ["near", "far"])["near"] == []


def test_a_log_with_one_lane_goes_back_by_its_cursor(path: Path) -> None:
    refusal = RefusedOpening("receiver", "the table went back", None)
    kept(path).write(SINK, WriterKeys(("t",), 2, Confirmed(4, 1), refusal=refusal))
    assert left(path, ["near"]) == {"near": [(5, 30)]}
    first = min(first for first, _ in terms(path).values())
    assert run("accept", path, SINK, "--resend").exit_code == 0
    assert left(path, ["near"]) == {"near": [(first, 30)]}


def test_other_sinks_keep_their_marks_in_a_log_that_was_not_closed(tmp_path: Path) -> None:
    """With `sync = "interval"` recovery skips positions that may have been used: no mark may speak of them."""
    path = tmp_path / "log"
    log = Log(LogOptions(str(path), 1024, 64, sync="interval"), QuickDisk())
    near, _, far = log.part([["near"], ["away"], ["far"]])
    for number in range(1, 10):
        append(log, b'{"n":%d}' % number)
    for lane in (near, far):
        lane.ack(1, 9)
    checkpoint(log)
    log.abandon()
    refusal = RefusedOpening("receiver", "the table went back", None)
    kept(path).write(SINK, WriterKeys(("t",), 2, Confirmed(9, 1), refusal=refusal))
    before = left(path, ["near", "away", "far"])
    assert run("accept", path, SINK, "--resend").exit_code == 0
    after = left(path, ["near", "away", "far"])
    assert after["near"][0] == (1, 9)
    assert after["far"] == before["far"]


@pytest.mark.parametrize(
    ("refusal", "options", "words"),
    [
        (None, ("--resend",), "was not refused: start walflow once, so that it reads what the table has"),
        (RefusedOpening("receiver", "it went back", None), (), "it went back; say --resend or --keep"),
        (
            RefusedOpening("log", "it went back", None),
            ("--keep",),
            "it went back; --resend and --keep are for a table that went back",
        ),
        (
            RefusedOpening("neither", "another writes", None),
            (),
            "another writes; stop it, then `walflow frontier take`",
        ),
    ],
)
def test_what_has_no_meaning_is_told_and_changes_nothing(
    refused: Callable[[RefusedOpening | None], Path],
    refusal: RefusedOpening | None,
    options: tuple[str, ...],
    words: str,
) -> None:
    path = refused(refusal)
    before = inventory(path)
    result = run("accept", path, SINK, *options)
    assert result.exit_code == 1
    assert result.output.endswith(f"{words}\n")
    assert inventory(path) == before


def test_both_ways_at_once(refused: Callable[[RefusedOpening], Path]) -> None:
    path = refused(RefusedOpening("receiver", "it went back", None))
    assert run("accept", path, SINK, "--resend", "--keep").exit_code == EX_USAGE


def test_a_sink_gets_another_name(refused: Callable[[None], Path]) -> None:
    path = refused(None)
    result = run("move", path, SINK, "main::table")
    assert (result.exit_code, result.output) == (
        0,
        f"main::table goes on where {SINK} was, once walflow starts again\n",
    )
    assert kept(path).names() == ["main::table"]
    assert kept(path).read("main::table").moved_from == SINK
    assert left(path, ["table", "far"]) == {"table": [], "far": [(5, 30)]}
    assert run("move", path, SINK, "main::table").exit_code == 1


def test_a_move_that_a_crash_ended_is_ended_by_the_next(refused: Callable[[None], Path]) -> None:
    path = refused(None)
    keys = kept(path).read(SINK)
    kept(path).write("main::table", replace(keys, moved_from=SINK))
    assert run("move", path, SINK, "main::table").exit_code == 0
    assert kept(path).names() == ["main::table"]


def test_a_name_that_is_taken_is_told(refused: Callable[[None], Path]) -> None:
    path = refused(None)
    kept(path).write("main::table", WriterKeys())
    result = run("move", path, SINK, "main::table")
    assert (result.exit_code, result.output) == (1, f"walflow: {path} keeps something of main::table already\n")


def test_what_it_keeps_is_shown_with_the_refusal(refused: Callable[[RefusedOpening], Path]) -> None:
    path = refused(RefusedOpening("receiver", "the table went back", None))
    assert run("show", path).output == f"{SINK}: confirmed up to position 30, run 2; refused: the table went back\n"
    run("take", path, SINK)
    assert json.loads(run("show", path, "--json").output) == {
        SINK: {"confirmed": 30, "run": 2, "refused": "the table went back", "accepts": None, "takes": True}
    }


def test_a_log_that_a_daemon_has_is_left_to_it(path: Path, held: Log) -> None:
    kept(path).write(SINK, WriterKeys())
    for command, more in (("accept", []), ("take", []), ("move", ["main::table"])):
        assert run(command, path, SINK, *more).exit_code == 75
