"""A log is read beside the process that appends to it, acks, deletes its oldest files and writes over them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings, strategies as st

from tests.examples import examples
from walflow.delivery import RecordFeed
from walflow.wal import Gap, Log, LogOptions

CHUNK = 2048
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 12)),
    st.tuples(st.just("append"), st.integers(1, 12)),
    st.tuples(st.just("ack"), st.integers(0, 30)),
    st.tuples(st.just("read"), st.sampled_from([1, 300, 2000, 20_000])),
    st.tuples(st.just("read"), st.sampled_from([1, 300, 2000, 20_000])),
    st.tuples(st.just("reopen"), st.just(0)),
)


class Beside:
    """A log, and a feed of it. An event is its position, and bytes that its position decides."""

    def __init__(self, path: Path, retain: int, begin: int | None) -> None:
        self.options = LogOptions(str(path), CHUNK, 64, retain_bytes=retain)
        self.log = Log(self.options)
        self.feed = RecordFeed(str(path), begin, None, follow=True)
        self.seen: list[int] = []
        self.missed: list[int] = []
        for gap in self.feed.open():
            self._miss(gap)

    def do(self, what: str, of: int) -> None:
        log = self.log
        if what == "append":
            for _ in range(of):
                first = log.next
                count = 1 + first % 3
                log.append(b"tag", _payload(first, count), count, first)
            while (commit := log.commit()) is not None:
                commit.flush()
                log.committed(commit)
        elif what == "ack":
            log.ack(1, min(log.durable, log.low + of))
            checkpoint = log.checkpoint(force=True)
            if checkpoint is not None:
                checkpoint.flush()
                log.checkpointed(checkpoint)
        elif what == "read":
            self._read(of)
        else:
            log.close()
            self.log = Log(self.options)

    def end(self) -> None:
        while self._read(1 << 20):
            pass
        self.feed.close()
        self.log.close()

    def _read(self, most: int) -> int:
        found = self.feed.read(most)
        for one in found:
            if isinstance(one, Gap):
                self._miss(one)
                continue
            assert one.payload == _payload(one.position, one.count), "the bytes of another event"
            self.seen += range(one.position, one.position + one.count)
        return len(found)

    def _miss(self, gap: Gap) -> None:
        self.missed += range(gap.first, gap.last + 1)


def _payload(position: int, count: int) -> bytes:
    return b"".join(b"%d %s\n" % (at, b"x" * (at * 37 % 200)) for at in range(position, position + count))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(60))
@given(st.sampled_from([0, 4096, 1 << 20]), st.lists(STEPS, max_size=30))
def test_each_event_comes_once_and_in_order_or_is_said_to_be_missed(
    retain: int, steps: list[tuple[str, int]]
) -> None:
    with TemporaryDirectory() as directory:
        beside = Beside(Path(directory) / "log", retain, 1)
        for what, of in steps:
            beside.do(what, of)
        there = {at for chunk in beside.log.chunks for at in range(chunk.first, chunk.last + 1)}
        last = beside.log.durable
        beside.end()
    assert beside.seen == sorted(set(beside.seen)), "out of order, or twice"
    assert sorted([*beside.seen, *beside.missed]) == list(range(1, last + 1))
    assert not there & set(beside.missed), "what is there is missed"
