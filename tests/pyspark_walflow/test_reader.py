"""What Spark would call on the driver, without a JVM."""

import os
import pickle
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pyspark_walflow import wire
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.fetch import fetch, forget
from pyspark_walflow.planner import Unreachable
from pyspark_walflow.reader import BatchReader, Offset, StreamReader
from pyspark_walflow.wire import FrameKind
from tests.pyspark_walflow.conftest import NewLake
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.logs import Given
from tests.pyspark_walflow.reads import options, positions, wanted

OK = wire.control(FrameKind.OK, {})


@pytest.fixture(autouse=True)
def _no_connection_is_kept() -> Iterator[None]:
    yield
    forget()


@pytest.fixture
def reader(lake: Lake) -> Iterator[StreamReader]:
    reader = StreamReader(options(lake))
    yield reader
    reader.stop()


def test_what_travels_to_a_worker_has_no_socket_and_no_token(lake: Lake, reader: StreamReader) -> None:
    lake.send(*numbered(10))
    start = reader.initialOffset()
    ranges = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    token = (lake.state / "token").read_text().strip()
    shipped = pickle.dumps((reader.read, ranges))
    assert token.encode() not in shipped
    assert token not in repr(ranges)
    read, [one] = pickle.loads(shipped)
    assert positions(read(one)) == list(range(1, 11))


def test_a_range_is_cut_into_as_many_as_asked(lake: Lake) -> None:
    lake.send(*numbered(10))
    for count, expected in (("3", [(1, 4), (4, 7), (7, 11)]), ("100", [(n, n + 1) for n in range(1, 11)])):
        found = BatchReader(options(lake, numPartitions=count)).partitions()
        assert [(one.first, one.end) for one in found] == expected


def test_partitions_follow_the_bytes(new_lake: NewLake) -> None:
    lake = new_lake([Given([b"x" * 1000] * 1000, stream=number) for number in range(40)])
    batch = BatchReader(options(lake, maxPartitions="8"))
    ranges = batch.partitions()
    assert len(ranges) == 3, "40 MB by 16 MiB"
    assert positions(row for one in ranges for row in batch.read(one)) == list(range(1, 40_001))


def test_tasks_are_at_least_and_at_most_so_many(new_lake: NewLake) -> None:
    lake = new_lake([Given([b"x" * 1000] * 1000, stream=number) for number in range(40)])
    for more, count in (
        ({"maxPartitions": "2"}, 2),
        ({"minPartitions": "5", "maxPartitions": "8"}, 5),
        ({"numPartitions": "7", "maxPartitions": "2"}, 7),
        ({"maxPartitions": "8", "minPartitions": "2"}, 3),
    ):
        assert len(BatchReader(options(lake, **more)).partitions()) == count, more


def test_a_batch_waits_for_enough_rows_and_no_longer_than_it_may(lake: Lake) -> None:
    def at(reader: StreamReader, start: Offset) -> object:
        return reader.latestOffset(start, ReadMaxRows(100))["position"]

    lake.send(*numbered(10))
    patient = StreamReader(options(lake, minOffsetsPerTrigger="5", maxTriggerDelay="1h", pollMs="50"))
    start = patient.initialOffset()
    assert at(patient, start) == 11
    first = patient.latestOffset(start, ReadMaxRows(100))
    lake.send(*numbered(4, 10))
    assert patient.latestOffset(first, ReadMaxRows(100)) == first
    assert patient.latestOffset(first, ReadAllAvailable())["position"] == 15, "Trigger.Once takes what there is"
    lake.send(*numbered(1, 14))
    assert at(patient, first) == 16
    lake.send(*numbered(1, 15))
    patient.prepareForTriggerAvailableNow()
    assert at(patient, patient.latestOffset(first, ReadMaxRows(5))) == 17, "what there was must end"
    patient.stop()

    hasty = StreamReader(options(lake, minRowsPerBatch="50", maxTriggerDelay="1ms", consumer="other"))
    begin = hasty.latestOffset(hasty.initialOffset(), ReadMaxRows(100))
    lake.send(*numbered(1, 16))
    while at(hasty, begin) == begin["position"]:
        pass
    hasty.stop()


def test_a_batch_that_is_large_enough_by_its_bytes_waits_for_no_rows(new_lake: NewLake) -> None:
    lake = new_lake([Given([b"x" * 100_000] * 10, stream=number) for number in range(10)])
    reader = StreamReader(options(lake, minRowsPerBatch="1000", maxBytesPerBatch="1m", maxRowsPerBatch="1000"))
    start = reader.initialOffset()
    second = reader.latestOffset(start, ReadMaxRows(1000))
    third = reader.latestOffset(second, ReadMaxRows(1000))
    assert 1 < int(str(second["position"])) < int(str(third["position"])) < 101
    reader.stop()


