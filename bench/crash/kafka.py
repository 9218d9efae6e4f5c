"""Kafka: one broker that is its own controller, between a producer that waits for all acks and a consumer that
commits what it has taken. Both are librdkafka's; the broker's jars are those of the tests."""

import asyncio
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer

from bench.crash.ends import PATIENCE, Client, Receiver
from bench.crash.events import event
from bench.crash.ledger import Ledger
from bench.crash.systems import Ready, System
from demo.server import free_port
from pyspark_walflow.java import find_java
from tests.broker import jars

PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
CLUSTER: Final = "d2FsZmxvdy10ZXN0cy1rYQ"
TOPIC: Final = "events"
FETCH: Final = 20
QUIETLY: Final[Mapping[str, object]] = {"log_level": 0, "error_cb": lambda _: None}


class KafkaClient:
    acks = "acks=all"

    def __init__(self, port: int) -> None:
        self._options = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": True,
            "delivery.timeout.ms": int(PATIENCE * 1000) - 500,
            "request.timeout.ms": 2000,
            "linger.ms": 0,
            **QUIETLY,
        }
        self._producer: Producer | None = None

    async def send(self, first: int, count: int, ledger: Ledger) -> None:
        if self._producer is None:
            self._producer = await asyncio.to_thread(Producer, self._options)
        producer, failed = self._producer, list[str]()
        ledger.sent.update(range(first, first + count))
        for number in range(first, first + count):
            producer.produce(
                TOPIC, event(number), on_delivery=lambda error, _: failed.append(str(error)) if error else None
            )
        left = await asyncio.to_thread(producer.flush, PATIENCE - 0.2)
        if left or failed:
            raise OSError(failed[0] if failed else "no ack")

    def close(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


class KafkaTaker(Receiver):
    """A consumer of a group. It commits after each poll what it has taken."""

    def __init__(self, ledger: Ledger, broker: int) -> None:
        super().__init__(ledger, broker)
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._stops = threading.Event()

    async def start(self) -> None:
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._consume, args=(self._stops,), daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        self._stops.set()
        if thread is not None:
            await asyncio.to_thread(thread.join, 10)

    def _consume(self, stops: threading.Event) -> None:
        options = {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "topic.metadata.refresh.interval.ms": 500,
            **QUIETLY,
        }
        consumer = Consumer(options)
        consumer.subscribe([TOPIC])
        while not stops.is_set():
            with suppress(KafkaException, RuntimeError):
                found = [one for one in consumer.consume(FETCH, 0.5) if one.error() is None]
                if found and self._take(found, stops):
                    consumer.commit(asynchronous=False)
        with suppress(RuntimeError):
            consumer.close()

    def _take(self, found: list[Message], stops: threading.Event) -> bool:
        """What is refused for now, or not answered, is tried again here: a consumer has the rest behind it."""
        data = b"\n".join(one.value() or b"" for one in found)
        while not stops.is_set():
            verdict = asyncio.run_coroutine_threadsafe(self.judge(data), self._loop)
            with suppress(EOFError):
                if verdict.result() == "taken":
                    return True
            stops.wait(0.5)
        return False


class Kafka(System):
    name = "Kafka, one broker, acks=all"
    promise = "acks=all: the leader waits for all in-sync replicas; one broker has none, and syncs as the kernel does"
    page = "https://kafka.apache.org/documentation/#producerconfigs_acks"
    leaves_out: Mapping[str, str] = {"poison event": "what to do with it is the consumer's own affair"}

    def absent(self) -> str | None:
        return jars.absent()

    def version(self) -> str:
        return next(
            (one.stem.replace("kafka_2.13-", "Kafka ") for one in jars.jars().glob("kafka_2.13-*.jar")), "Kafka"
        )

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        properties = directory / "server.properties"
        java = [find_java().path, "-Xmx512m", "-cp", f"{jars.jars()}/*"]
        if not properties.exists():
            properties.write_text(PROPERTIES.format(port=port, controller=free_port(), data=directory / "data"))
            tool = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
            subprocess.run(tool, check=True, capture_output=True)
        return Ready([*java, "kafka.Kafka", str(properties)], {})

    def client(self, port: int) -> Client:
        return KafkaClient(port)

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        return KafkaTaker(ledger, own)
