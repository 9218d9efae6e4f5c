"""The same lines in a topic of a real broker, read by Spark's own source for Kafka.
The broker is the one of `tests/broker`."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.spark.lake import Lake
from bench.spark.lines import Data
from bench.spark.ratio import Ratio
from bench.systems import WrongResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "lines"
PARTITIONS: Final = 2  # of the topic: as many as Spark has processors
BATCHES: Final = 5  # of a stream, the first of which does not count
RATIOS: Final = (
    Ratio("kafka: batch", "walflow, spark.read", "kafka, spark.read", 4),
    Ratio("kafka: streaming", "walflow, readStream", "kafka, readStream", 2.5),
    Ratio("kafka: batch, the floor", "from memory, spark.read", "kafka, spark.read", None),
    Ratio("kafka: streaming, the floor", "from memory, readStream", "kafka, readStream", None),
)


def absent() -> str | None:
    """Why there can be no broker here."""
    from tests.broker import jars

    return jars.absent()


def spark_jars() -> str:
    """Of Spark's source, as `spark.jars` has them. The first time Maven fetches them."""
    from tests.broker.jars import spark_jars

    return ",".join(str(jar) for jar in sorted(spark_jars().glob("*.jar")))


def frames(
    spark: "SparkSession", data: Data, lake: Lake, consumers: list[str], workdir: Path, stack: ExitStack
) -> Mapping[str, "Callable[[], DataFrame]"]:
    """`consumers`: of the lake, one for each stream. The broker ends with `stack`."""
    from tests.broker.kafka import kafka

    workdir.mkdir()
    address = stack.enter_context(kafka(workdir)).address
    _fill(address, data)
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    most = str(-(-data.total // BATCHES))
    streamed = {"maxOffsetsPerTrigger": most}

    def walflow_stream() -> "DataFrame":
        own = lake.options(consumers.pop()) | streamed | {"maxBytesPerBatch": "1g"}
        return spark.readStream.format("walflow").options(**own).load()

    from bench.spark import memory

    spark.dataSource.register(memory.Memory)
    told = {"total": data.total, "size": data.size, "rows": int(most), "partitions": PARTITIONS}
    return {
        "from memory, spark.read": lambda: spark.read.format(memory.FORMAT).options(**told).load(),
        "from memory, readStream": lambda: spark.readStream.format(memory.FORMAT).options(**told).load(),
        "walflow, spark.read": lambda: spark.read.format("walflow").options(**lake.options(consumers[0])).load(),
        "kafka, spark.read": lambda: spark.read.format("kafka").options(**options).load(),
        "walflow, readStream": walflow_stream,
        "kafka, readStream": lambda: spark.readStream.format("kafka").options(**options, **streamed).load(),
    }


def _fill(address: str, data: Data) -> None:
    """Raises WrongResult."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result()
    client = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
    number = 0
    for path in data.files:
        with path.open("rb") as file:
            for line in file:
                while True:
                    try:
                        client.produce(TOPIC, line[:-1], partition=number % PARTITIONS)
                        break
                    except BufferError:
                        client.poll(0.1)
                number += 1
    if client.flush(300):
        raise WrongResult("the broker did not take all lines")