def test_limits(lake: Lake, reader: StreamReader) -> None:
    lake.send(*numbered(100))
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(200_000)
    assert reader.latestOffset(start, ReadMaxRows(30))["position"] == 31
    assert reader.latestOffset(start, ReadAllAvailable())["position"] == 101
    assert 1 < int(str(reader.latestOffset(start, ReadMaxBytes(1))["position"])) <= 101
    assert reader.latestOffset(reader.reportLatestOffset(), ReadMaxRows(30)) == reader.reportLatestOffset()


def test_the_next_event_is_waited_for(lake: Lake) -> None:
    reader = StreamReader(options(lake, pollMs="10000"))
    start = reader.initialOffset()
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(reader.latestOffset(start, ReadMaxRows(10))["position"]))
    thread.start()
    lake.send(*numbered(1))
    thread.join()
    reader.stop()
    assert found == [2]


def test_a_commit_that_does_not_arrive_is_told_and_made_good(
    lake: Lake, reader: StreamReader, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.send(*numbered(10))
    start = reader.initialOffset()
    lake.kill()
    reader.commit(start | {"position": 6})
    assert (
        "walflow: position 6 is not committed now, the next commit will cover it: no walflow"
        in capfd.readouterr().err
    )
    lake.start()
    reader.commit(start | {"position": 8})
    assert lake.head()["committed"] == 8


def test_a_daemon_that_is_away_has_nothing_new(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    """Others of the same query go on."""
    reader = StreamReader(options(lake, retrySeconds="60"))
    lake.send(*numbered(10))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.reportLatestOffset() == end
    lake.kill()
    began = time.monotonic()
    for _ in range(1000):
        assert reader.latestOffset(end, ReadMaxRows(5)) == end
        said = reader.reportLatestOffset()
    assert time.monotonic() - began < 20, "it is not waited for"
    assert str(said["away"]).startswith(f"no walflow listens at {reader._options.endpoint}: ")
    assert said | {"away": ""} == end | {"away": ""}
    assert capfd.readouterr().err.count("nothing new of consumer 'spark', its daemon is away: no walflow") == 1
    lake.start()
    lake.send(*numbered(3, 10))
    while (latest := reader.latestOffset(end, ReadMaxRows(5))) == end:
        time.sleep(0.05)
    assert latest["position"] == 14
    assert reader.reportLatestOffset() == latest
    reader.stop()


def test_a_second_planner_gives_up_after_a_while_and_takes_over_from_a_dead_one(lake: Lake) -> None:
    first, second = StreamReader(options(lake)), StreamReader(options(lake, retrySeconds="1"))
    start = first.initialOffset()
    with pytest.raises(Unreachable, match=r"consumer 'spark' is planned by .* \(tried for 1 s\)$"):
        second.latestOffset(start, ReadAllAvailable())
    patient = StreamReader(options(lake, retrySeconds="30"))
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(patient.latestOffset(start, ReadAllAvailable())))
    thread.start()
    first.stop()
    thread.join()
    patient.stop()
    assert found == [start]


def test_a_second_query_is_refused_soon_and_told_of_both(lake: Lake) -> None:
    first, second = StreamReader(options(lake)), StreamReader(options(lake, retrySeconds="60"))
    first.initialOffset()
    process = rf"127\.0\.0\.1:\d+ \(process {os.getpid()} of driver {os.getppid()} on \S+\)"
    began = time.monotonic()
    with pytest.raises(Unreachable, match=rf"consumer 'spark' is read by {process} since \S+, and {process} asks"):
        second.initialOffset()
    assert time.monotonic() - began < 30, "it was not waited for as long as for a daemon"
    first.stop()
    assert second.initialOffset()["position"] == 1, "it was given back"
    second.stop()


def begun(lake: Lake, **more: str) -> tuple[StreamReader, dict[str, object]]:
    reader = StreamReader(options(lake, **more))
    return reader, reader.initialOffset()


def test_a_new_checkpoint_is_refused_where_another_one_has_committed(lake: Lake) -> None:
    lake.send(*numbered(10))
    first, start = begun(lake)
    first.commit(start | {"position": 6})
    first.stop()
    with pytest.raises(WalflowError, match=r"committed all below 6 .* leaves out numbers .*newCheckpoint"):
        begun(lake)
    lake.kill()
    lake.start()
    with pytest.raises(WalflowError, match=r"committed all below 6 "):
        begun(lake, startingPosition="earliest")
    again = StreamReader(options(lake))
    assert again.latestOffset(start | {"position": 6}, ReadAllAvailable())["position"] == 11, "the old one goes on"
    again.stop()


def test_a_new_checkpoint_that_is_accepted_begins_behind_what_its_consumer_has(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.send(*numbered(10))
    first, start = begun(lake)
    first.commit(start | {"position": 6})
    first.stop()
    second, fresh = begun(lake, newCheckpoint="accept")
    assert fresh["position"] == 6, "the log still has 1 to 5, for `other`"
    second.commit(fresh | {"position": 8})
    first.commit(start | {"position": 9})
    assert "position 9 is not committed now" in capfd.readouterr().err
    assert lake.head()["committed"] == 8, "the first one was overtaken"
    second.stop()
    first.stop()
    with pytest.raises(WalflowError, match="belongs to another checkpoint, which committed all below 8 "):
        StreamReader(options(lake)).latestOffset(start | {"position": 6}, ReadAllAvailable())
    assert lake.head()["committed"] == 8
    earliest, offset = begun(lake, newCheckpoint="accept", startingPosition="earliest")
    assert offset["position"] == 1
    earliest.stop()


def test_a_first_batch_that_is_done_again_is_of_its_checkpoint(lake: Lake) -> None:
    """Spark keeps the end of a first batch and asks for a beginning once more."""
    lake.send(*numbered(10))
    first, start = begun(lake)
    end = first.latestOffset(start, ReadAllAvailable())
    first.stop()
    second, again = begun(lake)
    assert (again["position"], again["scan"] != start["scan"]) == (1, True)
    assert [(one.first, one.end) for one in second.partitions(again, end)] == [(1, 11)]
    second.commit(end)
    second.stop()
    third = StreamReader(options(lake))
    assert third.latestOffset(end, ReadAllAvailable()) == end
    third.stop()


def test_a_checkpoint_of_before_scans_goes_on(lake: Lake, reader: StreamReader) -> None:
    lake.send(*numbered(10))
    with lake.client() as client:
        old = {"log": client.log, "position": 4, "consumer": "spark"}
    lake.commit(4, "spark")
    end = reader.latestOffset(old, ReadAllAvailable())
    assert end == old | {"position": 11}
    reader.commit(end)
    assert lake.head()["committed"] == 11


def test_available_now_asks_for_the_end_before_it_knows_its_checkpoint(lake: Lake, reader: StreamReader) -> None:
    lake.send(*numbered(10))
    reader.prepareForTriggerAvailableNow()
    lake.send(*numbered(10, 10))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(100))["position"] == 11
    with pytest.raises(Unreachable):
        begun(lake, retrySeconds="1")


def test_available_now_commits_its_last_batch(lake: Lake, reader: StreamReader) -> None:
    """Spark asks for what is behind a batch once that is in its commit log, and says `commit` only with the next."""
    lake.send(*numbered(10))
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(100))
    assert lake.head()["committed"] == 1, "no batch has run"
    assert reader.latestOffset(end, ReadMaxRows(100)) == end
    assert lake.head()["committed"] == 11


