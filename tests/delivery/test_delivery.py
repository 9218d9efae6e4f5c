"""A log between an inlet and an outlet, without a loop: what was acked upstream comes out, in order, until acked."""

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.nodes.world import Taker, World
from tests.receipts import known
from tests.wal.tools import QuickDisk
from walflow import Block, Frames, Receipt, StreamId
from walflow.codecs import JSON
from walflow.delivery import Checkpoints, LogSink, LogSource
from walflow.delivery.tag import Tags
from walflow.disk import Disk, RealDisk, RecordingDisk
from walflow.errors import PeerAway
from walflow.event import Node
from walflow.framing import LINES
from walflow.nodes.fanout import DeadEnd
from walflow.nodes.gate import ReasonGate
from walflow.nodes.source import SourceNode
from walflow.wal import Log, LogOptions

LOST = ConnectionError("gone")


class Relay:
    """What connectors.wal puts together, with a test's scheduler and taker. `taker`: several, by lane, or one."""

    def __init__(
        self,
        path: Path,
        taker: Node | Mapping[str, Node],
        *,
        disk: Disk | None = None,
        options: LogOptions | None = None,
        max_attempts: int | None = None,
        err: Node | None = None,
    ) -> None:
        self.world = world = World()
        self.scheduler = world.scheduler
        self.log = Log(options or LogOptions(str(path)), disk)
        self.sink = world.sink(None, None, name="f::wal", err=err)
        self.upstream = ReasonGate()
        self.sink.gates.append(self.upstream)
        several = taker if isinstance(taker, Mapping) else {}
        lanes = {
            name: SourceNode(f"f::wal to {name}", one, world.err("f::wal", err), JSON, transactional=True)
            for name, one in several.items()
        }
        first = DeadEnd(world.metrics.counter("dropped_events_total")) if isinstance(taker, Mapping) else taker
        self.node = SourceNode("f::wal", first, world.err("f::wal", err), JSON, transactional=True, lanes=lanes)
        self.out = self.node.begin(world.context("f::wal"))
        tags = Tags()
        self.checkpoints = Checkpoints(self.log, self.scheduler, self.sink, lambda: self.writer.room())
        self.reader = LogSource(self.log, self.out, tags, self.checkpoints, max_attempts)
        self.writer = LogSink(self.log, self.sink, tags, self.reader.pump, self.checkpoints)
        self.sink.serve(self.writer.accept)
        self.settled: list[Receipt] = []
        self.reader.pump()

    def give(self, *ids: int, stream: int = 1, size: int = 0, at: int = 5) -> None:
        data = b"".join(b'{"id":%d,"x":"%s"}\n' % (number, b"y" * size) for number in ids)
        self.give_bytes(data, stream, at)

    def give_bytes(self, data: bytes, stream: int = 1, at: int = 5) -> None:
        count = LINES.count(data)
        owed = Receipt(self.settled.append, count)
        meta = {"peer": stream}
        self.sink.accept(
            Block(StreamId("f::tcp", 77, stream), Frames(data, count, LINES), JSON, owed, ingest_ns=at, meta=meta)
        )

    def crash(self) -> None:
        """The process is gone: nothing is written any more, descriptors are the kernel's to close."""
        self.node.end()
        self.log.directory.release()
        for chunk in self.log.chunks:
            chunk.close(self.log.disk)

    def close(self) -> None:
        self.node.end()
        self.log.close()


def ids(blocks: list[Block]) -> list[int]:
    return [value["id"] for block in blocks for value in block.values]  # type: ignore[index]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_an_event_is_acked_upstream_once_it_is_on_disk_and_only_then_goes_on(path: Path) -> None:
    disk, taker = RecordingDisk(), Taker()
    relay = Relay(path, taker, disk=disk)
    relay.scheduler.hanging = True
    relay.give(*range(2000), size=50)
    while relay.scheduler.run():
        pass
    assert relay.settled == []
    assert taker.blocks == []
    assert len(relay.scheduler.urgent) == 1
    before = len(disk.operations)
    relay.scheduler.work_urgent()
    assert "sync" in [operation for operation, _, _ in disk.operations[before:]]
    assert [receipt.cause for receipt in relay.settled] == [None]
    assert ids(taker.blocks) == list(range(2000))
    taker.ack_all()
    relay.scheduler.hanging = False
    relay.scheduler.run()
    relay.close()


