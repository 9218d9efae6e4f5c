"""What a change touches, in which order, and what has no time: in the small tree of test_tree.py."""

from pathlib import Path

import pytest

from tests.nightly.choice import Change, Slice, fitting, mirrors, slices, touched
from tests.nightly.ledger import Entry, Ledger
from tests.nightly.test_tree import made
from tests.nightly.tree import Tree
from tests.nightly.units import Unit

PARSER = Unit("rest", "tests/lang/test_parser.py")
EVENT = Unit("full", "tests/test_event.py")
RUN = Unit("rest", "tests/test_run.py")
SPARK = Unit("spark", "tests/test_text.py")
UNITS = [PARSER, EVENT, RUN, SPARK]
LEXER = frozenset({"walflow/lang/tokens.py"})
NOTHING: frozenset[str] = frozenset()


def entry(digest: str, outcome: str = "passed", seconds: float = 1.0) -> Entry:
    return Entry(outcome, "a" * 40, True, "2026-01-01T00:00:00+00:00", seconds, 3, 0, digest)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree.read(made(tmp_path))


@pytest.fixture
def ledger(tree: Tree) -> Ledger:
    """All have passed on what they reach."""
    return Ledger({str(unit): entry(tree.digest(unit.file)) for unit in UNITS})


def test_nothing_changed(tree: Tree, ledger: Ledger) -> None:
    assert touched(UNITS, tree, ledger, Change(NOTHING, {})) == []


def test_what_passed_on_the_same_contents_is_not_touched_by_what_changed_before(tree: Tree, ledger: Ledger) -> None:
    assert touched(UNITS, tree, ledger, Change(LEXER, {PARSER: LEXER})) == []


def test_the_nearest_comes_first(tree: Tree, ledger: Ledger) -> None:
    for unit in UNITS:
        ledger.entries[str(unit)].digest = "another"
    changed = frozenset({"walflow/event.py", "walflow/lang/parser.py"})
    found = touched(UNITS, tree, ledger, Change(NOTHING, dict.fromkeys(UNITS, changed)))
    assert [one.unit for one in found][:2] == [EVENT, PARSER]
    assert [one.near for one in found] == sorted(one.near for one in found)
    assert str(found[0]) == "full tests/test_event.py (walflow/event.py)"


def test_what_changed_lately_comes_before_what_changed_long_ago(tree: Tree, ledger: Ledger) -> None:
    for unit in (PARSER, EVENT):
        ledger.entries[str(unit)].digest = "another"
    change = Change(LEXER, {PARSER: LEXER, EVENT: frozenset({"walflow/event.py"})})
    assert [one.unit for one in touched(UNITS, tree, ledger, change)] == [PARSER, EVENT]


def test_what_failed_comes_first_and_what_never_ran_is_touched(tree: Tree, ledger: Ledger) -> None:
    ledger.entries[str(SPARK)].outcome = "failed"
    del ledger.entries[str(RUN)]
    found = touched(UNITS, tree, ledger, Change(NOTHING, {}))
    assert [(one.unit, one.why) for one in found] == [
        (SPARK, "failed"),
        (RUN, "has not passed at a commit that is in this clone"),
    ]


def test_with_a_base_what_passed_before_does_not_count(tree: Tree, ledger: Ledger) -> None:
    assert [one.unit for one in touched(UNITS, tree, ledger, Change(LEXER, {}, named=True))] == [PARSER]


@pytest.mark.parametrize(
    ("changed", "is_touched"),
    [("walflow/event.py", False), ("tests/test_text.py", True), (".ci/requirements.lock", True)],
)
def test_a_test_on_spark_is_touched_by_sparks_half_alone(
    changed: str, is_touched: bool, tree: Tree, ledger: Ledger
) -> None:
    ledger.entries[str(SPARK)].digest = "another"
    found = touched(UNITS, tree, ledger, Change(NOTHING, {SPARK: frozenset({changed})}))
    assert [one.unit for one in found] == ([SPARK] if is_touched else [])


@pytest.mark.parametrize(
    ("test", "path", "mirrored"),
    [
        ("tests/wal/test_power_cut.py", "walflow/wal/log.py", True),
        ("tests/wal/test_power_cut.py", "walflow/net/peer.py", False),
        ("tests/connectors/test_file_follow.py", "connectors/file/append.py", True),
        ("tests/connectors/test_kv.py", "connectors/kv.py", True),
        ("tests/connectors/test_file_follow.py", "connectors/tcp/client.py", False),
        ("tests/connectors/spark/test_spark.py", "connectors/spark/connector.py", True),
        ("tests/test_event.py", "walflow/event.py", False),
    ],
)
def test_a_test_mirrors_a_room(test: str, path: str, mirrored: bool) -> None:
    assert mirrors(test, path) == mirrored


def test_a_slice_is_of_one_pass_and_about_a_minute(ledger: Ledger) -> None:
    for unit in UNITS:
        ledger.entries[str(unit)] = entry("", seconds=100.0)
    counts = dict.fromkeys(UNITS, 1)
    assert [one.units for one in slices(UNITS, ledger, counts, 1)] == [(PARSER,), (EVENT,), (RUN,), (SPARK,)]
    assert [one.units for one in slices(UNITS, ledger, counts, 3)] == [(PARSER, RUN), (EVENT,), (SPARK,)]


def test_what_takes_longer_than_is_left_does_not_begin(ledger: Ledger) -> None:
    ledger.entries[str(PARSER)] = entry("", seconds=100.0)
    one = Slice("rest", (PARSER.file, RUN.file), (PARSER, RUN))
    assert fitting(one, ledger, 2, 61.0) == one
    assert fitting(one, ledger, 2, 55.0) == Slice("rest", (RUN.file,), (RUN,))
    assert fitting(one, ledger, 2, 9.0) is None