def test_a_planner_keeps_its_lease_over_a_broken_connection(lake: Lake, reader: StreamReader) -> None:
    reader.initialOffset()
    assert reader._planner is not None
    assert reader._planner._client is not None
    reader._planner._client._socket.shutdown(socket.SHUT_WR)  # the daemon may not have noticed when we come again
    reader.reportLatestOffset()


def test_another_log_at_the_same_address_is_refused(lake: Lake, reader: StreamReader) -> None:
    start = reader.initialOffset()
    log = start["log"]
    lake.kill()
    for file in lake.state.glob("*"):
        if file.name != "token":
            file.unlink()
    lake.start()
    with pytest.raises(
        WalflowError, match=rf"^this query reads log {log}, and at 127.0.0.1:\d+ there is log [0-9a-f]+"
    ):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_checkpoint_of_another_consumer_or_of_another_source_is_refused(lake: Lake, reader: StreamReader) -> None:
    start = reader.initialOffset()
    with pytest.raises(WalflowError, match=r"^the checkpoint is of consumer 'other', and option consumer is 'spark'"):
        reader.latestOffset(start | {"consumer": "other"}, ReadAllAvailable())
    with pytest.raises(WalflowError, match=r"which is no position of walflow$"):
        reader.latestOffset({"offset": 3}, ReadAllAvailable())


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"startingPosition": "5"}, r"position 5 is gone.*'other' committed .*8"),
        ({"startingPosition": "12"}, "option startingPosition is 12: the log ends before 11"),
    ],
)
def test_a_beginning_that_is_not_there(lake: Lake, more: dict[str, str], line: str) -> None:
    lake.send(*numbered(10))
    lake.commit(8, "spark", "other")
    reader = StreamReader(options(lake, newCheckpoint="accept", **more))
    with pytest.raises(WalflowError, match=line):
        reader.initialOffset()
    reader.stop()
    with pytest.raises(WalflowError, match=line):
        BatchReader(options(lake, **more)).partitions()


