"""What is known so far, kept in a file: a run that is interrupted goes on from there."""

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from tests.mutation.reach import Reached
from tests.mutation.rows import ROOT, Row, targets

UNREACHED: Final = "no test reaches it"


class Result(msgspec.Struct):
    """`killed`: by which test. `tried`: the tests that a survivor has survived, by the digest of the
    file that they are in."""

    killed: str = ""
    hangs: bool = False
    seconds: float = 0.0
    tried: dict[str, list[str]] = {}


class Results(msgspec.Struct):
    """`sources`: digests of what is mutated. `tests`: digests of the files of tests that `reached` is about.
    `hints`: what killed a row of a source that is another one now."""

    sources: dict[str, str] = {}
    tests: dict[str, str] = {}
    reached: dict[str, Reached] = {}
    rows: dict[str, Result] = {}
    hints: dict[str, str] = {}

    @classmethod
    def load(cls, path: str) -> "Results":
        try:
            return msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except FileNotFoundError:
            return cls()

    def save(self, path: str) -> None:
        Path(f"{path}.tmp").write_bytes(msgspec.json.encode(self))
        os.rename(f"{path}.tmp", path)

    def forget_old(self) -> None:
        """What was found of a source that is another one now. Lines have moved then, so no reach holds."""
        now = {file: digest(file) for file in targets()}
        changed = {file for file in now if self.sources.get(file) != now[file]}
        old = {key: result for key, result in self.rows.items() if key.split(" ")[0] in changed}
        self.rows = {key: result for key, result in self.rows.items() if key not in old}
        self.hints |= {key: result.killed for key, result in old.items() if result.killed}
        if changed:
            self.tests, self.reached = {}, {}
        self.sources = now

    def waits(self, row: Row) -> bool:
        result = self.rows.get(row.key)
        return result is None or (not result.killed and bool(self.new_tests(row)))

    def new_tests(self, row: Row) -> list[str]:
        """Those that reach it and that it has not survived yet, quick ones first."""
        result = self.rows.get(row.key, Result())
        found: dict[str, float] = {}
        for file, reached in self.reached.items():
            lines, tests = reached.lines.get(row.file, {}), list(reached.seconds.items())
            for line in range(row.line, row.last + 1):
                found.update(tests[number] for number in lines.get(line, ()))
            for test in result.tried.get(self.tests[file], ()):
                found.pop(test, None)
        return sorted(found, key=lambda test: found[test])

    def seconds(self, test: str) -> float:
        return self.reached[test.split("::")[0]].seconds[test]

    def survived(self, row: Row, tests: list[str]) -> dict[str, list[str]]:
        """With what it had survived before."""
        known = {now: list(tests) for now, tests in self.rows.get(row.key, Result()).tried.items()}
        for test in tests:
            known.setdefault(self.tests[test.split("::")[0]], []).append(test)
        return known

    def limit(self, test: str) -> float:
        """Seconds from which on it hangs, on a machine that has other things to do too."""
        return 20 + 20 * self.seconds(test)


def digest(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]
