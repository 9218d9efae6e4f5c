"""Runs slices, and notes each in the ledger when it ends."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.nightly import units as plugin
from tests.nightly.choice import Slice
from tests.nightly.git import Git
from tests.nightly.ledger import FAILED, PASSED, Entry, Ledger
from tests.nightly.units import PASSES, Outcome, Unit

RAN = (0, 1)  # pytest's exit codes: all passed; some failed. Of any other, what it did not reach is not known
NOTHING = 5  # began before the deadline


class Run:
    """`jobs`: processes of a slice. `deadline`: seconds since 1970, after which no test begins. `failed`: a slice, or
    more."""

    def __init__(self, root: Path, ledger: Ledger, save: Callable[[], None], jobs: int) -> None:
        self._root = root
        self._ledger = ledger
        self.save = save
        self._jobs = jobs
        self.deadline: float | None = None
        self.failed = False

    def slice(self, one: Slice) -> dict[str, Outcome]:
        """By test file."""
        file = self._root / ".nightly.outcomes.tmp"
        file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", plugin.__name__, "--outcomes", str(file)]
        if self.deadline is not None:
            command += ["--deadline", str(self.deadline)]
        command += [*PASSES[one.of].command(self._jobs), *one.targets]
        child = subprocess.Popen(command, cwd=self._root)
        try:
            code = child.wait()
        except BaseException:  # Ctrl-C went to it too; a SIGTERM came to us alone
            child.terminate()
            child.wait()
            raise
        self.failed |= code not in ((0, NOTHING) if self.deadline is not None else (0,))
        if code not in RAN or not file.exists():
            return {}
        outcomes = msgspec.json.decode(file.read_bytes(), type=dict[str, Outcome])
        file.unlink()
        return outcomes

    def note(
        self,
        units: Sequence[Unit],
        outcomes: Mapping[str, Outcome],
        counts: Mapping[Unit, int],
        digests: Mapping[Unit, str],
    ) -> list[Unit]:
        """Those that are not whole: some of their tests did not run. `digests`: of units whose files did not change
        meanwhile."""
        git = Git(self._root)
        commit, clean, now = git.head(), git.is_clean(), datetime.now(UTC).isoformat(timespec="seconds")
        short: list[Unit] = []
        for unit in units:
            outcome = outcomes.get(unit.file, Outcome())
            whole = outcome.passed + outcome.skipped == counts[unit]
            if outcome.failed == 0 and not (whole and unit in digests):
                short.append(unit)
                continue
            said = FAILED if outcome.failed else PASSED
            entry = Entry(
                outcome=said,
                commit=commit,
                clean=clean,
                when=now,
                seconds=round(outcome.seconds, 1),
                tests=counts[unit],
                skipped=outcome.skipped,
                digest=digests.get(unit, ""),
            )
            self._ledger.note(unit, entry)
        self.save()
        return short
