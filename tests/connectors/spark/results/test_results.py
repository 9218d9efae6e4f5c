"""Results: each (query, batch) once in the log, from there on `out` until it is acked."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from connectors.spark.results.publications import KEPT_ONCE
from pyspark_walflow.wire import Code, RequestRefused
from tests.connectors.spark.results.results_world import PATH, Bench, pieces, rows_of
from walflow.codecs import STRING
from walflow.delivery.tag import Tags
from walflow.disk import RealDisk
from walflow.testing import Fatal, MemoryDisk

A, B, C = "a" * 32, "b" * 32, "c" * 32


def files(disk: MemoryDisk) -> list[str]:
    return sorted(path for path in disk.sizes() if path.startswith(f"{PATH}/staging/"))


async def test_what_is_staged_goes_out_when_it_is_published_and_not_before() -> None:
    disk = MemoryDisk()
    bench = Bench(disk, paused=False)
    one, two = rows_of(A, 3), rows_of(B, 2)
    assert await bench.stage(A, one) == (3, sum(len(row) + 1 for row in one))
    await bench.stage(B, two)
    await bench.settle()
    assert bench.sent() == []
    assert await bench.publish("q", 0, B, A) == (True, 5)
    assert bench.sent() == two + one
    block = bench.out.sent[0]
    assert block.meta == {"spark": {"query": "q", "batch": 0}}
    assert (block.stream.connector, block.stream.run) == ("f::spark", bench.out.run)
    assert files(disk) == []
    assert bench.out.count_backlog() == 5
    bench.ack_all()
    await bench.settle()
    assert bench.out.count_backlog() == 0
    counters = {name: counter.value for name, counter in bench.out.counters.items()}
    assert counters["spark_published_batches_total"] == 1
    assert counters["spark_published_rows_total"] == 5
    assert counters["spark_repeated_batches_total"] == 0
    await bench.close()


async def test_a_batch_is_published_once() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 3))
    assert await bench.publish("q", 7, A) == (True, 3)
    assert await bench.publish("q", 7, A) == (False, 3)  # the driver did not hear the answer
    await bench.stage(B, rows_of(B, 3))
    assert await bench.publish("q", 7, B) == (False, 3)  # it was killed, and wrote the batch again
    assert files(disk) == []
    await bench.stage(C, rows_of(C, 1))
    assert await bench.publish("q", 6, C) == (False, 0)  # an older one
    assert bench.rows() == rows_of(A, 3)
    assert bench.out.counters["spark_repeated_batches_total"].value == 3
    await bench.stage(C, rows_of(C, 1))
    assert await bench.publish("q", 8, C) == (True, 1)
    await bench.stage(C, rows_of(C, 1))
    assert await bench.publish("another", 0, C) == (True, 1)  # a query never seen starts anew
    await bench.close()


async def test_it_is_known_after_a_restart() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 3))
    await bench.publish("q", 7, A)
    await bench.close()
    again = Bench(disk)
    assert await again.publish("q", 7, A) == (False, 3)
    assert again.rows() == rows_of(A, 3)
    await again.close()


async def test_a_batch_without_rows_is_a_batch() -> None:
    bench = Bench(MemoryDisk())
    assert await bench.publish("q", 0) == (True, 0)
    assert await bench.publish("q", 0) == (False, 0)
    assert await bench.stage(A, []) == (0, 0)
    assert await bench.publish("q", 1, A) == (True, 0)
    assert bench.rows() == []
    await bench.close()


async def test_lines_may_be_cut_anywhere() -> None:
    bench = Bench(MemoryDisk())
    data = b"".join(row + b"\n" for row in rows_of(A, 5))
    cut = [data[start : start + 7] for start in range(0, len(data), 7)]
    assert (await bench.finish(bench.results.stage(A, pieces(*cut))))[0] == 5
    await bench.publish("q", 0, A)
    assert bench.rows() == rows_of(A, 5)
    await bench.close()


async def test_a_record_is_no_larger_than_the_cap_unless_a_row_is() -> None:
    bench = Bench(MemoryDisk(), chunk_size=64 << 10, max_chunks=4)
    cap = bench.log.block_cap
    assert cap == 16 << 10
    rows = [*rows_of(A, 100, 1000), b'"' + b"l" * 100_000 + b'"', *rows_of(B, 20, 300)]
    await bench.stage(A, rows[:60])
    await bench.stage(B, rows[60:])
    await bench.publish("q", 0, A, B)
    assert bench.rows() == rows
    sizes = [len(record.payload) for record in bench.records()]
    assert [size for size in sizes if size > cap] == [next(size for size in sizes if size > 100_000)]
    await bench.close()


async def test_a_drivers_abort_removes_what_it_names() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    for name in (A, B):
        await bench.stage(name, rows_of(name, 1))
    await bench.finish(bench.results.abort([A, C, "../../etc/passwd"]))
    assert files(disk) == [f"{PATH}/staging/{B}.1"]
    with pytest.raises(RequestRefused, match="must be written again") as refused:
        await bench.publish("q", 0, A, B)
    assert refused.value.code == Code.UNKNOWN_STAGE
    assert await bench.publish("q", 0, B) == (True, 1)
    await bench.close()


async def test_what_nobody_asks_for_dies_after_an_hour() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 1))
    bench.scheduler.advance(3000)
    await bench.settle()
    await bench.stage(B, rows_of(B, 1))
    bench.scheduler.advance(700)
    await bench.settle()
    assert files(disk) == [f"{PATH}/staging/{B}.1"]
    assert bench.out.counters["spark_orphaned_stages_total"].value == 1
    await bench.close()


async def test_a_restart_keeps_what_is_whole_for_the_driver_may_be_about_to_publish_it() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 2))
    await bench.close()
    fd = disk.open(f"{PATH}/staging/{B}.1.part", create=True)
    disk.write(fd, [b'{"half'], 0)
    disk.close(fd)
    again = Bench(disk)
    assert files(disk) == [f"{PATH}/staging/{A}.2"]
    assert again.out.gauges["spark_staged_bytes"]() == sum(len(row) + 1 for row in rows_of(A, 2))
    assert await again.publish("q", 0, A) == (True, 2)
    assert again.rows() == rows_of(A, 2)
    await again.close()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'{"a":1}\n{"a":\n', r"row 2 of a task is no event: not JSON"),
        (b'{"a":1}\n\n', r"row 2 of a task is no event"),
        (b'{"a":1}\n{"a":1} {"b":2}\n', r"row 2 of a task is no event"),
        (b'"\xff"\n', r"row 1 of a task is no event"),
        (b'{"a":1}\n{"a":1}', r"row 2 of a task does not end in a newline"),
        (b"[\n1]\n", r"row 1 of a task is no event"),
    ],
)
async def test_what_is_no_event_is_not_staged(data: bytes, line: str) -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    with pytest.raises(RequestRefused, match=line) as refused:
        await bench.finish(bench.results.stage(A, pieces(data)))
    assert refused.value.code == Code.PROTOCOL
    assert files(disk) == []
    assert bench.out.gauges["spark_staged_bytes"]() == 0
    await bench.close()


async def test_another_codec_has_other_events() -> None:
    bench = Bench(MemoryDisk(), codec=STRING)
    assert await bench.finish(bench.results.stage(A, pieces(b"not json\n"))) == (1, 9)
    await bench.publish("q", 0, A)
    assert Tags().decode(bench.records()[0].tag).codec is STRING
    await bench.close()


@pytest.mark.parametrize("name", ["", "A" * 32, "a" * 31, "a" * 33, "../" + "a" * 29, "a" * 31 + "\n"])
async def test_a_name_is_never_a_path(name: str) -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    with pytest.raises(RequestRefused, match="32 hexadecimal digits"):
        await bench.stage(name, rows_of(A, 1))
    assert files(disk) == []
    await bench.close()


async def test_a_connection_that_breaks_leaves_nothing() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b'{"a":1}\n'
        raise ConnectionResetError

    disk = MemoryDisk()
    bench = Bench(disk)
    with pytest.raises(ConnectionResetError):
        await bench.finish(bench.results.stage(A, broken()))
    assert files(disk) == []
    assert await bench.stage(A, rows_of(A, 2)) != (0, 0)  # and comes again, under its name
    await bench.close()


async def test_a_stage_that_comes_twice_is_the_later_one() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 2))
    await bench.stage(A, rows_of(A, 3))
    assert files(disk) == [f"{PATH}/staging/{A}.3"]
    assert await bench.publish("q", 0, A) == (True, 3)
    await bench.close()


async def test_a_batch_has_a_largest_size_and_is_told_it() -> None:
    disk = MemoryDisk()
    bench = Bench(disk, max_result_bytes=1000)
    with pytest.raises(RequestRefused, match="max_result_bytes") as refused:
        await bench.stage(A, rows_of(A, 100))
    assert refused.value.code == Code.TOO_LARGE
    assert files(disk) == []
    for name in (A, B):
        await bench.stage(name, rows_of(name, 30))
    with pytest.raises(RequestRefused, match=r"batch 0 has .* of results and 1,000 are the most"):
        await bench.publish("q", 0, A, B)
    assert bench.rows() == []
    assert await bench.publish("q", 0, A) == (True, 30)
    await bench.close()


async def test_a_batch_larger_than_the_log_is_refused_before_anything_is_written() -> None:
    bench = Bench(MemoryDisk(), chunk_size=16 << 10, max_chunks=4)
    for name in (A, B):
        await bench.stage(name, rows_of(name, 40, 1000))
    with pytest.raises(RequestRefused, match="chunk_size or max_chunks") as refused:
        await bench.publish("q", 0, A, B)
    assert refused.value.code == Code.TOO_LARGE
    assert bench.rows() == []
    with pytest.raises(RequestRefused, match="row 2 of a task has"):
        await bench.stage(C, [b"1", b'"' + b"x" * (64 << 10) + b'"'])

    async def long() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"1" * 1024

    with pytest.raises(RequestRefused, match="row 1 of a task has"):
        await bench.finish(bench.results.stage(C, long()))
    await bench.close()


async def test_staging_has_an_end_and_old_stages_make_room() -> None:
    bench = Bench(MemoryDisk(), max_result_bytes=1000)
    names = [f"{number:032x}" for number in range(6)]
    row = [b'"' + b"x" * 895 + b'"']
    for name in names[:4]:
        await bench.stage(name, row)
    with pytest.raises(RequestRefused, match="wait to be published") as refused:
        await bench.stage(names[4], row)
    assert refused.value.code == Code.NO_SPACE
    bench.scheduler.advance(61)
    await bench.stage(names[4], row)
    assert bench.out.counters["spark_orphaned_stages_total"].value == 1
    with pytest.raises(RequestRefused):
        await bench.publish("q", 0, names[0])
    assert await bench.publish("q", 0, names[4]) == (True, 1)
    await bench.close()


async def test_a_full_log_makes_publish_wait_and_sinks_get_what_is_there() -> None:
    bench = Bench(MemoryDisk(), paused=False, chunk_size=16 << 10, max_chunks=4)
    first, second = rows_of(A, 40, 1000), rows_of(B, 40, 1000)
    await bench.stage(A, first)
    await bench.stage(B, second)
    assert await bench.publish("q", 0, A) == (True, 40)
    publishing = asyncio.ensure_future(bench.results.publish("q", 1, [B]))
    for _ in range(50):
        await bench.settle()
    assert not publishing.done()
    assert 40 < len(bench.sent()) < 80
    for _ in range(20):
        bench.ack_all()
        bench.scheduler.advance(0.2)
        await bench.settle()
    assert publishing.result() == (True, 40)
    assert bench.sent() == first + second
    bench.ack_all()
    await bench.close()


async def test_whoever_is_cancelled_while_waiting_stops_nothing() -> None:
    bench = Bench(MemoryDisk())
    await bench.stage(A, rows_of(A, 3))
    bench.scheduler.holding = True
    publishing = asyncio.ensure_future(bench.results.publish("q", 0, [A]))
    await bench.settle()
    publishing.cancel()
    bench.scheduler.holding = False
    await bench.settle()
    assert publishing.cancelled()
    assert await bench.publish("q", 0, A) == (False, 3)
    assert bench.rows() == rows_of(A, 3)
    await bench.close()


async def test_two_that_publish_the_same_batch_at_once() -> None:
    bench = Bench(MemoryDisk())
    await bench.stage(A, rows_of(A, 3))
    both = asyncio.gather(*(bench.results.publish("q", 0, [A]) for _ in range(2)))
    assert await bench.finish(both) == [(True, 3), (False, 3)]
    await bench.close()


async def test_to_stop_while_the_log_is_full_leaves_the_rest_to_the_next_start() -> None:
    disk = MemoryDisk()
    bench = Bench(disk, chunk_size=16 << 10, max_chunks=4)
    first, second = rows_of(A, 40, 1000), rows_of(B, 40, 1000)
    await bench.stage(A, first)
    await bench.stage(B, second)
    await bench.publish("q", 0, A)
    publishing = asyncio.ensure_future(bench.results.publish("q", 1, [B]))
    await bench.settle()
    await bench.close()
    with pytest.raises(RequestRefused, match="after its next start") as refused:
        await publishing
    assert refused.value.code == Code.STOPPING
    again = Bench(disk, paused=False, chunk_size=16 << 10, max_chunks=4)
    await again.settle()
    assert "publication resumed" in again.out.lines
    for _ in range(20):
        await again.settle()
        again.ack_all()
        again.scheduler.advance(0.2)
    assert again.sent() == first + second
    assert await again.publish("q", 1, B) == (False, 40)
    await again.close()


@pytest.mark.parametrize("operation", ["create", "write"])
async def test_a_full_disk_refuses_before_the_intent_and_is_waited_for_behind_it(operation: str) -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 3))
    full = "publications"
    disk.fault = lambda what, path: errno.ENOSPC if (what, full in path) == (operation, True) else None
    with pytest.raises(RequestRefused) as refused:
        await bench.publish("q", 0, A)
    assert refused.value.code == Code.NO_SPACE
    full = ".wal"
    publishing = asyncio.ensure_future(bench.results.publish("q", 0, [A]))
    await bench.settle()
    bench.scheduler.advance(5)
    await bench.settle()
    assert not publishing.done()
    assert bench.out.lines.count("results wait") == 1
    disk.fault = None
    bench.scheduler.advance(2)
    await bench.settle()
    assert publishing.result() == (True, 3)
    assert bench.rows() == rows_of(A, 3)
    await bench.close()


async def test_a_full_disk_while_staging() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    disk.fault = lambda what, path: errno.ENOSPC if what == "write" and "staging" in path else None
    with pytest.raises(RequestRefused, match="cannot be staged") as refused:
        await bench.stage(A, rows_of(A, 3))
    assert refused.value.code == Code.NO_SPACE
    disk.fault = None
    assert files(disk) == []
    await bench.close()


async def test_a_log_that_cannot_promise_anything_ends_the_process() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 3))
    disk.fault = lambda what, path: errno.EIO if what == "sync" and ".wal" in path else None
    with pytest.raises(Fatal, match="sync failed"):
        await bench.publish("q", 0, A)
    assert bench.out.counters["spark_published_batches_total"].value == 0
    bench.log.abandon()


async def test_a_stage_that_was_spoiled_is_given_up_and_written_again() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 3))
    disk.truncate(disk.open(f"{PATH}/staging/{A}.3"), 10)
    with pytest.raises(RequestRefused, match="must be written again") as refused:
        await bench.publish("q", 0, A)
    assert refused.value.code == Code.UNKNOWN_STAGE
    assert bench.rows() == []
    await bench.stage(B, rows_of(B, 3))
    assert await bench.publish("q", 0, B) == (True, 3)
    await bench.close()


async def test_damaged_publications_are_put_aside_and_told() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    await bench.stage(A, rows_of(A, 3))
    await bench.publish("q", 0, A)
    await bench.close()
    fd = disk.open(f"{PATH}/results/publications")
    disk.write(fd, [b"!"], 40)
    disk.close(fd)
    again = Bench(disk)
    assert "publications lost" in again.out.lines
    assert f"{PATH}/results/publications.damaged" in disk.sizes()
    await again.stage(B, rows_of(B, 1))
    assert await again.publish("q", 0, B) == (True, 1)
    await again.close()


async def test_queries_of_one_batch_are_forgotten_before_lasting_ones() -> None:
    bench = Bench(MemoryDisk())
    assert await bench.publish("lasting", 3) == (True, 0)
    for number in range(KEPT_ONCE + 1):
        assert await bench.publish(f"write-{number}", 0) == (True, 0)
    assert await bench.publish("write-1", 0) == (False, 0)
    assert await bench.publish("write-0", 0) == (True, 0)
    assert await bench.publish("lasting", 3) == (False, 0)
    await bench.close()


@pytest.mark.parametrize(("query", "batch"), [("", 0), ("q" * 201, 0), ("q", -1), ("\U0001f600" * 200 + "q", 0)])
async def test_what_is_no_query_or_batch(query: str, batch: int) -> None:
    bench = Bench(MemoryDisk())
    with pytest.raises(RequestRefused) as refused:
        await bench.publish(query, batch)
    assert refused.value.code == Code.PROTOCOL
    await bench.close()


async def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    bench = Bench(RealDisk(), str(tmp_path / "state"))
    await bench.stage(A, rows_of(A, 2))
    await bench.publish("q", 0)
    for path in (tmp_path / "state").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    await bench.close()
