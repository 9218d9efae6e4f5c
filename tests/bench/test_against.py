"""An older checkout beside this one: whose walflow runs, what is compared, and how it ends.
No test looks at a speed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.against import QUICK, Comparison, rows
from demo.server import ROOT

MOMENT = ("--rounds", "1", "--seconds", "0.3", "--warmup", "0", "--only", "roundrobin")

in_git = pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="wants git and a checkout (apt install git)"
)


def git(repository: Path, *arguments: str) -> str:
    identity = {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | identity)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """This checkout as it stands, with one commit that has a walflow that only says who it is."""
    repository = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--shared", str(ROOT), str(repository))
    for folder in ("bench", "demo"):
        shutil.copytree(ROOT / folder, repository / folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
    main = repository / "walflow" / "__main__.py"
    good = main.read_text()
    main.write_text("raise SystemExit('the older one speaks')\n")
    git(repository, "commit", "--quiet", "--all", "--message", "older")
    git(repository, "tag", "silent")
    main.write_text(good)
    git(repository, "commit", "--quiet", "--all", "--message", "this")
    return repository


def against(repository: Path, revision: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "--against", revision, *MOMENT, *options]
    environment = os.environ | {"PYTHONPATH": str(repository)}
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.nightly
@in_git
def test_both_are_measured_and_the_worktree_goes(clone: Path) -> None:
    done = against(clone, "HEAD", "--floor", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "walflow: wal, then a round robin of three and echo" in done.stdout
    assert "this ÷ that" in done.stdout
    assert len(git(clone, "worktree", "list").splitlines()) == 1
    assert not (clone / "bench" / ".work").exists()


@pytest.mark.nightly
@in_git
def test_a_row_below_the_floor_ends_it_with_1(clone: Path) -> None:
    done = against(clone, "HEAD", "--floor", "1000")
    assert done.returncode == 1
    assert "below 1000" in done.stdout


@pytest.mark.nightly
@in_git
def test_it_is_the_older_one_that_runs(clone: Path) -> None:
    done = against(clone, "silent")
    assert done.returncode == 1
    assert "the older one failed" in done.stdout
    assert "the older one speaks" in done.stdout
    assert "not measured" in done.stdout


@in_git
def test_a_revision_that_is_none_is_said_in_a_line(clone: Path) -> None:
    done = against(clone, "no-such-revision")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("no-such-revision: git worktree add: ")
    assert len(done.stdout.splitlines()) == 1


def test_the_median_of_the_pairs_decides() -> None:
    row = Comparison("a row", "events_per_second")
    for before, now in ((100, 50), (100, 96), (100, 300)):
        row.pairs.append(({"events_per_second": before}, {"events_per_second": now}))
    assert row.ratios == [0.5, 0.96, 3.0]
    assert not row.is_below(0.95)
    assert row.is_below(0.97)


def test_less_is_better_where_it_is_time() -> None:
    row = Comparison("a row", "p50_us", [({"p50_us": 200.0}, {"p50_us": 100.0})])
    assert row.ratios == [2.0]


def test_a_row_that_was_not_measured_is_below_any_floor() -> None:
    assert Comparison("a row", "p50_us", missing="this one failed").is_below(0)


def test_the_quick_rows_and_those_that_are_asked_for() -> None:
    assert [case.key for case in rows("")] == [key for key in [case.key for case in rows("walflow")] if key in QUICK]
    assert len(rows("")) == len(QUICK)
    assert {case.key for case in rows("latency")} == {
        "latency-echo", "latency-plain", "latency-crowd", "latency-crowd-plain"
    }  # fmt: skip
    assert rows("rsyslog") == []


def test_rows_are_chosen_by_their_keys_or_by_a_part_of_their_names() -> None:
    assert [case.key for case in rows("echo,plain")] == ["echo", "plain"]
    assert {case.key for case in rows("")} == set(QUICK)
    assert "patch" in {case.key for case in rows("`patch`")}
