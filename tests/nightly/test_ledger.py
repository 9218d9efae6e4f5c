"""The ledger: what counts as passed, and that it outlives whoever is killed while it is written."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.nightly.ledger import Entry, Ledger
from tests.nightly.units import Unit

UNIT = Unit("rest", "tests/wal/test_power_cut.py")


def entry(when: str = "2026-01-02T00:00:00+00:00", outcome: str = "passed", digest: str = "d") -> Entry:
    return Entry(outcome, "a" * 40, True, when, 1.0, 3, 0, digest)


@pytest.mark.parametrize(
    ("known", "begun", "has_passed"),
    [
        (entry(), "", True),
        (entry(digest="another"), "", False),
        (entry(outcome="failed"), "", False),
        (entry(), "2026-01-03T00:00:00+00:00", False),
        (None, "", False),
    ],
)
def test_what_counts_as_passed(known: Entry | None, begun: str, has_passed: bool) -> None:
    ledger = Ledger({str(UNIT): known} if known else {}, begun)
    assert ledger.has_passed(UNIT, "d") == has_passed


def test_it_is_a_line_a_unit_between_runs(tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    assert Ledger.load(file) == Ledger()
    ledger = Ledger({"rest b": entry(), "full a": entry(outcome="failed")}, "2026", {"rest c": "abc"})
    ledger.save(file)
    assert Ledger.load(file) == ledger
    assert len(file.read_text().splitlines()) == 4
    file.write_text("[]")
    with pytest.raises(msgspec.MsgspecError):
        Ledger.load(file)


def test_of_the_committed_one_and_this_checkouts_the_newest_counts() -> None:
    mine = Ledger({"rest a": entry("2026-02"), "rest b": entry("2026-01")}, "2026")
    recorded = Ledger({"rest a": entry("2026-01"), "rest b": entry("2026-02"), "rest c": entry("2026-01")})
    both = mine.with_recorded(recorded)
    assert {name: one.when for name, one in both.entries.items()} == {
        "rest a": "2026-02",
        "rest b": "2026-02",
        "rest c": "2026-01",
    }
    assert both.begun == "2026"


def test_what_passes_is_no_longer_left_out() -> None:
    ledger = Ledger(left_out={str(UNIT): "abc"})
    ledger.note(UNIT, entry(outcome="failed"))
    assert ledger.left_out
    ledger.note(UNIT, entry())
    assert not ledger.left_out


SAVES = """
import sys
from pathlib import Path
from tests.nightly.ledger import Entry, Ledger

ledger, number = Ledger(), 0
print("begun", flush=True)
while True:
    ledger.entries[f"rest tests/{number}"] = Entry("passed", "a" * 40, True, "2026", 1.0, 3, 0, "d")
    number += 1
    ledger.save(Path(sys.argv[1]))
"""


def test_a_kill_while_it_is_written_leaves_a_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    for _ in range(5):
        file.unlink(missing_ok=True)
        with subprocess.Popen([sys.executable, "-c", SAVES, file], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            while not file.exists():
                assert child.poll() is None
            time.sleep(Random().random() / 10)
            child.send_signal(signal.SIGKILL)
        names = list(Ledger.load(file).entries)
        assert sorted(names) == sorted(f"rest tests/{number}" for number in range(len(names)))
        assert names