def test_identity_survives_a_restart(path: Path) -> None:
    taker = Taker()
    relay = Relay(path, taker)
    relay.give(1, 2, stream=3)
    relay.scheduler.run()
    (first,) = taker.blocks
    uuid = relay.log.uuid
    relay.crash()
    again = Taker()
    restarted = Relay(path, again)
    (second,) = again.blocks
    assert second.stream == first.stream == StreamId("f::tcp", 77, 3)
    assert second.meta == {"peer": 3}
    assert second.origin is not None
    assert (second.origin.log, second.origin.first, second.origin.last) == (uuid, 1, 2)
    assert second.frames.data == first.frames.data
    assert second.codec is JSON
    assert second.ingest_ns == 5
    first.receipt.ack()
    second.receipt.ack()
    restarted.close()


def test_what_goes_on_is_never_older_than_what_went_before_also_after_a_restart(path: Path) -> None:
    before = Taker()
    relay = Relay(path, before)
    relay.give(1, at=1_000)
    relay.scheduler.run()
    relay.give(2, at=900)  # the clock was set back
    relay.scheduler.run()
    relay.crash()
    before.ack_all()  # too late
    again = Taker()
    restarted = Relay(path, again)
    restarted.give(3, at=50)
    restarted.give(4, at=2_000)
    restarted.scheduler.run()
    assert [(ids([block]), block.ingest_ns) for block in again.blocks] == [
        ([1], 1_000),
        ([2], 1_000),
        ([3], 1_000),
        ([4], 2_000),
    ]
    again.ack_all()
    restarted.close()


def test_what_was_acked_does_not_come_again_even_inside_a_record(path: Path) -> None:
    relay = Relay(path, taker := Taker())
    relay.give(*range(10))
    relay.scheduler.run()
    taker.blocks[0].receipt.fail(LOST, done=4)
    relay.scheduler.advance(0.09)
    relay.close()
    restarted = Relay(path, again := Taker())
    assert ids(again.blocks) == list(range(4, 10))
    again.ack_all()
    restarted.scheduler.advance(1)
    restarted.close()
    assert Relay(path, Taker(ack=True)).log.low == 10


def test_acks_out_of_order_leave_only_the_hole(path: Path) -> None:
    relay = Relay(path, taker := Taker())
    for number in range(5):
        relay.give(number)
        relay.scheduler.run()
    for position in (4, 0, 2):
        taker.blocks[position].receipt.ack()
    relay.scheduler.advance(1)
    relay.crash()
    for position in (1, 3):
        taker.blocks[position].receipt.ack()  # of a run that is over: void
    restarted = Relay(path, again := Taker(ack=True))
    assert ids(again.blocks) == [1, 3]
    restarted.close()


def test_after_a_failure_nothing_newer_is_sent_until_it_was_sent_again(path: Path) -> None:
    relay = Relay(path, taker := Taker())
    relay.give(1)
    relay.give(2)
    relay.scheduler.run()
    relay.give(3)
    taker.blocks[0].receipt.fail(LOST, sink="f::tcp")
    relay.scheduler.run()
    assert ids(taker.blocks) == [1, 2]
    relay.scheduler.advance(0.11)
    assert ids(taker.blocks) == [1, 2, 1, 3]
    for block in taker.blocks[1:]:
        block.receipt.ack()
    relay.scheduler.run()
    relay.close()


def test_a_failure_after_the_last_event_leaves_nothing_to_be_sent_again(path: Path) -> None:
    relay = Relay(path, taker := Taker())
    relay.give(1, 2)
    relay.scheduler.run()
    taker.blocks[0].receipt.fail(LOST, done=2)
    assert relay.log.low == 2
    assert relay.world.count("wal_failed_events_total") == 0
    relay.scheduler.advance(60)
    assert [block.frames.count for block in taker.blocks] == [2]
    relay.close()


def test_sinks_that_acked_are_named_on_the_second_try(path: Path) -> None:
    relay = Relay(path, taker := Taker())
    relay.give(1)
    relay.scheduler.run()
    taker.blocks[0].receipt.fork(1)
    taker.blocks[0].receipt.ack("f::file")
    taker.blocks[0].receipt.fail(LOST, sink="f::tcp")
    relay.scheduler.advance(0.11)
    assert taker.blocks[1].receipt.delivered == known(taker.blocks[1].frames.count, "f::file")
    taker.blocks[1].receipt.ack()
    relay.close()


