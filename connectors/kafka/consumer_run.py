"""One run of the source.

One job at a time reads on the scheduler's thread. Calls of librdkafka about partitions come from there too, within a
read: so the loop sees them with what was read. What is read is sent block by block, and again where a sink fails it.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from connectors.kafka.consumer import KafkaConsumerKeys
from connectors.kafka.message_runs import runs_of
from connectors.kafka.partition import AssignedPartition, HeldMessages
from connectors.kafka.settings import KafkaAway, reason_of
from walflow import Outlet, StreamId
from walflow.delivery import Resending
from walflow.net import on_thread
from walflow.world import monotonic, sleep, wall_ns

POLL: Final = 0.25  # seconds; it returns at the first message
READ: Final = 2000  # messages at most
HOLD: Final = 1.0  # seconds that a read waits for room; then the partitions are paused, and read anew later
CLOSE: Final = 5.0  # seconds to commit and to leave the group when the run ends
LEAVE: Final = 2.0  # seconds that events of a revoked partition have to settle, so that they do not come again

JOINS: Final = (
    "the group gives it no partitions yet: a group waits for all its members, for one that died until its "
    "session.timeout.ms is over"
)

_FINAL: Final = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}


class PartitionMessages(NamedTuple):
    """The messages of one partition that one read brought."""

    partition: AssignedPartition
    messages: Sequence[Message]


class GroupMember:
    """librdkafka's half. All of it is called on the scheduler's thread, but for `store`."""

    def __init__(self, config: KafkaConsumerKeys, make: Callable[..., Consumer] = Consumer) -> None:
        self.troubles: list[KafkaError] = []  # the loop takes them when a read is over
        self.rebalances = 0
        self.assigned = False  # it has been, once
        self.known = False  # the group's broker has given it an id
        self.partitions: dict[tuple[str, int], AssignedPartition] = {}
        self.closing = False
        self._numbers = 0
        self.paused = False
        self._client = make(config.options() | {"error_cb": self.troubles.append, "on_commit": self._on_commit})
        self._client.subscribe(
            list(config.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def read(self) -> list[PartitionMessages]:
        if self.paused:
            self._client.resume(self._client.assignment())
            self.paused = False
        first = self._client.poll(POLL)
        self.known = self.known or bool(self._client.memberid())
        return self._sorted([] if first is None else [first, *self._client.consume(READ - 1, 0)])

    def stay(self) -> list[PartitionMessages]:
        """Remains in the group, and reads nothing but what was on its way."""
        self.paused = True
        self._client.pause(self._client.assignment())
        message = self._client.poll(POLL)
        return self._sorted([] if message is None else [message])

    def store(self, partition: AssignedPartition) -> None:
        """What is stored, librdkafka commits at the interval, when the partition is revoked, and at the end."""
        if partition.acked is not None:
            self._client.store_offsets(offsets=[_place(partition)])

    def commit(self, partition: AssignedPartition) -> None:
        """Commits the partition's offset, without waiting for the broker."""
        self._client.commit(offsets=[_place(partition)], asynchronous=True)

    def close(self) -> bool:
        """Commits what is stored, and leaves the group. False: no broker has answered in time, and librdkafka would
        wait for a minute."""
        self.closing = True
        closing = threading.Thread(target=self._client.close, name="kafka close", daemon=True)
        closing.start()
        closing.join(CLOSE)
        return not closing.is_alive()

    def lag(self) -> int:
        """Messages that are not acked, as far as is known without asking."""
        behind = 0
        for each in list(self.partitions.values()):
            if each.acked is None:
                continue
            _, high = self._client.get_watermark_offsets(TopicPartition(each.topic, each.partition), cached=True)
            behind += max(0, high - each.acked)
        return behind

    def _sorted(self, messages: Sequence[Message]) -> list[PartitionMessages]:
        if any(map(Message.error, messages)):
            self.troubles += [error for error in map(Message.error, messages) if error is not None]
            messages = [message for message in messages if message.error() is None]
        by: defaultdict[tuple[str | None, int | None], list[Message]] = defaultdict(list)
        for place, message in zip(_places(messages), messages, strict=True):
            by[place].append(message)
        assigned = ((self.partitions.get((topic or "", number or 0)), some) for (topic, number), some in by.items())
        return [PartitionMessages(partition, some) for partition, some in assigned if partition is not None]

    # called by librdkafka, within `read`, `stay` and `close`

    def _on_assign(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = True
        self.rebalances += 1
        for each in partitions:
            self._numbers += 1
            self.partitions[each.topic, each.partition] = AssignedPartition(each.topic, each.partition, self._numbers)

    def _on_revoke(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        """Here the thread may wait: the group does so too. What settles meanwhile is committed when this returns."""
        self.rebalances += 1
        known = [self.partitions.pop((each.topic, each.partition), None) for each in partitions]
        leaving = [each for each in known if each is not None]
        end = monotonic() + (0 if self.closing else LEAVE)
        for each in leaving:
            each.leaving = True
        while any(each.in_flight for each in leaving) and monotonic() < end:
            sleep(0.01)
        for each in leaving:
            each.gone = True

    def _on_lost(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        """Another member has them already."""
        self.rebalances += 1
        for each in partitions:
            lost = self.partitions.pop((each.topic, each.partition), None)
            if lost is not None:
                lost.gone = True

    def _on_commit(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            self.troubles.append(error)


class KafkaConsumerRun:
    """`make`: the client, of a configuration."""

    def __init__(self, config: KafkaConsumerKeys, out: Outlet, make: Callable[..., Consumer] = Consumer) -> None:
        self._make = make
        self._config = config
        self._out = out
        self._joins = self._up = False
        self._room = asyncio.Event()
        self._resending = Resending(out, self._room.set, config.max_attempts)
        self._said = ""
        self._rebalances = out.counter("rebalances_total")

    async def run(self) -> None:
        """Until it is cancelled. Raises KafkaAway where another run may do better."""
        on = partial(on_thread, self._out.scheduler)
        member = self._member = await on(lambda: GroupMember(self._config, self._make), GroupMember.close)
        self._out.gauge("kafka_assigned_partitions", lambda: len(member.partitions))
        self._out.gauge("kafka_lag_messages", member.lag)
        self._out.gauge("kafka_paused", lambda: int(member.paused))
        self._out.explain(self._awaited)
        try:
            while True:
                self._take(await on(member.read))
                if not self._resending.has_room:
                    await self._wait_for_room(member)
        finally:
            if not await on(member.close):
                self._out.log.warning(
                    "group not left",
                    reason=f"no broker has answered for {CLOSE:g} s: what was not committed comes again",
                )

    async def _wait_for_room(self, member: GroupMember) -> None:
        """At first without pausing: that throws away what librdkafka has read ahead."""
        try:
            async with asyncio.timeout(HOLD):
                while not self._resending.has_room:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            while not self._resending.has_room:
                self._take(await on_thread(self._out.scheduler, member.stay))

    def _take(self, read: Sequence[PartitionMessages]) -> None:
        """Raises KafkaAway."""
        if self._member.known and not self._joins:
            self._joins, self._said = True, ""  # what was in the way until now
        self._look_at_troubles()
        self._rebalances.value += self._member.rebalances
        self._member.rebalances = 0
        if self._member.assigned and not self._up:
            self._up = True
            self._out.on_ready(self._resending.pump)
        for partition, messages in read:
            self._hold(partition, messages)
        if read:
            self._said = ""
        self._resending.pump()

    def _look_at_troubles(self) -> None:
        troubles = self._member.troubles.copy()
        self._member.troubles.clear()
        for error in troubles:
            reason = reason_of(error)
            if error.fatal() or error.code() in _FINAL:
                raise KafkaAway(reason)
            if self._said and error.code() == KafkaError._ALL_BROKERS_DOWN:
                continue  # why, it has said
            if reason != self._said:  # librdkafka goes on trying, and says it each time
                self._said = reason
                self._out.log.warning("kafka client error", reason=reason)

    def _awaited(self) -> str:
        if self._up:
            return ""
        return self._said or (JOINS if self._joins else "")

    def _hold(self, partition: AssignedPartition, messages: Sequence[Message]) -> None:
        stream = StreamId(self._out.name, self._out.run, partition.number)
        now = wall_ns()
        for run in runs_of(messages, self._out):
            held = HeldMessages(partition, stream, run.frames, run.metas, now, run.end, self._advanced)
            self._resending.hold(held, run.refused)

    def _advanced(self, partition: AssignedPartition) -> None:
        try:
            self._member.store(partition)
            if not self._config.commit_interval:
                self._member.commit(partition)
        except (KafkaException, RuntimeError):  # it was revoked, or all is closed: these messages come again
            self._out.log.debug("offset not stored", topic=partition.topic, partition=partition.partition)


def _places(messages: Sequence[Message]) -> Iterator[tuple[str | None, int | None]]:
    return zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)


def _place(partition: AssignedPartition) -> TopicPartition:
    assert partition.acked is not None
    return TopicPartition(partition.topic, partition.partition, partition.acked)
