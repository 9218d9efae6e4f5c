"""`qos::dedupe`: each key once, and no event lost for it."""

import errno
import json
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.operators.flows import LOST, Running
from tests.receipts import had_by, known
from walflow.codecs import JSON
from walflow.disk import RealDisk
from walflow.errors import DirectoryLocked, Unusable
from walflow.event import Block, Frames, Node, Origin, StreamId
from walflow.framing import LINES
from walflow.operators.seen import HEADER, SIZE, SeenFile, SeenKeys
from walflow.receipt import Delivered, Receipt

BODY = """
    define operator dedupe from qos::dedupe with key = "id"{more} end;
    create operator dedupe;
    select event from in into dedupe;
    select event from dedupe into out;
"""
STREAM = StreamId("main::ticks", 1, 1)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Log:
    """What a log upstream does: it sends what is not acked again, and again."""

    def __init__(self, more: str = "") -> None:
        self.running = Running(BODY.format(more=more))
        self.world = self.running.world
        self.sink = self.running.sinks[0]
        self.settled: list[Receipt] = []

    @property
    def node(self) -> Node:
        [operator] = self.running.nodes.operators
        return operator.node

    def give(self, *ids: object, delivered: Delivered | None = None) -> Receipt:
        payloads = [json.dumps({"id": one}).encode() for one in ids]
        frames = Frames(LINES.join(payloads), len(ids), LINES)
        receipt = Receipt(self.settled.append, len(ids), ids, delivered)
        self.node.accept(
            Block(STREAM, frames, JSON, receipt, ingest_ns=1, meta={}, origin=Origin("log", 1, len(ids), 1))
        )
        return receipt

    @property
    def got(self) -> list[object]:
        return [event["id"] for event in self.sink.got if isinstance(event, dict)]

    def work(self) -> None:
        """The loop turns and the operator's thread works, until nothing is left to do."""
        self.world.scheduler.run()

    def end(self) -> None:
        self.running.end()
        self.work()


@pytest.mark.parametrize("keys", [(b"1e400", b"1e500"), (b"[-1e400]", b"[-1e500]")])
def test_a_key_that_cannot_be_compared_passes(keys: tuple[bytes, bytes]) -> None:
    log = Log()
    for key in keys:
        payload = b'{"id":' + key + b"}"
        receipt = Receipt(log.settled.append, 1)
        log.node.accept(Block(STREAM, Frames(payload + b"\n", 1, LINES), JSON, receipt, ingest_ns=1, meta={}))
    assert sum(block.frames.count for block in log.sink.waiting) == 2
    log.sink.ack()
    assert [receipt.cause for receipt in log.settled] == [None, None]
    log.end()


def test_a_key_that_was_delivered_does_not_pass_again() -> None:
    log = Log()
    log.give(1, 2)
    log.sink.ack()
    again = log.give(2, 3)
    assert log.got == [1, 2, 3]
    assert again.pending  # for its third
    log.sink.ack()
    assert not again.pending
    assert log.give(1).cause is None
    assert log.world.count("deduplicated_events_total") == 2
    log.end()


def test_a_key_that_failed_passes_when_it_comes_again() -> None:
    log = Log()
    first = log.give(1, 2, 3)
    log.sink.fail(done=1)
    assert first.done == 1
    log.give(2, 3)
    log.sink.ack()
    assert log.got == [1, 2, 3, 2, 3]
    log.give(1, 2, 3)
    assert log.got == [1, 2, 3, 2, 3]
    log.end()


def test_a_second_event_with_the_key_shares_the_outcome_of_the_first() -> None:
    log = Log()
    log.give(1)
    second = log.give(0, 1)
    assert log.got == [1, 0]
    log.sink.node.fail(log.sink.waiting.pop(0), LOST)  # the first with key 1
    log.sink.ack()
    assert second.cause is LOST
    assert second.done == 1  # 0 is delivered, 1 is to come again
    third = log.give(1)
    fourth = log.give(1)
    log.sink.ack()
    assert third.cause is None
    assert fourth.cause is None
    assert log.got == [1, 0, 1]
    log.end()


def test_two_with_one_key_in_one_block() -> None:
    log = Log()
    failing = log.give(1, 2, 1)
    log.sink.fail(done=1)
    assert failing.done == 1
    assert failing.cause is LOST
    again = log.give(2, 1)
    assert log.got == [1, 2, 2]
    log.sink.ack()
    assert again.cause is None
    log.end()


def test_what_a_sink_has_of_a_block_is_remembered_through_it() -> None:
    log = Log()
    log.give(1, 2)
    block = log.sink.waiting.pop()
    block.receipt.fork(1)
    block.receipt.ack("f::one")
    block.receipt.fail(LOST, 0, "f::other")
    assert had_by(log.settled[0]) == {"f::one"}
    log.give(1, 2, delivered=known(2, "f::one"))
    assert log.sink.waiting[0].receipt.delivered == known(2, "f::one")
    log.sink.ack()
    log.end()


