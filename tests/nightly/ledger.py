"""Which unit ran when, at which commit, on which contents, and what became of it. It is a file between runs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import msgspec
from rich.table import Table

from tests.nightly.units import Unit

PASSED: Final = "passed"
FAILED: Final = "failed"


class Entry(msgspec.Struct):
    """`digest`: of all files that the unit reaches (tree.Tree.digest). `clean`: nothing was uncommitted. `seconds`:
    of all its tests, one after the other."""

    outcome: str
    commit: str
    clean: bool
    when: str  # ISO 8601, UTC
    seconds: float
    tests: int
    skipped: int
    digest: str


class Ledger(msgspec.Struct):
    """`begun`: what is older does not count (`--fresh`). `left_out`: by unit, the commit at which a build had no time
    for it."""

    entries: dict[str, Entry] = {}
    begun: str = ""
    left_out: dict[str, str] = {}

    @classmethod
    def load(cls, path: Path) -> Self:
        """An empty one where there is no file. Raises OSError, or msgspec.MsgspecError: it is something else."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return cls()

    def save(self, path: Path) -> None:
        """A line a unit, so that git can merge it."""
        entries = ",\n".join(f"{_json(name)}: {_json(self.entries[name])}" for name in sorted(self.entries))
        rest = f'"begun": {_json(self.begun)}, "left_out": {_json(self.left_out)}'
        new = path.with_name(f"{path.name}.tmp")
        new.write_text(f'{{"entries": {{\n{entries}\n}}, {rest}}}\n', encoding="utf-8")
        os.replace(new, path)

    def with_recorded(self, recorded: "Ledger") -> "Ledger":
        """What the committed one knows and this one does not."""
        entries = dict(recorded.entries)
        for name, entry in self.entries.items():
            if name not in entries or entry.when >= entries[name].when:
                entries[name] = entry
        return Ledger(entries, self.begun, self.left_out)

    def has_passed(self, unit: Unit, digest: str) -> bool:
        """On these very contents."""
        entry = self.entries.get(str(unit))
        if entry is None or entry.when < self.begun:
            return False
        return entry.outcome == PASSED and entry.digest == digest

    def passed(self) -> dict[str, Entry]:
        return {name: entry for name, entry in self.entries.items() if entry.outcome == PASSED}

    def note(self, unit: Unit, entry: Entry) -> None:
        self.entries[str(unit)] = entry
        if entry.outcome == PASSED:
            self.left_out.pop(str(unit), None)

    def table(self, counts: Mapping[Unit, int], digests: Mapping[Unit, str]) -> Table:
        done = sum(self.has_passed(unit, digests[unit]) for unit in counts)
        table = Table(title=f"{done} of {len(counts)} groups of nightly tests passed on what they reach now")
        for column in ("pass", "test file"):
            table.add_column(column, overflow="fold")
        table.add_column("tests", justify="right")
        table.add_column("skipped", justify="right")
        table.add_column("seconds", justify="right")
        for column in ("outcome", "when", "commit"):
            table.add_column(column)
        for unit, tests in sorted(counts.items()):
            table.add_row(unit.of, unit.file, str(tests), *self._cells(unit, digests[unit]))
        return table

    def _cells(self, unit: Unit, digest: str) -> tuple[str, ...]:
        missing = f"left out at {self.left_out[str(unit)][:10]}" if str(unit) in self.left_out else "missing"
        if (entry := self.entries.get(str(unit))) is None:
            return "", "", missing, "", ""
        outcome = entry.outcome
        if entry.outcome == PASSED and not self.has_passed(unit, digest):
            outcome = f"{missing}, passed before a change" if entry.when >= self.begun else f"{missing} since --fresh"
        commit = entry.commit[:10] if entry.clean else f"{entry.commit[:10]} and uncommitted"
        return str(entry.skipped or ""), f"{entry.seconds:.1f}", outcome, entry.when, commit


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
