"""What Spark 4.0 and 4.1 call, in the order in which they do; without a JVM."""

from collections.abc import Iterator

import pytest

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.fetch import forget
from pyspark_walflow.older_reader import WRAPPER, OlderStreamReader
from pyspark_walflow.reader import Offset
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.reads import options


@pytest.fixture(autouse=True)
def _no_connection_is_kept() -> Iterator[None]:
    yield
    forget()


class Query:
    """A start of a query. `begin`: of a new checkpoint; `go_on`: behind the last offset that Spark has written."""

    def __init__(self, lake: Lake, **more: str) -> None:
        self.reader = OlderStreamReader(options(lake, maxRowsPerBatch="10", **more))

    def begin(self) -> tuple[Offset, Offset]:
        latest = self.reader.latestOffset()
        start = self.reader.initialOffset()
        self.reader.partitions(start, latest)
        return start, latest

    def go_on(self, last: Offset) -> Offset:
        assert self.reader.partitions(last, last) == []
        return self.reader.latestOffset()

    def ends(self, first: Offset, *, batches: int) -> list[object]:
        """Of so many batches, run and committed, from the one that ends at `first`."""
        found, end = [first["position"]], first
        for _ in range(batches - 1):
            latest = self.reader.latestOffset()
            self.reader.commit(end)
            self.reader.partitions(end, latest)
            found.append(latest["position"])
            end = latest
        return found


def test_a_batch_is_bounded_behind_the_first(lake: Lake) -> None:
    lake.send(*numbered(25))
    query = Query(lake)
    start, first = query.begin()
    assert (start["position"], first["position"]) == (1, 26), "it may be all that availableNow asks for"
    lake.send(*numbered(25, 25))
    assert query.ends(first, batches=4) == [26, 36, 46, 51]
    assert query.reader.latestOffset()["position"] == 51
    assert lake.head()["committed"] == 46
    query.reader.stop()


def test_the_first_one_is_too_where_it_is_said(lake: Lake) -> None:
    lake.send(*numbered(25))
    query = Query(lake, firstBatch="bounded")
    start, first = query.begin()
    assert (start["position"], query.ends(first, batches=3)) == (1, [11, 21, 26])
    query.reader.stop()
    lake.send(*numbered(15, 25))
    again = Query(lake, firstBatch="bounded")
    assert again.ends(again.go_on(first | {"position": 26}), batches=2) == [36, 41]
    again.reader.stop()


def test_a_start_goes_on_behind_what_was_written(lake: Lake) -> None:
    lake.send(*numbered(5))
    query = Query(lake)
    _, first = query.begin()
    query.reader.stop()
    lake.send(*numbered(25, 5))
    again = Query(lake)
    latest = again.go_on(first)
    assert (latest["position"], latest["scan"]) == (31, first["scan"])
    assert again.reader.latestOffset() == latest, "nothing new"
    again.reader.commit(first)
    assert lake.head()["committed"] == 6
    again.reader.stop()


@pytest.mark.parametrize("bounded", [False, True], ids=["all", "bounded"])
def test_a_batch_that_is_done_again_may_end_a_run_and_that_is_told(
    lake: Lake, capfd: pytest.CaptureFixture[str], bounded: bool
) -> None:
    """`bounded`: it is said that availableNow does not run."""
    lake.send(*numbered(5))
    query = Query(lake)
    start, first = query.begin()
    query.reader.stop()
    assert "again" not in capfd.readouterr().err, "it is new"
    lake.send(*numbered(5, 5))
    again = Query(lake, firstBatch="bounded" if bounded else "all")
    again.reader.partitions(first, first)
    again.reader.partitions(start, first)
    told = f"'spark' again, positions 1 to 5. A run of availableNow ends behind it, unless {WRAPPER} is true"
    assert (told in capfd.readouterr().err) is not bounded
    assert again.reader.latestOffset()["position"] == 11
    again.reader.stop()


def test_with_sparks_wrapper_a_run_has_its_end_before_a_batch_is_done_again(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.send(*numbered(5))
    query = Query(lake)
    start, first = query.begin()
    query.reader.stop()
    lake.send(*numbered(15, 5))
    again = Query(lake)
    until = again.reader.latestOffset()
    assert until["position"] == 21
    again.reader.partitions(first, first)
    again.reader.partitions(start, first)
    assert "again" not in capfd.readouterr().err
    assert again.reader.latestOffset() == until
    assert [(part.first, part.end) for part in again.reader.partitions(first, until)] == [(6, 21)]
    again.reader.stop()


def test_no_answer_is_below_what_was_planned(lake: Lake) -> None:
    lake.send(*numbered(5))
    query = Query(lake, startingPosition="latest")
    latest = query.reader.latestOffset()
    lake.send(*numbered(5, 5))
    assert query.reader.initialOffset()["position"] == 6, "what came meanwhile is read"
    query.reader.partitions(latest, latest | {"position": 9})
    assert query.reader.latestOffset()["position"] == 11
    query.reader.stop()


def test_a_daemon_that_is_away_fails_the_first_question_and_then_has_nothing_new(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.send(*numbered(5))
    query = Query(lake, retrySeconds="1")
    _, first = query.begin()
    lake.kill()
    assert query.reader.latestOffset() == first
    assert "its daemon is away" in capfd.readouterr().err
    with pytest.raises(WalflowError, match="no walflow listens"):
        Query(lake, retrySeconds="1").go_on(first)


def test_another_checkpoint_is_refused_when_spark_asks_for_a_beginning(lake: Lake) -> None:
    lake.send(*numbered(5))
    query = Query(lake)
    start, first = query.begin()
    query.reader.commit(first)
    query.reader.stop()
    other = Query(lake)
    assert other.reader.latestOffset()["scan"] == start["scan"], "not known to be another one"
    with pytest.raises(WalflowError, match="belongs to another checkpoint, which committed all below 6 "):
        other.reader.initialOffset()
    other.reader.stop()
    lake.send(*numbered(5, 5))
    accepted = Query(lake, newCheckpoint="accept")
    begun, latest = accepted.begin()
    assert begun["scan"] == latest["scan"] != start["scan"]
    accepted.reader.commit(latest)
    accepted.reader.stop()
    overtaken = Query(lake)
    with pytest.raises(WalflowError, match="belongs to another checkpoint, which committed all below 11 "):
        overtaken.go_on(first)
    overtaken.reader.stop()


def test_a_checkpoint_that_committed_nothing_keeps_its_place(lake: Lake) -> None:
    """As one whose driver died in its first batch, under a Spark that asks for the latest offset before all else."""
    lake.send(*numbered(5))
    query = Query(lake)
    start, first = query.begin()
    query.reader.stop()
    again = Query(lake)
    latest = again.reader.latestOffset()
    assert latest["scan"] != start["scan"], "the daemon knows of none"
    again.reader.partitions(first, first)
    lake.send(*numbered(5, 5))
    later = again.reader.latestOffset()
    again.reader.commit(first)
    again.reader.partitions(first, later)
    again.reader.commit(later)
    again.reader.stop()
    assert lake.head()["committed"] == 11
    third = Query(lake)
    assert third.go_on(later) == later
    third.reader.stop()


def test_the_offset_says_how_far_the_log_was(lake: Lake) -> None:
    lake.send(*numbered(25))
    query = Query(lake, firstBatch="bounded")
    _, first = query.begin()
    assert (first["position"], first["next"]) == (11, 26)
    query.reader.stop()
