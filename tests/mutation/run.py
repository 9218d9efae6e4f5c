"""Tries mutants, each in a process that is forked from one that has pytest loaded."""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Self

import msgspec

from tests.mutation.reach import Reached
from tests.mutation.results import Result, Results, digest
from tests.mutation.rows import ROOT, Row
from tests.mutation.tree import Tree, module

FIRST_SECONDS: Final = 3.0
FIRST_TESTS: Final = 40


class Wrong(Exception):
    """Nothing can be said of any mutant."""


class Bench:
    """One copy of the source and the process that runs tests in it."""

    def __init__(self, root: Path) -> None:
        self._tree = Tree(root)
        command = [sys.executable, "-m", "tests.mutation.server"]
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(
            command,
            cwd=root,
            env=self._tree.environment(),
            stdin=pipe,
            stdout=pipe,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def run(self, row: Row | None, tests: list[str], limits: dict[str, float]) -> Result:
        """`row` None: the source as it is."""
        if row is None:
            self._tree.restore()
        else:
            self._tree.mutate(row)
        mark, name = (row.key, module(row.file)) if row is not None else ("", "")
        request = {"mark": mark, "module": name, "tests": tests, "limits": limits}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline() or '{"wrong": "the server died"}')
        if "wrong" in answer:
            raise Wrong(f"{mark}: {answer['wrong']}")
        return Result(answer.get("red", ""), answer.get("hangs", False))


class Run:
    def __init__(self, results: Results, jobs: int, tests: Sequence[str], seconds: float) -> None:
        """`seconds` of tests for each mutant, those it survived before not counted; 0: all that reach it."""
        self._results = results
        self._jobs = jobs
        self._tests = tests
        self._seconds = seconds
        self._bitten: dict[str, Counter[str]] = {}  # by file, which tests have killed how many
        for key, result in results.rows.items():
            self._count(key.split(" ")[0], result.killed)

    def _count(self, file: str, test: str) -> None:
        if test:
            self._bitten.setdefault(file, Counter())[test] += 1

    def reach(self) -> None:
        """Brings up to date which test reaches what. Raises Wrong where a test is red without any mutant."""
        now = {file: digest(file) for file in files_of(self._tests)}
        old = self._results.tests
        changed = [file for file in now if old.get(file) != now[file]]
        self._results.reached = {
            file: found for file, found in self._results.reached.items() if file in now and old.get(file) == now[file]
        }
        red: list[str] = []
        if changed:
            found, red = _reach(changed)
            self._results.reached |= found
        self._results.tests = {file: now[file] for file in now if file in self._results.reached}
        if red:
            raise Wrong(f"red without any mutant: {', '.join(red)}")

    def all(self, rows: list[Row], tick: Callable[[Row], None]) -> None:
        """`tick` is told of each as it is done."""
        benches: SimpleQueue[Bench] = SimpleQueue()
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder, ThreadPoolExecutor(self._jobs) as pool:
            made = [Bench(_folder(folder, number)) for number in range(self._jobs)]
            try:
                for bench in made:
                    benches.put(bench)
                self._share_out(rows, pool, benches, tick)
            finally:
                for bench in made:
                    bench.__exit__()

    def _share_out(
        self, rows: list[Row], pool: ThreadPoolExecutor, benches: SimpleQueue[Bench], tick: Callable[[Row], None]
    ) -> None:
        waiting = rows[::-1]
        running: dict[Future[Result], Row] = {}
        while waiting or running:
            while waiting and len(running) < self._jobs:
                row = waiting.pop()
                running[pool.submit(self._with_a_bench, benches, row)] = row
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                row = running.pop(future)
                self._results.rows[row.key] = result = future.result()
                self._count(row.file, result.killed)
                tick(row)

    def _with_a_bench(self, benches: SimpleQueue[Bench], row: Row) -> Result:
        bench = benches.get()
        try:
            return self._try(bench, row)
        finally:
            benches.put(bench)

    def _try(self, bench: Bench, row: Row) -> Result:
        started = time.monotonic()
        tests = self._ordered(row)
        result = Result()
        done: list[str] = []
        for some in self._batches(tests):
            done += some
            result = bench.run(row, some, {test: self._results.limit(test) for test in some})
            if result.killed:
                break
        result.seconds = round(time.monotonic() - started, 1)
        if not result.killed:
            result.tried = self._results.survived(row, done)
        return result

    def _ordered(self, row: Row) -> list[str]:
        """What killed it before, what bit in the same file, the tests that mirror it, power cuts, the quick ones."""
        bitten = self._bitten.get(row.file, Counter())
        hint = self._results.hints.get(row.key, "").split("[")[0]
        mirror = f"test_{Path(row.file).stem}.py"
        return sorted(
            self._results.new_tests(row),
            key=lambda test: (test.split("[")[0] != hint, -bitten[test], mirror not in test, "bites.py" not in test),
        )

    def _batches(self, tests: list[str]) -> list[list[str]]:
        """A few first, for a run begins with the import of all files that its tests are in."""
        first = last = 0
        seconds = 0.0
        while last < len(tests) and (not self._seconds or seconds < self._seconds):
            first += seconds < FIRST_SECONDS and last < FIRST_TESTS
            seconds += self._results.seconds(tests[last])
            last += 1
        return [some for some in (tests[:first], tests[first:last]) if some]


def _folder(folder: str, number: int) -> Path:
    path = Path(folder, str(number))
    path.mkdir()
    return path


def files_of(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        path = ROOT / name
        found += [name] if path.is_file() else [str(file.relative_to(ROOT)) for file in path.rglob("test_*.py")]
    return sorted(found)


def _reach(files: list[str]) -> tuple[dict[str, Reached], list[str]]:
    """And the tests that are red; nothing is known of the files they are in."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Tree(Path(folder, "tree"))
        output = Path(folder, "reach.json")
        command = [sys.executable, "-m", "tests.mutation.reach", str(output), *files]
        done = subprocess.run(
            command, cwd=tree.root, env=tree.environment(), capture_output=True, text=True, check=False
        )
        if not output.exists():
            raise Wrong(f"the tests do not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        found, red = msgspec.json.decode(output.read_bytes(), type=tuple[dict[str, Reached], list[str]])
    known = {file: found.get(file, Reached()) for file in files}
    bad = {test.split("::")[0] for test in red}
    return {file: reached for file, reached in known.items() if file not in bad}, red