class Choosy:
    """Fails every block that holds one of its ids; acks the others."""

    def __init__(self, *bad: int) -> None:
        self.bad = set(bad)
        self.acked: list[int] = []
        self.tries: list[int] = []

    def accept(self, block: Block) -> None:
        numbers = ids([block])
        if self.bad & set(numbers):
            self.tries.append(len(numbers))
            block.receipt.fail(LOST, sink="f::choosy")
        else:
            self.acked += numbers
            block.receipt.ack("f::choosy")


@pytest.mark.parametrize("seconds", [0.0, 0.04, 0.1, 0.3, 2.0, 10.0])
def test_what_failed_because_the_peer_was_away_goes_in_its_order(path: Path, seconds: float) -> None:
    class Away:
        def __init__(self) -> None:
            self.acked: list[int] = []
            self.is_away = True

        def accept(self, block: Block) -> None:
            if self.is_away:
                block.receipt.fail(PeerAway("lost"), sink="f::away")
            else:
                self.acked += ids([block])
                block.receipt.ack("f::away")

    relay = Relay(path, away := Away())
    relay.give(*range(10))
    relay.give(*range(10, 15))
    relay.scheduler.advance(0.2)
    relay.give(*range(15, 20))
    relay.scheduler.advance(seconds)
    away.is_away = False
    relay.scheduler.advance(20)
    assert away.acked == [*range(20)]
    relay.close()


def test_a_block_that_fails_twice_is_halved_until_the_bad_event_stands_alone(path: Path) -> None:
    relay = Relay(path, choosy := Choosy(5))
    relay.give(*range(8))
    relay.scheduler.advance(60)
    assert choosy.acked == [0, 1, 2, 3, 6, 7, 4]
    assert choosy.tries[:5] == [8, 8, 4, 2, 1]
    relay.give(9)
    relay.scheduler.run()
    assert choosy.acked[-1] == 9  # a poison event does not hold up the rest
    assert relay.reader.backlog() == 1
    choosy.bad.clear()
    relay.scheduler.advance(20)
    assert choosy.acked[-1] == 5
    assert relay.reader.backlog() == 0
    relay.close()


def test_the_backoff_grows_to_ten_seconds_and_no_further(path: Path) -> None:
    relay = Relay(path, choosy := Choosy(1))
    relay.give(1)
    relay.scheduler.advance(600)
    tries = len(choosy.tries)
    relay.scheduler.advance(100)
    assert len(choosy.tries) - tries == 10
    relay.close()


def test_max_attempts_sends_the_event_out_by_err(path: Path) -> None:
    err = Taker("f::err", ack=True)
    relay = Relay(path, choosy := Choosy(5), max_attempts=6, err=err)
    relay.give(*range(8))
    relay.scheduler.advance(60)
    assert choosy.acked == [0, 1, 2, 3, 6, 7, 4]
    assert not err.blocks, "while it is the only event, no attempt counts: the sink may be away"
    for number in range(8, 13):
        relay.give(number)
        relay.scheduler.advance(20)
    assert err.blocks[0].values == [
        {
            "error": "failed 6 times at f::choosy: gone (position 6)",
            "source": "f::wal",
            "stream_id": 1,
            "sink": "f::choosy",
            "position": 6,
            "attempts": 6,
            "cause": "gone",
            "event": {"id": 5, "x": ""},
        }
    ]
    assert relay.reader.backlog() == 0
    relay.close()


@pytest.mark.parametrize("max_attempts", [1, 2, 3, 4, 5])
def test_max_attempts_rejects_no_event_that_failed_only_beside_another(path: Path, max_attempts: int) -> None:
    err = Taker("f::err", ack=True)
    relay = Relay(path, choosy := Choosy(5), max_attempts=max_attempts, err=err)
    relay.give(*range(8))
    relay.scheduler.advance(60)
    for number in range(8, 8 + max_attempts):
        relay.give(number)
        relay.scheduler.advance(10)
    assert sorted(choosy.acked) == [0, 1, 2, 3, 4, *range(6, 8 + max_attempts)]
    assert len(err.blocks) == 1
    relay.close()


