"""One run of the source.

One job at a time reads on the scheduler's thread. Calls of librdkafka about partitions come from there too, within a read: so
the loop sees them with what was read. What is read is sent block by block, and again where a sink fails it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from connectors.kafka.incoming import MessageRun, runs_of
from connectors.kafka.partition import AssignedPartition, HeldMessages
from connectors.kafka.settings import KafkaAway, reason_of
from connectors.kafka.thread import on_thread
from walflow import Block, Outlet, Receipt, StreamId
from walflow.relay.redelivery import InFlight, Redelivery

if TYPE_CHECKING:
    from connectors.kafka.consumer import KafkaConsumer

POLL: Final = 0.25  # seconds; it returns at the first message
READ: Final = 2000  # messages at most
HOLD: Final = 1.0  # seconds that a read waits for room; then the partitions are paused, and read anew later
LEAVE: Final = (
    2.0  # seconds that events of a revoked partition have to settle: what is acked by then does not come again
)
REJECT_AGAIN: Final = 1.0  # seconds, where the path behind `err` has failed

_FINAL: Final = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}


class PartitionMessages(NamedTuple):
    """Of one read."""

    partition: AssignedPartition
    messages: Sequence[Message]


class GroupMember:
    """librdkafka's half. All of it is called on the scheduler's thread, but for `store`."""

    def __init__(self, config: "KafkaConsumer") -> None:
        self.troubles: list[KafkaError] = []  # the loop takes them when a read is over
        self.rebalances = 0
        self.assigned = False  # it has been, once
        self.partitions: dict[tuple[str, int], AssignedPartition] = {}
        self.closing = False
        self._numbers = 0
        self.paused = False
        self._client = Consumer(config.options() | {"error_cb": self.troubles.append, "on_commit": self._on_commit})
        self._client.subscribe(
            list(config.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def read(self) -> list[PartitionMessages]:
        if self.paused:
            self._client.resume(self._client.assignment())
            self.paused = False
        first = self._client.poll(POLL)
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
        """Now, without waiting for it."""
        self._client.commit(offsets=[_place(partition)], asynchronous=True)

    def close(self) -> None:
        self.closing = True
        self._client.close()

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
        by: dict[AssignedPartition, list[Message]] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self.troubles.append(error)
                continue
            assigned = self.partitions.get((message.topic() or "", message.partition() or 0))
            if assigned is not None:
                by.setdefault(assigned, []).append(message)
        return [PartitionMessages(assigned, some) for assigned, some in by.items()]

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
        end = time.monotonic() + (0 if self.closing else LEAVE)
        for each in leaving:
            each.leaving = True
        while any(each.in_flight for each in leaving) and time.monotonic() < end:
            time.sleep(0.01)
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


class KafkaConsuming:
    def __init__(self, config: "KafkaConsumer", out: Outlet) -> None:
        self._config = config
        self._out = out
        self._ready: deque[InFlight[HeldMessages]] = deque()
        self._redelivery = Redelivery[HeldMessages]()
        self._next = 1  # the position of the next event, counted since the start
        self._bytes = 0  # of what is not settled
        self._pumping = self._pump_again = self._up = False
        self._room = asyncio.Event()
        self._said = ""
        self._redelivered = out.counter("redelivered_events_total")
        self._rebalances = out.counter("rebalances_total")

    async def run(self) -> None:
        """Until it is cancelled. Raises KafkaAway where another run may do better."""
        on = partial(on_thread, self._out.scheduler)
        member = self._member = await on(lambda: GroupMember(self._config))
        self._out.gauge("kafka_assigned_partitions", lambda: len(member.partitions))
        self._out.gauge("kafka_lag_messages", member.lag)
        self._out.gauge("kafka_paused", lambda: int(member.paused))
        try:
            while True:
                self._take(await on(member.read))
                if not self._has_room():
                    await self._wait_for_room(member)
        finally:
            await on(member.close)

    async def _wait_for_room(self, member: GroupMember) -> None:
        """At first without pausing: that throws away what librdkafka has read ahead."""
        try:
            async with asyncio.timeout(HOLD):
                while not self._has_room():
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            while not self._has_room():
                self._take(await on_thread(self._out.scheduler, member.stay))

    def _has_room(self) -> bool:
        return not self._ready and self._bytes < self._out.window

    def _take(self, read: Sequence[PartitionMessages]) -> None:
        """Raises KafkaAway."""
        self._look_at_troubles()
        self._rebalances.value += self._member.rebalances
        self._member.rebalances = 0
        if self._member.assigned and not self._up:
            self._up = True
            self._out.on_ready(self._pump)
        now = time.time_ns()
        for partition, messages in read:
            for run in runs_of(messages, self._out):
                self._hold(partition, run, now)
        if read:
            self._said = ""
        self._pump()

    def _look_at_troubles(self) -> None:
        troubles = self._member.troubles.copy()
        self._member.troubles.clear()
        for error in troubles:
            reason = reason_of(error)
            if error.fatal() or error.code() in _FINAL:
                raise KafkaAway(reason)
            if reason != self._said:  # librdkafka goes on trying, and says it each time
                self._said = reason
                self._out.log.warning("kafka", reason=reason)

    def _hold(self, partition: AssignedPartition, run: MessageRun, now: int) -> None:
        held = HeldMessages(partition, self._next, run.frames, run.metas, run.end, now)
        self._next += run.frames.count
        self._bytes += len(run.frames.data)
        partition.hold(held)
        if run.refused:
            self._reject(held, run.refused)
        else:
            self._ready.append(InFlight(held.first, self._next - 1, held))

    # what goes

    def _pump(self) -> None:
        """A block may settle while it is being sent."""
        self._pump_again = True
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._pump_again:
                self._pump_again = False
                self._send_ready()
        finally:
            self._pumping = False
        if self._has_room():
            self._room.set()

    def _send_ready(self) -> None:
        while self._ready and not self._redelivery.blocks:
            part = self._ready.popleft()
            partition = part.record.partition
            if partition.gone or partition.leaving:
                self._forget(part)
            elif not self._send(part):
                self._ready.appendleft(part)
                return

    def _send(self, part: InFlight[HeldMessages]) -> bool:
        partition = part.record.partition
        block = self._block(part, Receipt(partial(self._settled, part), part.count, None, part.skip))
        partition.in_flight += part.count
        if self._out.send(block):
            return True
        partition.in_flight -= part.count
        block.receipt.settled = _not_sent
        block.receipt.ack()
        return False

    def _block(self, part: InFlight[HeldMessages], receipt: Receipt) -> Block:
        held = part.record
        start = part.first - held.first
        return Block(
            StreamId(self._out.name, self._out.run, held.partition.number),
            held.frames.slice(start, start + part.count),
            self._out.codec,
            receipt,
            ingest_ns=held.ingest_ns,
            meta={},
            event_metas=held.metas[start : start + part.count],
        )

    def _reject(self, held: HeldMessages, reason: str) -> None:
        part = InFlight(held.first, held.first + held.frames.count - 1, held)

        def settled(receipt: Receipt) -> None:
            if receipt.cause is None or held.partition.gone:
                self._done(held, part.count)
            else:
                self._out.scheduler.call_later(REJECT_AGAIN, lambda: self._reject(held, reason))

        self._out.reject(self._block(part, Receipt(settled, part.count)), reason)

    def _settled(self, part: InFlight[HeldMessages], receipt: Receipt) -> None:
        held = part.record
        if receipt.done:
            self._done(held, receipt.done)
        if receipt.cause is not None and receipt.done < part.count:
            left = part.failed(receipt.done, receipt.delivered)
            self._redelivered.value += left.count
            self._out.log.warning(
                "redelivery",
                topic=held.partition.topic,
                partition=held.partition.partition,
                events=left.count,
                attempts=left.attempts,
                cause=str(receipt.cause),
            )
            self._out.scheduler.call_later(self._redelivery.add(left), self._redeliver)
        held.partition.in_flight -= part.count  # after the offset is stored: a thread may wait for this
        self._pump()

    def _redeliver(self) -> None:
        self._ready.extendleft(reversed(self._redelivery.take()))
        self._pump()

    def _done(self, held: HeldMessages, count: int) -> None:
        held.left -= count
        if not held.left:
            self._bytes -= len(held.frames.data)
        partition = held.partition
        if partition.gone or not partition.advance():
            return
        try:
            self._member.store(partition)
            if not self._config.commit_interval:
                self._member.commit(partition)
        except (KafkaException, RuntimeError):  # it was revoked, or all is closed: these messages come again
            self._out.log.debug("offset not stored", topic=partition.topic, partition=partition.partition)

    def _forget(self, part: InFlight[HeldMessages]) -> None:
        """Another member of the group sends it."""
        held = part.record
        held.left -= part.count
        if not held.left:
            self._bytes -= len(held.frames.data)


def _place(partition: AssignedPartition) -> TopicPartition:
    assert partition.acked is not None
    return TopicPartition(partition.topic, partition.partition, partition.acked)


def _not_sent(receipt: Receipt) -> None:
    """There was no room. The block is made again later."""
