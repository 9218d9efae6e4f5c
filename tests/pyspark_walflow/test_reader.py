"""What Spark would call, without a JVM: a range comes whole and once, or somebody is told why not."""

import os
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pyspark_walflow import wire
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import Options
from pyspark_walflow.planner import Unreachable
from pyspark_walflow.reader import BatchReader, Range, StreamReader, fetch, forget
from pyspark_walflow.wire import SEED, FrameKind, Right, WireKey
from tests.pyspark_walflow.conftest import NewLake
from tests.pyspark_walflow.impostor import HANG_UP, LOG, TOKEN, Answers, impostor
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.logs import Given, records

OK = wire.control(FrameKind.OK, {})


@pytest.fixture(autouse=True)
def _no_connection_is_kept() -> Iterator[None]:
    yield
    forget()


def options(lake: Lake, **more: str) -> Options:
    return Options.of(lake.options | {"retrySeconds": "0"} | more)


@pytest.fixture
def reader(lake: Lake) -> Iterator[StreamReader]:
    reader = StreamReader(options(lake))
    yield reader
    reader.stop()


def positions(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [cast(int, position) for batch in batches for position in batch["position"].to_pylist()]


def wanted(lake: Lake, first: int, end: int) -> Range:
    with lake.client() as client:
        log = client.log
    return Range(first, end, log, options(lake).key().ticket(Right.READ, log))


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
    batch = BatchReader(options(lake))
    ranges = batch.partitions()
    assert len(ranges) == 3, "40 MB by 16 MiB"
    assert positions(row for one in ranges for row in batch.read(one)) == list(range(1, 40_001))


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


def test_a_range_goes_on_behind_the_last_row_when_the_daemon_was_killed(new_lake: NewLake) -> None:
    count = 40_000
    lake = new_lake([Given([b"x" * 1000] * 1000, stream=number) for number in range(count // 1000)])
    rows = fetch(options(lake, retrySeconds="60"), wanted(lake, 5, count - 5), "spark")
    found = next(rows)["position"].to_pylist()
    lake.kill()
    lake.start()
    assert found + positions(rows) == list(range(5, count - 5))


def test_a_kept_connection_may_be_dead(lake: Lake) -> None:
    lake.send(*numbered(10))
    range_ = wanted(lake, 1, 11)
    assert positions(fetch(options(lake), range_, "spark")) == list(range(1, 11))
    lake.kill()
    lake.start()
    assert positions(fetch(options(lake, retrySeconds="30"), range_, "spark")) == list(range(1, 11))


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


def damaged(new_lake: NewLake) -> Lake:
    """Positions 3 and 4 do not have the bytes they were written with."""
    lake = new_lake([Given([b"one", b"two"]), Given([b"three", b"four"]), Given([b"five"])])
    lake.kill()
    [chunk] = [file for file in lake.state.glob("*.wal") if b"three\nfour" in file.read_bytes()]
    chunk.write_bytes(chunk.read_bytes().replace(b"three\nfour", b"three\nfuor"))
    lake.start()
    return lake


def test_what_the_disk_lost_is_an_error_that_names_it(new_lake: NewLake) -> None:
    lake = damaged(new_lake)
    with pytest.raises(WalflowError, match=r"^positions 3 to 4 are lost: .*failOnDataLoss"):
        list(fetch(options(lake), wanted(lake, 1, 6), "spark"))


def test_what_the_disk_lost_is_told_where_nobody_minds(new_lake: NewLake, capfd: pytest.CaptureFixture[str]) -> None:
    lake = damaged(new_lake)
    assert positions(fetch(options(lake, failOnDataLoss="false"), wanted(lake, 1, 6), "spark")) == [1, 2, 5]
    assert "walflow: positions 3 to 4 are lost: " in capfd.readouterr().err


def data(directory: Path, first: int, *events: bytes) -> bytes:
    """A DATA frame whose first record is at `first`."""
    blocks = [Given([b"-"] * (first - 1)), Given(events)] if first > 1 else [Given(events)]
    seed, raw = records(directory, blocks)
    start = raw.index(wire.SYNC, 1) if first > 1 else 0
    return wire.frame(FrameKind.DATA, SEED.pack(seed) + raw[start:])


def from_impostor(answer: Answers, end: int = 4, **more: str) -> list[int]:
    with impostor(answer) as port:
        said = Options.of({"port": str(port), "retrySeconds": "0"} | more)
        ticket = WireKey.of_token(TOKEN).ticket(Right.READ, LOG)
        try:
            return positions(fetch(said, Range(1, end, LOG, ticket), "spark"))
        finally:
            forget()


def test_fewer_rows_than_asked_for_are_an_error(tmp_path: Path) -> None:
    piece = data(tmp_path, 1, b"a", b"b")
    with pytest.raises(WalflowError, match=r"^positions 3 to 3 did not come, and the daemon did not say why$"):
        from_impostor(lambda kind, fields: piece + OK)


def test_rows_of_another_place_are_an_error(tmp_path: Path) -> None:
    piece = data(tmp_path, 2, b"b", b"c")
    with pytest.raises(WalflowError, match=r"^position 1 was to come, 2 came$"):
        from_impostor(lambda kind, fields: piece + OK)


def test_a_loss_that_begins_too_late_is_an_error() -> None:
    lost = wire.control(FrameKind.LOST, {"first": 3, "last": 3, "reason": "corrupt"})
    with pytest.raises(WalflowError, match=r"^positions 1 to 2 did not come, and the daemon did not say why$"):
        from_impostor(lambda kind, fields: lost + OK, failOnDataLoss="false")


def test_a_frame_that_was_changed_on_its_way_is_an_error(tmp_path: Path) -> None:
    piece = bytearray(data(tmp_path, 1, b"a", b"b", b"c"))
    piece[-1] ^= 1
    with pytest.raises(WalflowError, match="a frame arrived with another checksum than it was sent with"):
        from_impostor(lambda kind, fields: bytes(piece) + OK)


def test_a_connection_that_ends_in_the_middle_is_made_again_from_there(tmp_path: Path) -> None:
    asked: list[object] = []
    answers = [data(tmp_path / "1", 1, b"a", b"b") + HANG_UP, HANG_UP, data(tmp_path / "2", 3, b"c") + OK]

    def answer(kind: FrameKind, fields: dict[str, object]) -> bytes:
        asked.append(fields["first"])
        return answers.pop(0)

    assert from_impostor(answer, retrySeconds="30") == [1, 2, 3]
    assert asked == [1, 3, 3]
