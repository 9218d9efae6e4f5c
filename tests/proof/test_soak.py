"""The command that goes on cutting the power, and its ledger."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.proof.ledger import Ledger, Row

HERE = Path(__file__).parents[2]


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.proof.soak", *arguments]
    environment = os.environ | {"COLUMNS": "160", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_it_goes_on_where_it_ended_and_prints_a_ledger(tmp_path: Path) -> None:
    state = tmp_path / "ledger.json"
    arguments = ("--minutes", "0.02", "--state", str(state), "--only", "generated", "--jobs", "2")
    first = soak(*arguments)
    assert (first.returncode, first.stderr) == (0, "")
    before = Ledger.load(str(state))
    assert before.next["generated"] == before.total.runs > 0
    second = soak(*arguments)
    assert second.returncode == 0
    after = Ledger.load(str(state))
    assert after.total.runs == after.next["generated"] > before.next["generated"], "no story twice"
    assert after.total.distinct > before.total.distinct > 100
    assert after.seconds > before.seconds > 0
    for figure in ("0 promises broken", f"{after.total.distinct:,}", "garbled", "in the recovery after that"):
        assert figure in second.stdout
    assert sum(after.total.kinds.values()) == sum(after.total.depths.values()) == after.total.distinct


@pytest.mark.nightly
def test_one_story_again() -> None:
    done = soak("--only", "sidecar", "--seed", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert "distinct=" in done.stdout


@pytest.mark.nightly
def test_a_broken_promise_ends_it(tmp_path: Path) -> None:
    state = tmp_path / "ledger.json"
    done = soak("--minutes", "1", "--state", str(state), "--also", "tests.proof.broken", "--only", "broken")
    assert done.returncode == 1
    assert "promised events are gone" in done.stdout
    assert "again: --only broken --seed" in done.stdout
    assert json.loads(state.read_bytes())["broken"]
    again = soak("--minutes", "1", "--state", str(state), "--also", "tests.proof.broken")
    assert again.returncode == 1, "it does not go on as if nothing had been"


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_proved_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    state = tmp_path / "ledger.json"
    command = [sys.executable, "-m", "tests.proof.soak", "--minutes", "9", "--state", str(state)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=HERE, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        while not Ledger.load(str(state)).total.runs:
            time.sleep(0.05)  # until it has saved a story
            assert process.poll() is None
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.terminate()
        output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert "the same command goes on from here" in output
    assert Ledger.load(str(state)).total.runs > 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [(("--only", "nothing"), "there is no 'nothing'"), (("--state", __file__), "is no ledger")],
)
def test_what_it_cannot_do(arguments: tuple[str, ...], line: str) -> None:
    done = soak("--minutes", "0", *arguments)
    assert done.returncode == 2
    assert line in done.stderr


def test_rows_add_up() -> None:
    total = Row(runs=1, distinct=3, kinds={"torn": 3})
    total.add(Row(runs=2, distinct=4, kinds={"torn": 1, "size": 3}))
    assert (total.runs, total.distinct, total.kinds) == (3, 7, {"torn": 4, "size": 3})