@pytest.mark.parametrize(
    ("ending", "expected"), [("5", [2, 3, 4]), ("2", []), ("latest", [2, 3, 4, 5, 6, 7, 8, 9, 10])]
)
def test_a_batch_read_ends_where_it_is_told(lake: Lake, ending: str, expected: list[int]) -> None:
    lake.send(*numbered(10))
    reader = BatchReader(options(lake, startingOffsets="2", endingOffsets=ending, numPartitions="2"))
    assert [position for one in reader.partitions() for position in positions(reader.read(one))] == expected


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        ("12", "option endingPosition is 12: the log ends before 11"),
        ("1", "option endingPosition is 1, and it begins at 2"),
    ],
)
def test_an_end_that_is_not_there(lake: Lake, ending: str, line: str) -> None:
    lake.send(*numbered(10))
    with pytest.raises(WalflowError, match=line):
        BatchReader(options(lake, startingPosition="2", endingPosition=ending)).partitions()


def test_what_is_gone_is_passed_over_where_nobody_minds(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    lake.send(*numbered(10))
    lenient = options(lake, startingPosition="5", failOnDataLoss="false", newCheckpoint="accept")
    reader, late = StreamReader(lenient), wanted(lake, 3, 11)
    lake.commit(8, "spark", "other")
    assert reader.initialOffset()["position"] == 8
    assert positions(fetch(lenient, late, "spark")) == [8, 9, 10]
    told = capfd.readouterr().err
    assert "positions 5 to 7 are gone" in told
    assert "positions 3 to 7 are gone" in told
    end = reader.initialOffset()
    start = end | {"position": 2}
    assert reader.latestOffset(start, ReadAllAvailable())["position"] == 11
    assert [(one.first, one.end) for one in reader.partitions(start, end | {"position": 5})] == [(2, 5)]
    assert positions(fetch(lenient, wanted(lake, 2, 5), "spark")) == []
    reader.stop()


def test_what_is_committed_is_read_again_as_long_as_it_is_kept(new_lake: NewLake) -> None:
    """By an older copy of the checkpoint, and by a batch."""
    lake = new_lake((), '"retain": "1h"')
    lake.send(*numbered(10))
    reader, started = begun(lake)
    reader.commit(started | {"position": 11})
    lake.commit(11, "other")
    assert lake.head() == {"floor": 1, "next": 11, "committed": 11}
    reader.stop()
    again = StreamReader(options(lake))
    assert [(one.first, one.end) for one in again.partitions(started, started | {"position": 6})] == [(1, 6)]
    assert positions(fetch(options(lake), wanted(lake, 1, 6), "spark")) == [1, 2, 3, 4, 5]
    again.commit(started | {"position": 6})
    assert lake.head()["committed"] == 11, "it is not behind what it has committed"
    again.stop()
    batch = BatchReader(options(lake, startingPosition="earliest"))
    assert [position for one in batch.partitions() for position in positions(batch.read(one))] == [*range(1, 11)]


def test_it_begins_and_ends_at_a_time(new_lake: NewLake) -> None:
    second, start = 10**9, 1_700_000_000 * 10**9
    lake = new_lake([Given([b'{"n":1}', b'{"n":2}'], ingest_ns=start + n * second, stream=1) for n in range(5)])
    for bounds, expected in (
        ({"startingTimestamp": "1700000002000"}, [*range(5, 11)]),
        ({"startingTimestamp": "2023-11-14T22:13:21.5Z", "endingTimestamp": "1700000004000"}, [5, 6, 7, 8]),
        ({"startingTimestamp": "1"}, [*range(1, 11)]),
        ({"startingTimestamp": "1700000009000"}, []),
        ({"startingTimestamp": "1700000003000", "endingTimestamp": "1700000001000"}, []),
        ({"startingPosition": "earliest", "endingTimestamp": "1700000001000"}, [1, 2]),
    ):
        batch = BatchReader(options(lake, **bounds))
        assert [at for one in batch.partitions() for at in positions(batch.read(one))] == expected, bounds
    for begin, position in (("1700000002000", 5), ("1800000000000", 11)):
        stream = StreamReader(options(lake, startingTimestamp=begin))
        assert stream.initialOffset()["position"] == position
        stream.stop()