def test_an_outage_uses_up_no_attempts(path: Path) -> None:
    """Each event fails a hundred times, and none is rejected;
    once the sink is back, all are there within ten seconds."""
    err = Taker("f::err", ack=True)
    relay = Relay(path, choosy := Choosy(*range(50)), max_attempts=2, err=err)
    for number in range(0, 40, 2):
        relay.give(number, number + 1)
    relay.scheduler.advance(600)
    assert len(choosy.tries) < 220, "some tries at once, then one of the new ones and one of the old ones each 10 s"
    choosy.bad.clear()
    relay.scheduler.advance(20)
    assert sorted(choosy.acked) == list(range(40))
    assert not err.blocks
    assert relay.reader.backlog() == 0
    relay.close()


def test_poison_costs_itself_alone(path: Path) -> None:
    """Of 300 blocks each has a bad event, and what is held for them is these events, not their blocks."""
    relay = Relay(path, choosy := Choosy(*range(0, 3000, 10)))
    for number in range(0, 3000, 10):
        relay.give(*range(number, number + 10))
        relay.scheduler.advance(0.01)
    relay.scheduler.advance(60)
    assert sorted(choosy.acked) == [number for number in range(3000) if number % 10]
    assert relay.reader.backlog() == 300
    relay.give(*range(3001, 3005))
    relay.scheduler.run()
    assert choosy.acked[-4:] == [3001, 3002, 3003, 3004]
    relay.close()


def test_a_full_log_triggers_holds_and_resumes(path: Path) -> None:
    taker, disk = Taker(), WeighedDisk(path)
    relay = Relay(path, taker, disk=disk, options=LogOptions(str(path), 1024, 100))
    for number in range(2000):
        relay.give(number, size=60)
        relay.scheduler.run()
    assert relay.upstream.shut
    assert "full" in relay.upstream.reasons["f::wal"]
    acked_upstream = len(relay.settled)
    assert acked_upstream < 2000
    for _ in range(5000):
        if not taker.blocks:
            break
        taker.blocks.pop(0).receipt.ack()
        relay.scheduler.advance(0.01)
    relay.scheduler.advance(1)
    assert 90_000 < disk.most <= 102_400
    assert not relay.upstream.shut
    assert len(relay.settled) == 2000
    assert [receipt.cause for receipt in relay.settled] == [None] * 2000
    assert relay.log.low == relay.log.durable == 2000
    relay.close()


class WeighedDisk(QuickDisk):
    """`most`: what a log's chunks and spares came to at most, looked at whenever one of its files has grown."""

    preallocates = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.most = 0

    def allocate(self, fd: int, size: int) -> None:
        super().allocate(fd, size)
        self._weigh()

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        size = os.fstat(fd).st_size
        super().write(fd, parts, offset)
        if os.fstat(fd).st_size > size:
            self._weigh()

    def _weigh(self) -> None:
        files = [file for file in self.path.iterdir() if file.suffix == ".wal" or "spare" in file.name]
        self.most = max(self.most, sum(file.stat().st_size for file in files))


def test_an_event_larger_than_the_budget_is_rejected_and_one_larger_than_a_chunk_is_not(path: Path) -> None:
    err = Taker("f::err", ack=True)
    relay = Relay(path, taker := Taker(ack=True), options=LogOptions(str(path), 1024, 100), err=err)
    relay.give(1, size=50_000)
    relay.give(2, size=200_000)
    relay.give(3)
    relay.scheduler.advance(1)
    assert ids(taker.blocks) == [1, 3]
    (error,) = err.blocks[0].values
    assert "does not fit the log's budget, 102400 bytes" in error["error"]  # type: ignore[index]
    relay.close()


def test_blocks_larger_than_a_sixteenth_of_the_budget_are_split_between_events(path: Path) -> None:
    relay = Relay(path, taker := Taker(ack=True), options=LogOptions(str(path), 1024, 100))
    relay.give(*range(200), size=60)
    relay.scheduler.advance(1)
    assert ids(taker.blocks) == list(range(200))
    assert max(len(data) for data in taker.data) <= 102_400 // 16
    assert relay.settled[0].cause is None
    relay.close()


