"""Events/s into and out of a real broker, beside Kafka's own performance tools and a plain loop over librdkafka.
`python -m tests.broker.speed`."""

import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.broker.kafka import KafkaBroker, kafka
from tests.flows.builder import flow_of, json_only
from tests.system.daemon import Daemon

LINE: Final = json.dumps({"host": "a", "pad": "x" * 75}).encode()  # 100 bytes with its newline
LINES: Final = 10_000  # of the file that is replayed
LINGER: Final = 5  # milliseconds, of all producers


class Speeds:
    """Each method is one run, and returns events/s."""

    def __init__(self, directory: Path, broker: KafkaBroker, events: int) -> None:
        self._directory = directory
        self._broker = broker
        self._events = events
        self._runs = 0
        (directory / "lines").write_bytes((LINE + b"\n") * LINES)

    def walflow_into(self) -> float:
        topic = self._new("into")
        flow = self._flow(
            json_only("bench", path="lines", iters=self._events // LINES),
            json_only("kafka_producer", brokers=self._brokers, topic=topic, rdkafka_options={"linger.ms": LINGER}),
        )
        daemon = Daemon(flow, self._directory)
        daemon.wait_for("ready")
        began = time.monotonic()
        assert daemon.wait() == 0, daemon.raw
        return self._events / (time.monotonic() - began)

    def tool_into(self) -> float:
        """kafka-producer-perf-test."""
        options = ("--topic", self._new("tool"), "--num-records", str(self._events), "--record-size", str(len(LINE)))
        properties = (f"bootstrap.servers={self._broker.address}", "acks=all", f"linger.ms={LINGER}")
        program = "org.apache.kafka.tools.ProducerPerformance"
        said = self._broker.tool(program, *options, "--throughput", "-1", "--producer-props", *properties)
        return float(re.findall(r"([\d.]+) records/sec", said)[-1])

    def loop_into(self) -> float:
        """librdkafka by the same package, with a report for each message."""
        topic, reports = self._new("loop"), 0

        def on_report(error: KafkaError | None, _message: Message) -> None:
            nonlocal reports
            assert error is None
            reports += 1

        client = Producer(
            {
                "bootstrap.servers": self._broker.address,
                "enable.idempotence": True,
                "linger.ms": LINGER,
                "log_level": 0,
            }
        )
        began = time.monotonic()
        for number in range(self._events):
            while True:
                try:
                    client.produce(topic, LINE, on_delivery=on_report)
                    break
                except BufferError:
                    client.poll(0.1)
            if not number % 1000:
                client.poll(0)
        client.flush()
        assert reports == self._events
        return self._events / (time.monotonic() - began)

    def walflow_out_of(self, topic: str) -> float:
        flow = self._flow(
            json_only("kafka_consumer", brokers=self._brokers, topics=[topic], group_id=self._new("group")),
            json_only("bench", stop_after_events=self._events, structured=True),
        )
        daemon = Daemon(flow, self._directory)
        assert daemon.wait() == 0, daemon.raw
        report = json.loads(b"".join(daemon.stdout))
        return float(report["throughput"]["events_per_second"])

    def tool_out_of(self, topic: str) -> float:
        """kafka-consumer-perf-test, without the time in which the group begins."""
        options = ("--topic", topic, "--messages", str(self._events), "--group", self._new("group"))
        program = "org.apache.kafka.tools.ConsumerPerformance"
        said = self._broker.tool(program, *options, "--bootstrap-server", self._broker.address)
        return float(said.strip().splitlines()[-1].split(",")[-1])

    def loop_out_of(self, topic: str) -> float:
        client = Consumer(
            {
                "bootstrap.servers": self._broker.address,
                "group.id": self._new("group"),
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        client.subscribe([topic])
        began, found = 0.0, 0
        while found < self._events:
            found += len(client.consume(2000, 1))
            began = began or (time.monotonic() if found else 0.0)
        client.close()
        return found / (time.monotonic() - began)

    def fill(self) -> str:
        """A topic with so many messages."""
        topic = self._new("full")
        client = Producer({"bootstrap.servers": self._broker.address, "log_level": 0})
        for _ in range(self._events):
            while True:
                try:
                    client.produce(topic, LINE)
                    break
                except BufferError:
                    client.poll(0.1)
        client.flush()
        return topic

    def _new(self, name: str) -> str:
        self._runs += 1
        return f"{name}-{self._runs}"

    @property
    def _brokers(self) -> list[str]:
        return [self._broker.address]

    def _flow(self, source: str, sink: str) -> Path:
        file = self._directory / "speed.troy"
        file.write_text(flow_of("source -> sink", source=source, sink=sink))
        return file


def main(events: Annotated[int, typer.Option(min=LINES)] = 500_000, rounds: int = 3) -> None:
    with tempfile.TemporaryDirectory() as made, kafka(Path(made)) as broker:
        speeds = Speeds(Path(made), broker, events)
        topic = speeds.fill()
        rows: Mapping[str, Callable[[], float]] = {
            "into: kafka-producer-perf-test": speeds.tool_into,
            "into: librdkafka, a plain loop": speeds.loop_into,
            "into: walflow": speeds.walflow_into,
            "out of: kafka-consumer-perf-test": lambda: speeds.tool_out_of(topic),
            "out of: librdkafka, a plain loop": lambda: speeds.loop_out_of(topic),
            "out of: walflow": lambda: speeds.walflow_out_of(topic),
        }
        found: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(rounds):
            for name, measure in rows.items():
                found[name].append(measure())
                sys.stderr.write(f"{name}: {found[name][-1]:,.0f}\n")
    for name, figures in found.items():
        tool = next(other for other in found if other.partition(":")[0] == name.partition(":")[0])
        ratio = statistics.median(own / theirs for own, theirs in zip(figures, found[tool], strict=True))
        sys.stdout.write(f"{name:34} {statistics.median(figures):>10,.0f} events/s, {ratio:.2f} of the tool\n")


if __name__ == "__main__":
    typer.run(main)
