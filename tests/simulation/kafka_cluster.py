"""A cluster of Kafka and its client, as far as walflow's connectors ask them: a topic, a group of consumers, an
idempotent producer. `confluent_kafka` has threads and sockets of its own, so its `Consumer` and `Producer` are
replaced, and nothing of walflow's. What they do is compared with the real ones
(`tests/simulation/test_kafka_cluster.py`).

A group rebalances eagerly, as librdkafka does by default: all members give all back, then each gets its part. Who was
killed is a member until its session has ended.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from connectors.kafka.connector import KafkaConsumer, KafkaProducer
from connectors.kafka.consumer_run import KafkaConsumerRun
from connectors.kafka.producer_run import KafkaProducerRun
from walflow import Inlet, Outlet
from walflow.codecs import JSON
from walflow.testing.simulation import Life, Machine
from walflow.testing.simulation.ends import PeerLedger, outside
from walflow.testing.simulation.life import now_running
from walflow.testing.simulation.loop import SimulatedLoop
from walflow.testing.simulation.strands import Strand, strand

TOPIC: Final = "events"
PARTITIONS: Final = 4
SESSION: Final = 45.0  # seconds of silence until a member is out (session.timeout.ms)
COMMITS: Final = 5.0  # seconds between two commits of what is stored (auto.commit.interval.ms)
BEATS: Final = 3.0  # seconds (heartbeat.interval.ms)
LATENCY: Final = 0.003  # seconds to a broker and back, on the average
TRIES_AGAIN: Final = 0.5  # seconds (retry.backoff.max.ms is 1 s)
SAYS_SO: Final = 1.0  # seconds between two calls of error_cb

Partition = int
OnPartitions = Callable[[Any, list[TopicPartition]], None]


class Doze:
    """A client that waits in a call, on a strand, until something happens."""

    def __init__(self, loop: SimulatedLoop, life: Life) -> None:
        self._loop = loop
        self._life = life
        self._asleep: Strand | None = None

    def wait(self, seconds: float) -> None:
        one = self._asleep = strand()
        assert one is not None, "only a thread may wait"
        timer = self._loop.call_later(seconds, self._wake)
        one.pause()
        timer.cancel()

    def stir(self) -> None:
        """From outside."""
        if self._asleep is not None:
            self._loop.call_outside(0.0, lambda: self._life.run(self._wake))

    def _wake(self) -> None:
        one, self._asleep = self._asleep, None
        if one is not None:
            one.resume()


class KafkaTopic:
    """What one host has: a topic, and the group that reads it. `is_up` says whether the host answers."""

    def __init__(self, loop: SimulatedLoop, dice: Random, is_up: Callable[[], bool]) -> None:
        self.loop = loop
        self.dice = dice
        self.is_up = is_up
        self.messages: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.committed: dict[Partition, int] = {}
        self.members: list[StoryConsumer] = []
        self.generation = 0
        self.assigned: dict[StoryConsumer, list[Partition]] = {}
        self._rebalancing = False
        loop.call_outside(BEATS, self._beat)

    def __repr__(self) -> str:
        return f"<KafkaTopic, {[*map(len, self.messages)]} messages, {self.committed} committed>"

    def put(self, payload: bytes) -> bool:
        """True: it has it."""
        self.messages[self.dice.randrange(PARTITIONS)].append(payload)
        self.stir()
        return True

    def left(self) -> str:
        """What is not committed."""
        behind = {
            number: len(some) - self.committed.get(number, 0)
            for number, some in enumerate(self.messages)
            if len(some) > self.committed.get(number, 0)
        }
        return f"{behind} of Kafka's partitions are not committed" if behind else ""

    def stir(self) -> None:
        for member in self.members:
            member.doze.stir()

    # the group

    def join(self, member: "StoryConsumer") -> None:
        if member not in self.members:
            self.members.append(member)
        member.heard = self.loop.time()
        member.joined = False
        self._rebalance()

    def leave(self, member: "StoryConsumer") -> None:
        if member in self.members:
            self.members.remove(member)
            self.assigned.pop(member, None)
            self._rebalance()

    def rejoin(self, member: "StoryConsumer") -> None:
        """It has given back what it had."""
        member.joined = True
        if self._rebalancing and all(one.joined for one in self.members):
            self._assign()

    def wants_back(self, member: "StoryConsumer") -> bool:
        return self._rebalancing and not member.joined

    def may_commit(self, member: "StoryConsumer", number: Partition) -> bool:
        return self.is_up() and number in self.assigned.get(member, [])

    def commit(self, member: "StoryConsumer", offsets: Mapping[Partition, int]) -> None:
        for number, offset in offsets.items():
            if self.may_commit(member, number):
                self.committed[number] = offset

    def _rebalance(self) -> None:
        self._rebalancing = bool(self.members)
        for member in self.members:
            member.joined = False
        self.stir()

    def _assign(self) -> None:
        self._rebalancing = False
        self.generation += 1
        count = len(self.members)
        self.assigned = {member: [*range(PARTITIONS)][at::count] for at, member in enumerate(self.members)}
        self.stir()

    def _beat(self) -> None:
        now = self.loop.time()
        for member in [*self.members]:
            if member.runs() and self.is_up():
                member.heard = now
                member.commits_stored(now)
            elif now - member.heard > SESSION and self.is_up():
                self.leave(member)
        self.loop.call_outside(BEATS, self._beat)


class StoryConsumer:
    """`confluent_kafka.Consumer`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        life = now_running()
        assert life is not None
        self.topic = kafka.get().topic(str(config["bootstrap.servers"]).partition(":")[0])
        self.doze = Doze(self.topic.loop, life)
        self.heard = self.topic.loop.time()
        self.joined = False
        self._life = life
        self._error: Callable[[KafkaError], None] = config["error_cb"]
        self._owned: list[Partition] = []
        self._generation = 0
        self._positions: dict[Partition, int] = {}
        self._stored: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._calls: tuple[OnPartitions, OnPartitions, OnPartitions]
        self._commits_at = self._says_at = 0.0
        self._closed = False

    def runs(self) -> bool:
        return self._life.alive and self._life.stopped is None

    def subscribe(
        self, _topics: Sequence[str], *, on_assign: OnPartitions, on_revoke: OnPartitions, on_lost: OnPartitions
    ) -> None:
        self._calls = on_assign, on_revoke, on_lost

    def poll(self, timeout: float) -> Message | None:
        end = self.topic.loop.time() + timeout
        while True:
            self._group()
            found = self._next(1)
            left = end - self.topic.loop.time()
            if found or left <= 0:
                return found[0] if found else None
            self.doze.wait(left)

    def memberid(self) -> str:
        return "one" if self in self.topic.members else ""

    def consume(self, count: int, _timeout: float) -> list[Message]:
        return self._next(count)

    def assignment(self) -> list[TopicPartition]:
        return _parts(self._owned)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused.update(each.partition for each in partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused.difference_update(each.partition for each in partitions)

    def store_offsets(self, *, offsets: Sequence[TopicPartition]) -> None:
        self._check(offsets)
        self._stored.update((each.partition, each.offset) for each in offsets)

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        self._check(offsets)
        told = {each.partition: each.offset for each in offsets}
        self.topic.loop.call_outside(LATENCY, lambda: self.topic.commit(self, told))

    def get_watermark_offsets(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        return 0, len(self.topic.messages[partition.partition])

    def close(self) -> None:
        """A thread of its own calls it, and the strand waits for that."""
        if self._owned:
            self._give_back(1)
        self._closed = True
        if self.topic.is_up():
            self.topic.leave(self)

    def commits_stored(self, now: float) -> None:
        if now >= self._commits_at:
            self._commits_at = now + COMMITS
            self.topic.commit(self, self._stored)

    def _check(self, offsets: Sequence[TopicPartition]) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")
        if any(each.partition not in self._owned for each in offsets):
            raise KafkaException(KafkaError(KafkaError._STATE))

    def _group(self) -> None:
        """Hears what the group's coordinator says."""
        topic = self.topic
        if not topic.is_up():
            if topic.loop.time() >= self._says_at:
                self._says_at = topic.loop.time() + SAYS_SO
                self._error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
            return
        if self not in topic.members:
            if self._owned:
                self._give_back(2)
            topic.join(self)
        if topic.wants_back(self):
            if self._owned:
                self._give_back(1)
            topic.rejoin(self)
        mine = topic.assigned.get(self)
        if mine is not None and self._generation != topic.generation and self.joined and not self._owned:
            self._generation = topic.generation
            self._owned = [*mine]
            self._positions = {number: topic.committed.get(number, 0) for number in mine}
            self._calls[0](self, _parts(mine))

    def _give_back(self, call: int) -> None:
        """`call`: 1, it is asked to; 2, others have it already."""
        self._calls[call](self, _parts(self._owned))
        if call == 1:
            self.topic.commit(self, self._stored)
        self._owned, self._stored, self._paused = [], {}, set()

    def _next(self, count: int) -> list[Message]:
        found: list[Message] = []
        for number in self._owned if self.topic.is_up() else []:
            at = self._positions[number]
            some = [] if number in self._paused else self.topic.messages[number][at : at + count - len(found)]
            self._positions[number] += len(some)
            found += [
                Message(TOPIC, number, at + n, None, value, None, None, (1, 1_700_000_000_000))
                for n, value in enumerate(some)
            ]
        return found


class _Produced(NamedTuple):
    value: bytes
    report: Callable[[KafkaError | None, Message], None]


class StoryProducer:
    """`confluent_kafka.Producer`, with `enable.idempotence`: what is sent again comes once."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        life = now_running()
        assert life is not None
        name = str(config["bootstrap.servers"]).partition(":")[0]
        peer = outside.get().peers[name]
        assert isinstance(peer, KafkaPeer)
        self._peer = peer
        self._loop = peer.machine.loop
        self._dice = peer.dice
        self._doze = Doze(self._loop, life)
        self._life = life
        self._error: Callable[[KafkaError], None] = config["error_cb"]
        self._says_at = 0.0
        self._queued: deque[_Produced] = deque()
        self._flying: list[_Produced] = []
        self._reports: list[tuple[_Produced, KafkaError | None]] = []

    def __len__(self) -> int:
        return len(self._queued) + len(self._flying) + len(self._reports)

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        if not self._peer.is_up():
            self._doze.wait(timeout)
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None)})

    def produce(
        self,
        _topic: str,
        value: bytes,
        _key: bytes | None,
        _partition: int,
        report: Callable[[KafkaError | None, Message], None],
        *_: object,
    ) -> None:
        self._queued.append(_Produced(value, report))
        self._send()

    def poll(self, timeout: float) -> int:
        end = self._loop.time() + timeout
        while not self._reports and (left := end - self._loop.time()) > 0:
            if not self._peer.is_up() and self._loop.time() >= self._says_at:
                self._says_at = self._loop.time() + SAYS_SO
                self._error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
            self._doze.wait(left)
        reports, self._reports = self._reports, []
        for one, error in reports:
            one.report(error, Message(TOPIC, 0, 0, None, one.value, None, error, None, LATENCY))
        return len(reports)

    def flush(self, timeout: float) -> int:
        end = self._loop.time() + timeout
        while len(self) and (left := end - self._loop.time()) > 0:
            self.poll(left)
        return len(self)

    def purge(self, *, blocking: bool) -> None:
        """What flies may arrive all the same."""
        for some, code in ((self._queued, KafkaError._PURGE_QUEUE), (self._flying, KafkaError._PURGE_INFLIGHT)):
            self._reports += [(one, KafkaError(code)) for one in some]
        self._queued.clear()
        self._flying = []
        self._doze.stir()

    def _send(self) -> None:
        if self._flying or not self._queued:
            return
        self._flying = flying = [*self._queued]
        self._queued.clear()
        self._loop.call_outside(self._dice.expovariate(1 / LATENCY), lambda: self._arrives(flying))

    def _arrives(self, flying: list[_Produced]) -> None:
        if not self._life.alive and self._dice.random() < 0.5:
            return
        if not self._peer.is_up() or self._peer.mood == "silent":
            if self._life.alive:
                self._loop.call_outside(TRIES_AGAIN, lambda: self._arrives(flying))
            return
        errors = [self._peer.takes(one.value) for one in flying]
        self._loop.call_outside(
            self._dice.expovariate(1 / LATENCY), lambda: self._life.run(lambda: self._answered(flying, errors))
        )

    def _answered(self, flying: list[_Produced], errors: Sequence[KafkaError | None]) -> None:
        if self._flying is flying:  # otherwise it was purged
            self._reports += zip(flying, errors, strict=True)
            self._flying = []
            self._send()
        self._doze.stir()


class KafkaPeer(PeerLedger):
    """A cluster as a producer sees it."""

    machine: Machine

    def is_up(self) -> bool:
        return self.mood != "away" and not self.machine.net.route(self.name).down

    def takes(self, value: bytes) -> KafkaError | None:
        """What it says of a message."""
        number = cast("Mapping[str, int]", JSON.decode(value)).get("n", -1)
        if self.mood == "busy":
            return KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        if number in self.chokes:
            return KafkaError(KafkaError.UNKNOWN)
        if number in self.poison:
            return KafkaError(KafkaError.POLICY_VIOLATION)
        self.take([value])
        return None


class KafkaCluster:
    """The topics of a story, by host."""

    machine: Machine

    def __init__(self) -> None:
        self._topics: dict[str, KafkaTopic] = {}

    def topic(self, host: str) -> KafkaTopic:
        machine = self.machine
        if host not in self._topics:
            up = lambda: not machine.net.route(host).down
            self._topics[host] = KafkaTopic(machine.loop, machine.dice, up)
        return self._topics[host]


kafka: ContextVar[KafkaCluster] = ContextVar("kafka")


class StoryKafkaConsumer(KafkaConsumer):
    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await KafkaConsumerRun(self, out, cast("Any", StoryConsumer)).run()


class StoryKafkaProducer(KafkaProducer):
    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await KafkaProducerRun(self, inlet, cast("Any", StoryProducer)).run()


def _parts(numbers: Sequence[Partition]) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, number) for number in numbers]