def give_with_metas(relay: Relay, *sizes: int) -> None:
    """One block, of events with metadata of these sizes."""
    data = b"".join(b'{"id":%d}\n' % number for number in range(len(sizes)))
    metas = [{"headers": "y" * size} for size in sizes]
    owed = Receipt(relay.settled.append, len(sizes))
    block = Block(
        StreamId("f::tcp", 77, 1),
        Frames(data, len(sizes), LINES),
        JSON,
        owed,
        ingest_ns=5,
        meta={},
        event_metas=metas,
    )
    relay.sink.accept(block)


def test_a_block_whose_metadata_exceeds_a_record_is_split_between_events(path: Path) -> None:
    """A script that sets `$` of each event is enough for that."""
    taker = Taker(ack=True)
    relay = Relay(path, taker)
    give_with_metas(relay, *[100] * 4096)
    relay.scheduler.run()
    assert ids(taker.blocks) == [*range(4096)]
    assert all(len(block.event_metas or ()) == block.frames.count for block in taker.blocks)
    assert [receipt.cause for receipt in relay.settled] == [None]
    relay.close()


def test_an_event_whose_own_metadata_exceeds_a_record_is_rejected_and_its_neighbours_are_not(path: Path) -> None:
    taker, err = Taker(ack=True), Taker(ack=True)
    relay = Relay(path, taker, err=err)
    give_with_metas(relay, 10, 70_000, 10)
    relay.scheduler.run()
    assert ids(taker.blocks) == [0, 2]
    (reason,) = [value["error"] for block in err.blocks for value in block.values]  # type: ignore[index]
    assert reason == "metadata of 70,040 bytes does not fit a record of the log, which takes 65,535"
    assert [receipt.cause for receipt in relay.settled] == [None]
    relay.close()


def test_tags_remember_what_they_say() -> None:
    tags = Tags()
    owed: list[Receipt] = []
    meta = {"tcp_server": {"peer": {"host": "::1", "port": 4}}}
    stream = StreamId("f::tcp", 2**62, 9)
    block = Block(
        stream,
        Frames(b"1\n", 1, LINES),
        JSON,
        Receipt(owed.append, 1),
        ingest_ns=0,
        meta=meta,
        event_metas=[{"k": 1}],
    )
    tag = Tags().decode(tags.encode(block))
    assert (tag.stream, tag.codec, tag.framing, tag.meta, tag.event_metas) == (stream, JSON, LINES, meta, [{"k": 1}])
    block.receipt.ack()


def test_a_sink_is_told_to_forget_only_what_no_crash_brings_back(path: Path) -> None:
    relay = Relay(path, taker := Taker(ack=True))
    relay.give(1, 2, 3)
    relay.scheduler.run()
    relay.give(4)
    relay.scheduler.run()
    assert relay.log.low == 4
    for _ in range(2):  # slots of the cursor: the log may go on from either
        relay.scheduler.advance(1)
        relay.give(5)
        relay.scheduler.run()
    assert [block.origin and block.origin.acked_below for block in taker.blocks] == [1, 1, 1, 5]
    relay.close()


def test_a_damaged_record_is_told_and_the_rest_delivered(path: Path) -> None:
    relay = Relay(path, before := Taker())
    for number in range(5):
        relay.give(number, size=100)
        relay.scheduler.run()
    relay.close()
    before.ack_all()  # too late: void
    (chunk,) = path.glob("*.wal")
    data = bytearray(chunk.read_bytes())
    data[data.index(b'"id":2') + 5] ^= 1
    chunk.write_bytes(data)
    restarted = Relay(path, taker := Taker(ack=True))
    assert ids(taker.blocks) == [0, 1, 3, 4]
    assert restarted.world.count("quarantined_events_total") == 1
    restarted.close()


class NoDescriptors(RealDisk):
    """While `out`, nothing that exists can be opened."""

    out = False

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        if self.out and not exclusive:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().open(path, create=create, exclusive=exclusive, mode=mode)


def test_a_log_that_cannot_be_opened_now_is_read_a_second_later(path: Path) -> None:
    disk = NoDescriptors()
    relay = Relay(path, taker := Taker(ack=True), disk=disk, options=LogOptions(str(path), cache_bytes=0))
    disk.out = True
    relay.give(1)
    relay.scheduler.run()
    for _ in range(10):
        relay.reader.pump()
    assert taker.blocks == []
    assert relay.scheduler.timers.count(1.0) == 1
    disk.out = False
    relay.scheduler.advance(1.0)
    assert ids(taker.blocks) == [1]
    relay.close()