def test_an_event_without_the_key_passes() -> None:
    running = Running(BODY.format(more="").replace('"id"', '"a.b"'))
    running.give({"a": {"b": {"x": 1, "y": 2}}}, {"a": 1}, [], 7, {"a": {"b": {"y": 2, "x": 1}}})
    assert len(running.sinks[0].got) == 4
    assert running.world.count("keyless_events_total") == 3
    running.give(7)
    assert running.sinks[0].got[-1] == 7
    running.end()


@pytest.mark.parametrize(
    ("one", "other"), [(1, "1"), (1, 1.5), (None, "null"), ([1], "[1]"), (2**70, 2**70 + 1), (True, 1)]
)
def test_keys_of_different_kinds_are_different(one: object, other: object) -> None:
    log = Log()
    log.give(one)
    log.give(other)
    assert len(log.got) == 2
    log.sink.ack()
    log.end()


def test_the_oldest_key_is_forgotten_first() -> None:
    log = Log(", max_keys = 2")
    for number in (1, 2, 3, 1):
        log.give(number)
        log.sink.ack()
    assert log.got == [1, 2, 3, 1]
    log.end()


# ---- on disk


def test_nothing_is_acked_upstream_before_its_keys_are_on_disk() -> None:
    log = Log(', dir = "keys"')
    log.world.scheduler.holding = True
    receipts = [log.give(1), log.give(2)]
    log.sink.ack()
    assert all(receipt.pending for receipt in receipts)
    log.world.scheduler.run()
    assert all(receipt.pending for receipt in receipts)
    third = log.give(3)
    log.sink.ack()
    log.world.scheduler.work()
    assert not any(receipt.pending for receipt in receipts)
    assert third.pending
    log.world.scheduler.holding = False
    log.work()
    assert not any(receipt.pending for receipt in [*receipts, third])
    stored = Path("keys/seen").read_bytes()
    assert stored.startswith(HEADER)
    assert len(stored) == len(HEADER) + 3 * SIZE
    log.end()
    after = Log(', dir = "keys"')
    after.give(1, 2, 3, 4)
    assert after.got == [4]
    after.sink.ack()
    after.work()
    after.end()


def test_killed_between_the_ack_and_the_write_it_repeats() -> None:
    log = Log(', dir = "keys"')
    log.give(1)
    log.sink.ack()  # and nothing more: the process is gone
    assert log.settled == []
    os.rename("keys", "elsewhere")  # the lock of the dead goes with it
    after = Log(', dir = "keys"')
    after.give(1)
    assert after.got == [1]
    after.sink.ack()
    after.work()
    for one in (log, after):
        one.end()


def test_a_disk_that_is_full_stops_the_acks_and_they_follow(tmp_path: Path) -> None:
    log = Log(', dir = "keys"')
    os.mkdir("keys/seen.new")  # so that it cannot be written
    receipt = log.give(1)
    log.sink.ack()
    log.work()
    assert receipt.pending
    os.rmdir("keys/seen.new")
    log.world.scheduler.advance(1.0)
    log.work()
    assert not receipt.pending
    log.end()
    assert SeenFile("keys", 10).keys


def test_a_directory_has_one_owner() -> None:
    held = SeenFile("keys", 10)
    with pytest.raises(DirectoryLocked, match="keys is in use"):
        SeenFile("keys", 10)
    held.close()


def test_a_directory_whose_lock_file_was_removed_has_one_owner() -> None:
    held = SeenFile("keys", 10)
    os.unlink("keys/lock")
    with pytest.raises(DirectoryLocked, match="keys is in use"):
        SeenFile("keys", 10)
    held.write_anew([b"1" * 16])
    assert os.path.exists("keys/lock")
    held.close()


def test_keys_of_a_directory_that_is_another_one_are_held_until_it_is_back() -> None:
    log = Log(', dir = "keys"')
    receipt = log.give(1)
    os.rename("keys", "aside")
    os.mkdir("keys")
    log.sink.ack()
    log.work()
    assert receipt.pending
    assert os.listdir("keys") == []
    os.rmdir("keys")
    os.rename("aside", "keys")
    log.world.scheduler.advance(1.0)
    log.work()
    assert not receipt.pending
    log.end()


def test_two_in_one_flow_with_one_directory_are_refused() -> None:
    body = BODY.format(more=', dir = "keys"').replace(
        "create operator dedupe;", "create operator dedupe; create operator b from dedupe;"
    )
    with pytest.raises(
        AssertionError, match="operator `main::p/b` and operator `main::p/dedupe` have the same directory of keys"
    ):
        Running(body)


