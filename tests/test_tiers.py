"""Each test has one tier, and a test that leaks or that starts a process unseen fails itself and no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import cannot_match

ROOT = Path(__file__).parents[1]

SAMPLE = """
import asyncio, functools, os, subprocess
import pytest

from tests.tiers import cannot_match
from tests.system.daemon import running
from walflow import Receipt

def starts(): subprocess.run(["true"])

@pytest.fixture
def process(): starts()

class World:
    def run(self): starts()

async def test_async(): ...
@pytest.mark.both_loops
async def test_async_on_both(): ...
def test_plain(): ...
def test_names_it(): subprocess.run(["true"])
def test_by_a_helper(): [starts() for _ in "a"]
def test_by_a_fixture(process): ...
@pytest.mark.parametrize("by", [starts])
def test_by_a_parameter(by): ...
def test_by_a_partial(): functools.partial(starts)()
def test_by_a_method(): World().run()
def test_by_a_module_of_ours(): running
@pytest.mark.alone
def test_alone(): ...
@pytest.mark.test
def test_marked(): ...
@pytest.mark.test
def test_unlike_its_marked_twin(process): ...
@pytest.mark.test
@pytest.mark.spark
def test_smoke(): ...
@pytest.mark.spark
def test_spark(): ...
@pytest.mark.nightly
async def test_long(): ...
@pytest.mark.soak
@pytest.mark.nightly
def test_soak(): ...
"""

TIERS = {
    "quick": ["async", "async_on_both[asyncio]", "async_on_both[uvloop]", "plain"],
    "test": [
        "names_it", "by_a_helper", "by_a_fixture", "by_a_parameter[starts]", "by_a_partial", "by_a_method",
        "by_a_module_of_ours", "alone", "marked", "unlike_its_marked_twin", "smoke",
    ],
    "nightly": ["async[asyncio]", "spark", "long[asyncio]", "long[uvloop]"],
}  # fmt: skip


def pytest_of(source: str, directory: Path, *options: str) -> list[str]:
    """What pytest says of it with the rules of these tests, line by line."""
    path = directory / "test_sample.py"
    path.write_text(source)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", str(path), *options]
    wide = {**os.environ, "COLUMNS": "1000"}
    done = subprocess.run(command, cwd=ROOT, env=wide, capture_output=True, text=True, check=False)
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


@pytest.mark.parametrize("tier", TIERS)
def test_each_test_has_one_tier(tier: str, tmp_path: Path) -> None:
    said = pytest_of(SAMPLE, tmp_path, "--collect-only", "--quiet", "--tier", tier)
    found = [line.partition("::test_")[2] for line in said if "::" in line]
    assert sorted(found) == sorted(TIERS[tier])


LEAK = """
from walflow import Receipt

def test_leaks():
    circle = [Receipt(lambda receipt: None, 10)]
    circle.append(circle)

def test_does_not(): ...
"""


def test_a_receipt_that_is_leaked_fails_the_test_that_leaked_it(tmp_path: Path) -> None:
    said = pytest_of(LEAK, tmp_path, "-rA", "--tb=short")
    failed = [line for line in said if line.startswith(("ERROR", "FAILED"))]
    assert len(failed) == 1
    assert "test_leaks" in failed[0]
    assert any("a receipt of 10 events was collected unsettled" in line for line in said)
    assert any(line.startswith("PASSED") and line.endswith("::test_does_not") for line in said)


UNSEEN = """
import os

def test_starts():
    getattr(os, "sys" + "tem")("true")

def test_does_not(): ...
"""


def test_a_quick_test_that_starts_a_process_unseen_fails_and_names_the_mark(tmp_path: Path) -> None:
    said = pytest_of(UNSEEN, tmp_path, "-rA")
    failed = [line for line in said if line.startswith(("ERROR", "FAILED"))]
    assert len(failed) == 1, said
    assert "::test_starts - Failed: this test starts a process: mark it @pytest.mark.test" in failed[0]
    assert any(line.startswith("PASSED") and line.endswith("::test_does_not") for line in said)


HIDDEN = """
import pytest

from tests.tiers import cannot_match

@getattr(pytest.mark, "al" + "one")
def test_alone(): ...
"""


def test_a_mark_by_which_files_are_left_out_is_in_the_file(tmp_path: Path) -> None:
    said = pytest_of(HIDDEN, tmp_path)
    assert any("::test_alone is marked alone, which its file does not say" in line for line in said), said


@pytest.mark.parametrize(
    ("expression", "left_out"),
    [("alone", False), ("not alone and spark", False), ("hypothesis and not alone", True), ("not hypothesis", False)],
)
def test_files_that_have_nothing_of_a_mark_are_left_out(expression: str, left_out: bool, tmp_path: Path) -> None:
    file = tmp_path / "test_sample.py"
    file.write_text(SAMPLE)
    assert cannot_match(file, expression) == left_out
