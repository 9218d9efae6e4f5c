"""What Spark does in the demo: `python -m demo.count HOST PORT` waits for a line on stdin, counts the numbered lines of
the log, and prints JSON."""

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, sum as total


def counted(events: DataFrame) -> DataFrame:
    numbers = events.select(from_json("value", "client long, id long, connection long").alias("line")).select(
        "line.*"
    )
    copies = numbers.groupBy("client", "id", "connection").agg(count("*").alias("copies"))
    lines = copies.groupBy("client", "id").agg(total("copies").alias("copies"), count("*").alias("sent"))
    return lines.agg(
        total("copies").alias("lines"), total("sent").alias("distinct"), count("*").alias("events")
    ).select(*map(col, ("lines", "distinct", "events")))


def main(host: str, port: str) -> None:
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("demo")
        .config("spark.ui.enabled", False)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # up sooner
        .config("spark.sql.shuffle.partitions", 4)
        .getOrCreate()
    )
    sys.stdin.readline()
    events = spark.read.format("walflow").option("host", host).option("port", port).load()
    (found,) = counted(events).collect()
    sys.stdout.write(json.dumps(found.asDict()) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
