"""Messages of a read become blocks, without a broker."""

from collections.abc import Sequence

from confluent_kafka import Message
from hypothesis import given, strategies as st

from connectors.kafka.message_runs import BLOCK_BYTES, MessageMetas, MessageRun, runs_of
from walflow.codecs import JSON
from walflow.testing import MemoryOutlet, VirtualScheduler

PAYLOADS = st.lists(st.sampled_from([b"1", b'{"a":1}', b"bad", b"", None, b'"two\\nlines"', b"[1,\n2]"]), max_size=40)


def read(values: Sequence[bytes | None], at: int = 0) -> list[Message]:
    return [
        Message(topic="t", value=value, key=b"k", partition=3, offset=number, timestamp=(1, 1000 + number))
        for number, value in enumerate(values, at)
    ]


def runs(values: Sequence[bytes | None], at: int = 0) -> list[MessageRun]:
    out = MemoryOutlet(VirtualScheduler())
    out.codec = JSON
    return runs_of(read(values, at), out)


def offsets(run: MessageRun) -> list[object]:
    told = [meta["kafka_consumer"] for meta in run.metas]
    return [one["offset"] for one in told if isinstance(one, dict)]


@given(PAYLOADS)
def test_each_message_is_in_one_run_in_order_and_what_is_no_event_is_alone(values: list[bytes | None]) -> None:
    found = runs(values, at=7)
    payloads = [payload for run in found for payload in run.frames.payloads()]
    assert payloads == [value or b"" for value in values]
    assert [offset for run in found for offset in offsets(run)] == list(range(7, 7 + len(values)))
    for run in found:
        assert run.frames.count == len(run.metas)
        assert bool(run.refused) == any(payload in (b"bad", b"") for payload in run.frames.payloads())
        assert not run.refused or run.frames.count == 1
    assert [run.end for run in found] == [*(offsets(run)[0] for run in found[1:]), 7 + len(values)][: len(found)]


def test_a_read_is_a_block_until_it_is_too_large() -> None:
    assert [run.frames.count for run in runs([b"1"] * 2000)] == [2000]
    large = b'"%b"' % (b"x" * (BLOCK_BYTES // 4))
    assert [run.frames.count for run in runs([large] * 7)] == [3, 3, 1]


def test_metadata_is_made_when_it_is_asked_for() -> None:
    (run,) = runs([b"1"] * 100)
    some = run.metas[10:20]
    assert isinstance(some, MessageMetas)
    assert some[5] == {
        "kafka_consumer": {
            "key": b"k",
            "headers": None,
            "topic": "t",
            "partition": 3,
            "offset": 15,
            "timestamp": 1015 * 1_000_000,
        }
    }


def test_what_is_kept_for_the_metadata_has_no_payload() -> None:
    out = MemoryOutlet(VirtualScheduler())
    out.codec = JSON
    messages = read([b"1"] * 10)
    runs_of(messages, out)
    assert not any(message.value() for message in messages)
