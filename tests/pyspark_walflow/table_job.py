"""A driver of its own that copies a log into a table, a topic or another log, as a user would write it.

python -m tests.pyspark_walflow.table_job copy|night|compare FORMAT TABLE CHECKPOINT OPTIONS SETTINGS

`copy` runs until it is killed, and says the number of each batch that ended. `night` is an availableNow. `compare`
says how many rows the table has, how many positions, and what of the log it lacks, has too much or has otherwise.
OPTIONS are those of `format("walflow")`, SETTINGS those of the session, both as JSON. TABLE is a directory, a name,
the address of a broker, or the file into which the results of the log go.
"""

import json
import sys
import time
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC = "rows"


def query_of(spark: SparkSession, given: list[str], *, night: bool) -> "StreamingQuery":
    kind, table, checkpoint, options = given
    asked = json.loads(options) | {"firstBatch": "all" if night else "bounded"}
    stream = spark.readStream.format("walflow").options(**asked).load().select("position", "value")
    if kind == "kafka":
        stream = stream.selectExpr("CAST(position AS STRING) AS key", "value")
    writer = stream.writeStream.format(kind).option("checkpointLocation", checkpoint).outputMode("append")
    writer = writer.trigger(availableNow=True) if night else writer.trigger(processingTime="0 seconds")
    match kind:
        case "iceberg":
            return writer.toTable(table)
        case "walflow":
            return writer.options(**_connection(asked)).start()
        case "kafka":
            return writer.option("kafka.bootstrap.servers", table).option("topic", TOPIC).start()
        case _:
            return writer.option("path", table).start()


def _connection(options: dict[str, str]) -> dict[str, str]:
    return {name: options[name] for name in ("port", "tokenFile", "retrySeconds") if name in options}


def _rows(spark: SparkSession, kind: str, table: str) -> "DataFrame":
    match kind:
        case "iceberg":
            return spark.table(table)
        case "walflow":
            return spark.read.schema("position LONG, value STRING").json(table)
        case "kafka":
            topic = spark.read.format("kafka").option("kafka.bootstrap.servers", table).option("subscribe", TOPIC)
            return topic.load().selectExpr("CAST(CAST(key AS STRING) AS LONG) AS position", "CAST(value AS STRING)")
        case _:
            return spark.read.format(kind).load(table)


def copy(spark: SparkSession, given: list[str]) -> None:
    query = query_of(spark, given, night=False)
    told = -1
    while query.isActive:
        for progress in query.recentProgress:
            if progress["numInputRows"] and progress["batchId"] > told:
                told = progress["batchId"]
                print(json.dumps({"batch": told, "rows": progress["numInputRows"]}), flush=True)  # noqa: T201
        time.sleep(0.02)
    query.awaitTermination()  # raises what ended it


def compare(spark: SparkSession, given: list[str]) -> dict[str, int]:
    kind, table, _, options = given
    log: DataFrame = spark.read.format("walflow").options(**json.loads(options)).load().select("position", "value")
    rows = _rows(spark, kind, table).select("position", "value").cache()
    return {
        "log": log.count(),
        "rows": rows.count(),
        "positions": rows.select("position").distinct().count(),
        "missing": log.exceptAll(rows).count(),
        "other": rows.distinct().exceptAll(log).count(),
    }


def main() -> None:
    what, *given, settings = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2")
    for name, value in json.loads(settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if given[0] == "iceberg":
        spark.sql(f"CREATE TABLE IF NOT EXISTS {given[1]} (position BIGINT, value STRING) USING iceberg")
    if what == "copy":
        copy(spark, given)
    elif what == "night":
        query_of(spark, given, night=True).awaitTermination()
    else:
        print(json.dumps(compare(spark, given)), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
