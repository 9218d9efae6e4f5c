"""The table misses nothing, what is explained is still there, and the command finds what it is to find."""

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation.reach import TESTS
from tests.mutation.results import Results
from tests.mutation.rows import ASSERTED, ROOT, SHOWN, STREAM, SYSTEM, Row, table, targets
from tests.mutation.run import Bench, Wrong, files_of
from tests.mutation.survivors import explained, stale
from walflow.disk import Disk
from walflow.wal.directory import Directory

pytestmark = pytest.mark.test  # it reads all of the engine, and changes with it alone


def test_every_module_of_the_engine_is_in_it() -> None:
    engine = {str(path.relative_to(ROOT)) for path in ROOT.glob("walflow/wal/**/*.py")}
    assert len(engine) > 20
    sidecar = {f"connectors/file/{name}.py" for name in ("sidecar", "checksum", "recovery", "appended_file")}
    sent = (
        "lane",
        "source",
        "ahead",
        "known_arrivals",
        "recalled_events",
        "sender",
        "failed_parts",
        "sink_record",
        "writer",
    )
    delivery = {f"walflow/delivery/{name}.py" for name in sent}
    outcomes = {f"walflow/{name}.py" for name in ("receipt", "nodes/rejects", "nodes/fanout")}
    rule = {"walflow/outage.py", "walflow/sinks/job_engine.py"}
    assert set(targets()) - engine == {"walflow/durable.py", *sidecar, *delivery, *outcomes, *rule}
    assert engine < set(targets())


def test_what_mirrors_a_changed_file_is_run() -> None:
    """A mutant lives if the tests of its own file are not run."""
    run = {ROOT / file for file in files_of(TESTS)}
    mirrors = [
        found
        for file in targets()
        for found in (ROOT / "tests").rglob(f"test_{Path(file).stem}.py")
        if found.relative_to(ROOT / "tests").parts[:-1] == Path(file).parts[1:-1]
    ]
    assert {str(each.relative_to(ROOT)) for each in mirrors if each not in run} == set()
    assert len(mirrors) > 20


@pytest.mark.parametrize("file", targets())
def test_every_comparison_and_every_call_of_a_disk_has_a_row(file: str) -> None:
    names = {name for kind in (Disk, Directory) for name, _ in inspect.getmembers(kind, inspect.isfunction)}
    names -= {
        "__init__",
        "__repr__",
        "__subclasshook__",
        "file",
        "unusable",
        "newer",
        "cannot_open",
        "_no_init_or_replace_init",
    }
    names -= {
        "_no_directory",
        "_check",
        "_failed",
        "_stop",
        "_proto_hook",
        "_permit",
        "refused",
    }  # they only say what happened
    # locks: walflow/lock.py, which has tests of its own; and what says that a read has failed
    names -= {"_hold", "_locked", "cannot_read", "check_place", "release"}
    comparisons = calls = 0
    for node in ast.walk(ast.parse((ROOT / file).read_bytes())):
        if isinstance(node, ast.Compare):
            comparisons += len(node.ops)
        elif isinstance(node, ast.Call):
            calls += getattr(node.func, "attr", getattr(node.func, "id", "")) in names
    rows = table([file])
    assert len({row.start for row in rows if row.kind == "comparison"}) == comparisons
    assert len({(row.line, row.what) for row in rows if row.kind == "call"}) == calls


def test_a_row_is_left_out_for_a_reason() -> None:
    left_out = [row for row in table() if row.reason]
    assert len(left_out) < 40
    assert {row.reason for row in left_out} <= {ASSERTED, SHOWN, STREAM, SYSTEM}
    for row in left_out:
        if row.reason == SYSTEM:
            assert row.what.startswith("os.")


def test_each_is_another_program() -> None:
    rows = table()
    assert len({row.key for row in rows}) == len(rows) > 800
    for file in targets():
        waiting = table([file])
        source = (ROOT / file).read_bytes()
        assert all(row.applied(source) != source for row in waiting)
        while waiting:  # parsed together, as far as they do not overlap: there are a thousand
            mutant, start = source, len(source) + 1
            for row in sorted(waiting, key=lambda row: row.start, reverse=True):
                if row.end < start:
                    mutant, start = row.applied(mutant), row.start
                    waiting.remove(row)
            ast.parse(mutant)


def test_what_is_explained_is_still_there() -> None:
    assert stale(table()) == []
    assert all(why.strip() for why in explained().values())


def the(key: str) -> Row:
    (found,) = [row for row in table([key.split(" ")[0]]) if row.key == key]
    return found


FIXED = [
    (
        "walflow/wal/commit.py Commit.flush: self._directory.sync(part.chunk.name, fd) -> nothing",
        "tests/wal/test_commit.py::test_new_files_are_synced_one_by_one_and_their_names_once",
    ),
    (
        'walflow/wal/cursor.py Checkpoint.flush: self._directory.sync("cursor", self._fd) -> nothing',
        "tests/wal/test_cursor.py::test_the_cursor_is_on_disk_before_a_chunk_goes",
    ),
    (
        "walflow/wal/quarantine.py Quarantine.move: self._disk.sync_directory(self._folder) -> nothing",
        "tests/wal/test_quarantine.py::test_what_is_moved_is_here_or_there_whenever_the_power_goes",
    ),
    (
        "walflow/wal/cursor.py Acked.covers: last <= self.low -> <",
        "tests/wal/test_cursor.py::test_acked_is_a_set_of_positions",
    ),
    (
        "connectors/file/sidecar.py Sidecar.sync: self._disk.sync(self._lock.fd) -> nothing",
        "tests/mutation/bites.py::test_a_story_of_the_sidecar[0]",
    ),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Without a mutant they are all green."""
    with Bench(tmp_path_factory.mktemp("tree")) as bench:
        assert bench.run(None, [test for _, test in FIXED], {}).killed == ""
        yield bench


@pytest.mark.parametrize(("key", "test"), FIXED)
def test_it_turns_a_test_red(bench: Bench, key: str, test: str) -> None:
    assert bench.run(the(key), [test], {}).killed.startswith(test)


def test_the_test_must_have_imported_the_mutant(bench: Bench) -> None:
    with pytest.raises(Wrong, match="was not the one of this mutant"):
        bench.run(the(FIXED[-1][0]), ["tests/wal/test_format.py"], {})


def mutation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutation", "--only", "cursor.py Acked.covers", *arguments]
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_what_lives_is_named_and_the_command_goes_on_where_it_ended(tmp_path: Path) -> None:
    state = str(tmp_path / "state.json")
    first = mutation("--state", state, "--tests", "tests/test_positions.py", "--limit", "1")
    assert (first.returncode, first.stderr) == (1, "")
    (key,) = Results.load(state).rows
    assert f"lives, and nothing explains it: {key}" in first.stdout
    second = mutation("--state", state, "--tests", "tests/wal/test_cursor.py")
    assert (second.returncode, second.stderr) == (0, "")
    rows = Results.load(state).rows
    assert key in rows
    assert len(rows) == 2
    assert all(result.killed.startswith("tests/wal/test_cursor.py::") for result in rows.values())
