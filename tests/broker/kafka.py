"""One broker, which is its own controller (KRaft), on 127.0.0.1."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from demo.server import free_port
from pyspark_walflow.java import find_java
from tests.broker.jars import jars
from tests.system.certificates import Authority
from tests.waiting import PATIENCE, wait_until

HEAP: Final = "-Xmx512m"
USER: Final = "walflow"
PASSWORD: Final = "a secret of the tests"
FORMAT: Final = ("-t", "d2FsZmxvdy10ZXN0cy1rYQ", "--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]")
PLAIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=4
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config={plain}
listener.name.secure.scram-sha-256.sasl.jaas.config={scram}
listener.name.secure.scram-sha-512.sasl.jaas.config={scram}
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={keystore}
"""


class KafkaBroker:
    """`address`: without TLS and passwords. `secure`: with both, by a certificate of `authority`.
    Its data stay over its end."""

    def __init__(self, directory: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.secure = f"127.0.0.1:{free_port()}"
        self.authority = Authority(directory, "kafka-ca")
        self._directory = directory
        self._properties = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self._log = directory / "kafka.log"
        self._properties.write_text(
            PROPERTIES.format(
                port=_port(self.address),
                secure=_port(self.secure),
                controller=free_port(),
                data=directory / "kafka-data",
                keystore=self._keystore(),
                plain=PLAIN,
                scram=SCRAM,
            )
        )
        scram512 = FORMAT[-1].replace("256", "512")
        self._java(
            "kafka.tools.StorageTool", "format", "-c", self._properties, *FORMAT, "--add-scram", scram512
        ).wait()

    def __repr__(self) -> str:
        return f"<KafkaBroker {self.address}>"

    def start(self) -> None:
        self._process = self._java("kafka.Kafka", self._properties)
        # Kafka says nothing when it serves; librdkafka tries again until it is answered
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        try:
            client.list_topics(timeout=PATIENCE)
        except KafkaException as error:
            raise AssertionError(self._log.read_text()[-2000:]) from error

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def make_topic(self, name: str, partitions: int = 4) -> None:
        """Returns when each partition takes messages. A topic that a producer's first message makes may take the
        producer's second batch before the first, and then never the first: KAFKA-15591, seen with Kafka 4.1.0."""
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        client.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE)
        wait_until(lambda: all(_leads(client, name, number) for number in range(partitions)), "no leader")

    def tool(self, program: str, *arguments: str) -> str:
        """What one of Kafka's own programs says."""
        command = [find_java().path, HEAP, "-cp", f"{jars()}/*", program, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _java(self, program: str, *arguments: str | Path) -> "subprocess.Popen[bytes]":
        command = [find_java().path, HEAP, "-cp", f"{jars()}/*", program, *arguments]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)

    def _keystore(self) -> Path:
        """In the one form that Kafka reads: PKCS 8, and the chain behind it."""
        names = self.authority.issue("kafka", "127.0.0.1")
        key = load_pem_private_key(Path(names["key"]).read_bytes(), None)
        file = self._directory / "kafka.pem"
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(pem + Path(names["cert"]).read_bytes())
        return file


@contextmanager
def kafka(directory: Path) -> Iterator[KafkaBroker]:
    made = KafkaBroker(directory)
    made.start()
    try:
        yield made
    finally:
        made.end(signal.SIGKILL)


def _leads(client: AdminClient, topic: str, partition: int) -> bool:
    asked: dict[TopicPartition, OffsetSpec] = {TopicPartition(topic, partition): OffsetSpec.latest()}  # type: ignore[no-untyped-call]
    (found,) = client.list_offsets(asked).values()
    try:
        found.result(PATIENCE)
    except KafkaException:
        return False
    return True


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