def test_a_file_of_twice_as_many_keys_is_written_anew() -> None:
    file, window = SeenFile("keys", 3), SeenKeys(3)
    for number in range(20):
        keys = [b"%016d" % number]
        window.add(keys)
        if file.is_due(1):
            file.write_anew(window.keys())
        else:
            file.write(keys)
        assert os.path.getsize("keys/seen") <= len(HEADER) + 6 * SIZE
    file.close()
    again = SeenFile("keys", 3)
    assert again.keys == [b"%016d" % number for number in (17, 18, 19)]
    assert again.damage is None
    again.close()


@pytest.mark.parametrize("most", [3, 10**10, 10**30])
def test_another_bound_keeps_the_newest(most: int) -> None:
    file = SeenFile("keys", 100)
    kept = [b"%016d" % number for number in range(50)]
    file.write_anew(kept)
    file.close()
    again = SeenFile("keys", most)
    assert again.keys == kept[-most:]
    assert again.damage is None
    again.close()


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 200))
@settings(max_examples=examples(50), deadline=None)
def test_it_opens_whatever_is_in_its_file(garbage: bytes, at: int, cut: int) -> None:
    file = SeenFile("keys", 100)
    kept = [b"%016d" % number for number in range(5)]
    file.write_anew(kept)
    file.close()
    path = Path("keys/seen")
    sound = path.read_bytes()
    path.write_bytes((sound[:at] + garbage + sound[at + len(garbage) :])[: max(1, cut)])
    damaged = SeenFile("keys", 100)
    assert set(damaged.keys) <= set(kept)
    assert damaged.is_due(1)
    damaged.write_anew(damaged.keys)
    damaged.close()
    mended = SeenFile("keys", 100)
    assert mended.damage is None
    mended.close()


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_each_key_once_among_failures_and_repeats_and_none_missing(seed: int, on_disk: bool) -> None:
    """Against a plain reading: a log that sends again what failed, a source that repeats itself, a sink that acks,
    fails and partly fails in any order. What the sink acked is each key, once."""
    chance = Random(seed)
    log = Log(f', dir = "keys{seed}-{on_disk}"' if on_disk else "")
    acked: Counter[object] = Counter()
    waiting = [[chance.randrange(30) for _ in range(chance.randint(1, 6))] for _ in range(15)]
    wanted = {key for block in waiting for key in block}

    def settle(fails: bool) -> None:
        block = log.sink.waiting.pop(chance.randrange(len(log.sink.waiting)))
        done = chance.randint(0, block.frames.count - 1) if fails else block.frames.count
        acked.update(value["id"] for value in block.values[:done] if isinstance(value, dict))
        if fails:
            log.sink.node.fail(block, LOST, done)
        else:
            log.sink.node.ack(block)

    for turn in range(5000):
        if waiting and chance.random() < 0.5:
            log.give(*waiting.pop(0))
        if log.sink.waiting and chance.random() < 0.5:
            settle(fails=turn < 200 and chance.random() < 0.4)
        if chance.random() < 0.3:
            log.work()
        for receipt in log.settled:
            ids = receipt.ref
            assert isinstance(ids, tuple)
            if receipt.cause is not None and receipt.done < len(ids):
                waiting.append(list(ids[receipt.done :]))
            assert all(acked[key] for key in ids[: receipt.done])
        log.settled.clear()
        if turn > 200 and not waiting and not log.sink.waiting:
            log.work()
            if not log.settled:
                break
    assert acked == Counter(wanted)
    log.end()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", size = 1", "unknown key `size`"),
        (", max_keys = 0", "`max_keys` must be at least 1, not 0"),
    ],
)
def test_its_configuration(more: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        Log(more)


def test_the_path_begins_within_the_event() -> None:
    with pytest.raises(AssertionError, match="it begins within the event: write `id`"):
        Running(BODY.format(more="").replace('"id"', '"event.id"'))


def test_behind_a_passthrough_it_runs_once() -> None:
    body = BODY.format(more=', dir = "keys"').replace(
        "from in into dedupe", "from in into same; select event from same into dedupe"
    )
    running = Running(f"define operator same from passthrough; create operator same; {body}")
    assert len(running.nodes.operators) == 1
    running.give({"id": 1}, {"id": 1})
    assert running.sinks[0].got == [{"id": 1}]
    running.end()
    running.world.scheduler.run()


class Closed(RealDisk):
    """What the kernel says of a directory that this process may not use.
    Root may use all, so it cannot be had for real."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        raise OSError(self._number, os.strerror(self._number), path)


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (errno.EACCES, "keys: Permission denied; walflow runs as user "),
        (errno.EROFS, "keys: Read-only file system; the file system is read-only: mount it read-write"),
        (errno.EISDIR, "keys: Is a directory; give qos::dedupe another `dir`"),
    ],
)
def test_a_directory_that_is_closed_is_said_to_be(number: int, line: str) -> None:
    with pytest.raises(Unusable) as refused:
        SeenFile("keys", 10, Closed(number))
    assert str(refused.value).startswith(line)
    assert str(refused.value).endswith("give qos::dedupe another `dir`")
