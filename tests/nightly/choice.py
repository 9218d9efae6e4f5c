"""What runs, in which order, in which slices. Plain functions: nothing here runs or reads anything."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from tests.nightly.ledger import FAILED, Ledger
from tests.nightly.tree import COMMON, Tree
from tests.nightly.units import PASSES, Unit

START_SECONDS: Final = 10.0  # of a pytest and its processes
SLICE_SECONDS: Final = 60.0  # what who is killed loses, about
FAR: Final = 99  # steps: what changed is not known, or is what all tests depend on

# A test on Spark takes ten seconds, reaches the whole daemon, and proves what the two say to each other. What else
# changes in the daemon is proved without a JVM.
OF_SPARK: Final = (
    "pyspark_walflow/",
    "connectors/spark/",
    "walflow/compile/",
    "walflow/plan/on_spark.py",
    "walflow/plan/second_host.py",
    "walflow/wal/format",
    "walflow_kernel/",
    "tests/",
)

# Of the time that there is, for SMOKE, which comes last: what a change touches says more.
SMOKE_SHARE: Final = 1 / 6

# One test of each kind that only nightly has, whatever a change touches: each build sees that the kind works.
SMOKE: Final = {
    "alone": ("tests/faults/test_no_space.py::test_work_stops_and_resumes[EFBIG-64 KiB]",),
    "rest": (
        "tests/wal/test_power_cut.py::test_the_power_may_be_cut_at_any_operation[Repair-range(0, 6)-150]",
        "tests/faults/test_kill_at_syscall.py::test_a_daemon_that_ends_at_its_call[fsync]",
        "tests/docs/test_site.py::test_flows_are_coloured",
    ),
    "full": ("tests/wal/test_marks.py",),
    "spark": ("tests/pyspark_walflow/test_writer.py::test_a_batch_write_has_all_types",),
}


class Touched(NamedTuple):
    """`near`: how many steps the nearest changed file is away. `why`: that file, or why there is none."""

    unit: Unit
    near: int
    why: str

    def __str__(self) -> str:
        return f"{self.unit} ({self.why})"


class Slice(NamedTuple):
    """One run of pytest. `targets`: files, or single tests, which say nothing of their unit: then `units` is
    empty."""

    of: str
    targets: tuple[str, ...]
    units: tuple[Unit, ...]


class Change(NamedTuple):
    """What differs. `recent`: from a base that was named, or from yesterday; it says what comes first. `since`: by
    unit, from the commit at which it ran, where that is in the clone. `named`: there was a base, and nothing else
    counts."""

    recent: AbstractSet[str]
    since: Mapping[Unit, AbstractSet[str]]
    named: bool = False


def touched(units: Iterable[Unit], tree: Tree, ledger: Ledger, change: Change) -> list[Touched]:
    """What failed last comes first, then what is nearest to the latest change, then to an older one; of those as
    near, the quick."""
    found: list[tuple[tuple[float, ...], Touched]] = []
    for unit in units:
        lately, path = nearest(unit, tree, change.recent)
        one = Touched(unit, lately, path)
        if not change.named:
            if ledger.has_passed(unit, tree.digest(unit.file)):
                continue
            if (entry := ledger.entries.get(str(unit))) is not None and entry.outcome == FAILED:
                one, lately = Touched(unit, 0, "failed"), -1
            elif lately == FAR:
                one = _earlier(unit, tree, change)
        if one.why:
            found.append(((lately, one.near, seconds(unit, ledger, 1)), one))
    return [one for _, one in sorted(found)]


def _earlier(unit: Unit, tree: Tree, change: Change) -> Touched:
    if (since := change.since.get(unit)) is None:
        return Touched(unit, FAR, "has not passed at a commit that is in this clone")
    near, path = nearest(unit, tree, since)
    if near == FAR and (unit.of != "spark" or since & COMMON):
        path = " or ".join(sorted(since & COMMON)) or "passed on other contents"
    return Touched(unit, near, path)


def nearest(unit: Unit, tree: Tree, changed: AbstractSet[str]) -> tuple[int, str]:
    """How far the nearest of the changed files that it reaches is, and which. A file of the room that the test
    mirrors is next to it."""
    reached = tree.reached(unit.file)
    best = (FAR, "")
    for path in changed & reached.keys():
        if unit.of == "spark" and not path.startswith(OF_SPARK):
            continue
        steps = 1 if reached[path] and mirrors(unit.file, path) else reached[path]
        best = min(best, (steps, path))
    return best


def mirrors(test: str, path: str) -> bool:
    """tests/wal/test_power_cut.py is about walflow/wal, tests/connectors/test_file_follow.py about
    connectors/file."""
    here, there = PurePosixPath(test), PurePosixPath(path)
    room = here.parent.parts[1:]
    parts = there.parts[1:] if there.parts[0] == "walflow" else there.parts
    if not room or parts[: len(room)] != room:
        return False
    subject = here.stem.split("_")[1:2]
    return room != ("connectors",) or [PurePosixPath(part).stem for part in parts[1:2]] == subject


def seconds(unit: Unit, ledger: Ledger, count: int) -> float:
    """What its tests take, one after the other: what they took, or else a guess."""
    entry = ledger.entries.get(str(unit))
    return entry.seconds if entry is not None else count * PASSES[unit.of].guess


def slices(units: Sequence[Unit], ledger: Ledger, counts: Mapping[Unit, int], jobs: int) -> list[Slice]:
    """In order of the first unit of each."""
    open_: dict[str, list[Unit]] = {}
    spent: dict[str, float] = {}
    done: list[list[Unit]] = []
    for unit in units:
        group = open_.setdefault(unit.of, [])
        if not group:
            done.append(group)
        group.append(unit)
        spent[unit.of] = spent.get(unit.of, 0.0) + seconds(unit, ledger, counts[unit]) / PASSES[unit.of].at_once(jobs)
        if spent[unit.of] >= SLICE_SECONDS:
            del open_[unit.of], spent[unit.of]
    return [Slice(group[0].of, tuple(unit.file for unit in group), tuple(group)) for group in done]


def fitting(one: Slice, ledger: Ledger, jobs: int, left: float) -> Slice | None:
    """Without the units that are known to take longer than what is left. What never ran is begun, and ends at the
    deadline."""
    room = (left - START_SECONDS) * PASSES[one.of].at_once(jobs)
    kept: list[Unit] = []
    for unit in one.units:
        entry = ledger.entries.get(str(unit))
        takes = entry.seconds if entry is not None else 0.0
        if room > 0 and takes <= room:
            room -= takes
            kept.append(unit)
    return Slice(one.of, tuple(unit.file for unit in kept), tuple(kept)) if kept else None


def smoke() -> Iterator[Slice]:
    for name, tests in SMOKE.items():
        if tests:
            yield Slice(name, tests, ())
