"""Slices, with a real pytest, on three test files; killed in the middle; and what a deadline leaves out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.nightly.choice import Slice
from tests.nightly.ledger import Ledger
from tests.nightly.run import Run
from tests.nightly.units import PASSES, Unit, units

HERE = Path(__file__).parents[2]
FILES = {
    "test_one.py": (
        "import pytest\npytestmark = pytest.mark.nightly\ndef test_a(): ...\ndef test_b(): pytest.skip('no')\n"
    ),
    "test_two.py": "import pytest, pathlib\npytestmark = pytest.mark.nightly\n"
    "def test_a(): pathlib.Path(__file__).with_name('ran').open('a').write('x')\n",
    "test_three.py": "import pytest\npytestmark = pytest.mark.nightly\ndef test_a(): assert False\n",
}
ONE, TWO, THREE = (Unit("rest", name) for name in FILES)
COUNTS = {ONE: 2, TWO: 1, THREE: 1}
DIGESTS = dict.fromkeys(COUNTS, "d")


def checkout(root: Path) -> Path:
    """With our rules of tiers."""
    (root / "tests").symlink_to(HERE / "tests")
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    (root / "pyproject.toml").write_text(
        '[tool.pytest]\nmarkers = ["nightly: a", "alone: b", "spark: c", "soak: d"]\npythonpath = ["."]\n'
        f"testpaths = {list(FILES)}\n"
    )
    (root / "conftest.py").write_text("from tests.conftest import *\n")
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "first"]
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    subprocess.run(["git", *commit], cwd=root, check=True)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return checkout(tmp_path)


def run_of(root: Path, ledger: Ledger, jobs: int = 0) -> Run:
    """Without processes beside pytest's own, which take a second each to start."""
    return Run(root, ledger, lambda: ledger.save(root / "ledger.json"), jobs)


def one_slice(*some: Unit) -> Slice:
    return Slice("rest", tuple(unit.file for unit in some), some)


def test_each_file_has_an_outcome_of_its_own(root: Path) -> None:
    run = run_of(root, Ledger(), jobs=2)
    outcomes = run.slice(one_slice(ONE, TWO, THREE))
    assert run.note([ONE, TWO, THREE], outcomes, COUNTS, DIGESTS) == []
    assert run.failed
    known = Ledger.load(root / "ledger.json").entries
    assert {name: (one.outcome, one.tests, one.skipped) for name, one in known.items()} == {
        "rest test_one.py": ("passed", 2, 1),
        "rest test_two.py": ("passed", 1, 0),
        "rest test_three.py": ("failed", 1, 0),
    }


def test_what_changed_while_it_ran_or_is_short_of_a_test_has_not_passed(root: Path) -> None:
    run = run_of(root, ledger := Ledger())
    outcomes = run.slice(one_slice(ONE, TWO))
    assert run.note([ONE, TWO], outcomes, COUNTS | {ONE: 3}, {ONE: "d"}) == [ONE, TWO]
    assert ledger.entries == {}
    assert not run.failed


def test_after_the_deadline_no_test_begins_and_that_is_no_failure(root: Path) -> None:
    run = run_of(root, Ledger())
    run.deadline = time.time()
    outcomes = run.slice(one_slice(TWO, THREE))
    assert run.note([TWO, THREE], outcomes, COUNTS, DIGESTS) == [TWO, THREE]
    assert not run.failed
    assert not (root / "ran").exists()


KINDS = """
import pytest
from hypothesis import given, strategies

@pytest.mark.nightly
@pytest.mark.alone
def test_alone(): ...
@pytest.mark.alone
def test_of_a_push(): ...
@pytest.mark.nightly
@pytest.mark.parametrize("number", [1, 2])
def test_rest(number): ...
@given(strategies.integers())
def test_property(number): ...
@pytest.mark.nightly
@given(strategies.integers())
def test_property_at_night(number): ...
@pytest.mark.spark
def test_spark(): ...
@pytest.mark.soak
def test_soak(): ...
"""


def test_the_units_are_what_the_options_choose(root: Path) -> None:
    (root / "test_one.py").write_text(KINDS)
    found = units(root)
    assert found == {Unit(of, "test_one.py"): 3 if of == "rest" else 1 for of in PASSES} | {TWO: 1, THREE: 1}
    for one in PASSES.values():
        command = [sys.executable, "-m", "pytest", *one.options, "--collect-only", "-q", "test_one.py"]
        said = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout
        assert said.count("::") == found[Unit(one.name, "test_one.py")], one.name


KILLED = """
import sys, time
from pathlib import Path
from tests.nightly.ledger import Ledger
from tests.nightly.test_run import COUNTS, DIGESTS, ONE, THREE, TWO, one_slice, run_of

root = Path(sys.argv[1])
run = run_of(root, ledger := Ledger.load(root / "ledger.json"))
for unit in (ONE, TWO):
    if ledger.has_passed(unit, "d"):
        print("passed before", unit.file, flush=True)
        continue
    outcomes = run.slice(one_slice(unit))
    if unit == TWO and len(sys.argv) > 2:
        print("in the middle", flush=True)
        time.sleep(600)
    run.note([unit], outcomes, COUNTS, DIGESTS)
"""


def test_killed_in_the_middle_it_goes_on_with_the_slice_it_was_at(root: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(root)]
    with subprocess.Popen([*command, "wait"], cwd=HERE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        while (line := child.stdout.readline()) != "in the middle\n":
            assert line, "it ended"
        os.kill(child.pid, signal.SIGKILL)
    assert [*Ledger.load(root / "ledger.json").entries] == ["rest test_one.py"]
    said = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.startswith("passed before test_one.py\n")
    assert [*Ledger.load(root / "ledger.json").entries] == ["rest test_one.py", "rest test_two.py"]
    assert (root / "ran").read_text() == "xx"
