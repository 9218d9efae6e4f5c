"""Option `hosts`: many daemons in one query."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.fetch import forget
from pyspark_walflow.many import ManyBatchReader, ManyReader, Offsets, RangeOf
from pyspark_walflow.older_spark import ReadMaxRows
from pyspark_walflow.options import Options
from pyspark_walflow.progress import sources_of
from tests.pyspark_walflow.conftest import NewLake
from tests.pyspark_walflow.lake import Lake, ids, numbered
from tests.pyspark_walflow.queries import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = ReadMaxRows(100)


@pytest.fixture(autouse=True)
def _no_connection_is_kept() -> Iterator[None]:
    yield
    forget()


class Edges:
    """Two daemons with one token."""

    def __init__(self, new_lake: NewLake) -> None:
        self.lakes = [new_lake(config='"token": "s3cret-s3cret-s3cret-s3cret"') for _ in range(2)]
        for lake in self.lakes:
            (lake.state / "token").write_text("s3cret-s3cret-s3cret-s3cret")
        self.token = str(self.lakes[0].state / "token")

    def options(self, *lakes: Lake) -> dict[str, str]:
        hosts = ",".join(f"127.0.0.1:{lake.port}" for lake in lakes or self.lakes)
        return {"hosts": hosts, "tokenFile": self.token, "retrySeconds": "1", "pollMs": "200"}

    def reader(self, *lakes: Lake) -> ManyReader:
        return ManyReader(Options.each(self.options(*lakes)))


@pytest.fixture
def edges(new_lake: NewLake) -> Edges:
    return Edges(new_lake)


def places(offsets: Offsets, edges: Edges) -> list[object]:
    """Positions, by daemon; None: it has none."""
    found = (offsets.get(f"127.0.0.1:{lake.port}") for lake in edges.lakes)
    return [None if one is None else one["position"] for one in found]


def rows(reader: ManyReader | ManyBatchReader, ranges: list[RangeOf]) -> list[tuple[str, int]]:
    """Log and position of each."""
    found: list[tuple[str, int]] = []
    for one in ranges:
        for batch in reader.read(one):
            found += [(str(row["log"]), row["position"]) for row in batch.to_pylist()]
    return sorted(found)


def test_the_others_go_on_while_one_is_away(edges: Edges, capfd: pytest.CaptureFixture[str]) -> None:
    here, there = edges.lakes
    for lake in edges.lakes:
        lake.send(*numbered(5))
    reader = edges.reader()
    start = reader.initialOffset()
    first = reader.latestOffset(start, LIMIT)
    assert places(first, edges) == [6, 6]
    assert len(rows(reader, reader.partitions(start, first))) == 10
    there.kill()
    here.send(*numbered(5, 5))
    second = reader.latestOffset(first, LIMIT)
    assert places(second, edges) == [11, 6]
    assert "its daemon is away" in capfd.readouterr().err
    assert [position for _, position in rows(reader, reader.partitions(first, second))] == [6, 7, 8, 9, 10]
    reader.commit(second)
    assert here.head()["committed"] == 11
    reader.stop()


def test_a_daemon_is_added_and_another_is_left_out(edges: Edges) -> None:
    here, there = edges.lakes
    for lake in edges.lakes:
        lake.send(*numbered(5))
    alone = edges.reader(here)
    start = alone.latestOffset(alone.initialOffset(), LIMIT)
    assert places(start, edges) == [6, None]
    alone.commit(start)
    alone.stop()
    both = edges.reader()
    end = both.latestOffset(start, LIMIT)
    assert places(end, edges) == [6, 6]
    assert [position for _, position in rows(both, both.partitions(start, end))] == [1, 2, 3, 4, 5]
    both.stop()
    here.send(*numbered(5, 5))
    without = edges.reader(there)
    assert places(without.latestOffset(end, LIMIT), edges) == [6, 6], "it keeps its place"
    with pytest.raises(WalflowError, match="which option hosts must name"):
        without.partitions(end, {**end, f"127.0.0.1:{here.port}": end[f"127.0.0.1:{here.port}"] | {"position": 9}})
    without.stop()


def test_one_that_was_never_reached_begins_when_it_comes(edges: Edges, capfd: pytest.CaptureFixture[str]) -> None:
    here, there = edges.lakes
    here.send(*numbered(5))
    there.kill()
    reader = edges.reader()
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    assert places(first, edges) == [6, None]
    for host in reader._asks_again:
        reader._asks_again[host] = 0
    assert places(reader.latestOffset(first, LIMIT), edges) == [6, None]
    assert capfd.readouterr().err.count("its daemon is away") == 1
    there.start()
    there.send(*numbered(3))
    for host in reader._asks_again:
        reader._asks_again[host] = 0
    assert places(reader.latestOffset(first, LIMIT), edges) == [6, 4]
    reader.stop()


def test_spark_read_takes_all_or_nothing(edges: Edges) -> None:
    for lake in edges.lakes:
        lake.send(*numbered(5))
    reader = ManyBatchReader(Options.each(edges.options(), "earliest"))
    found = rows(reader, reader.partitions())
    assert [position for _, position in found] == [1, 2, 3, 4, 5] * 2
    assert len({log for log, _ in found}) == 2
    edges.lakes[1].kill()
    with pytest.raises(WalflowError, match="no walflow listens"):
        reader.partitions()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"hosts": "a:1,b:2", "port": "3"}, "option hosts says where the logs are: leave out port"),
        ({"hosts": "a:1,a:1"}, "option hosts names a host twice"),
        ({"hosts": "a:x"}, "option port is 'x'"),
    ],
)
def test_what_is_said_wrong(given: dict[str, str], line: str) -> None:
    with pytest.raises(WalflowError, match=line):
        Options.each(given)


def test_a_writer_has_one_daemon() -> None:
    with pytest.raises(WalflowError, match=r"option hosts is for spark\.read and "):
        Options.of({"hosts": "a:1,b:2"})


def test_a_checkpoint_of_one_log_is_refused(edges: Edges) -> None:
    reader = edges.reader()
    with pytest.raises(WalflowError, match="of one log: option hosts needs a new checkpoint"):
        reader.latestOffset({"log": "x", "position": 3, "consumer": "spark"}, LIMIT)  # type: ignore[dict-item]
    reader.stop()


@pytest.mark.spark
def test_a_query_of_two_daemons_of_which_one_dies(spark: "SparkSession", edges: Edges, tmp_path: Path) -> None:
    here, there = edges.lakes
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def start() -> None:
        frame = spark.readStream.format("walflow").options(**edges.options()).load()
        writer = frame.writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
        with running(writer.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(120)
            progress = json.loads(query.lastProgress.json) if query.lastProgress else {}
            assert all(source.lag == 0 for source in sources_of(progress))

    for lake, first in ((here, 0), (there, 1000)):
        lake.send(*numbered(50, first))
    start()
    there.kill()
    here.send(*numbered(50, 50))
    start()
    there.start()
    there.send(*numbered(50, 1050))
    start()
    found = spark.read.parquet(table)
    assert sorted(ids(found.collect())) == [*range(100), *range(1000, 1100)]
    assert found.select("log", "position").distinct().count() == 200
    assert [lake.head()["committed"] for lake in edges.lakes] == [101, 101]
