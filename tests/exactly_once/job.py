"""What a user would write: the log's events to parquet. It runs until it is killed, or, told `finish`, to the end,
and then prints what Spark itself reads from the directory."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession, functions as F

PORT, TOKEN, HERE, ROWS, WHAT, FILES = sys.argv[1:]

spark = (
    SparkSession.builder.master("local[2,4]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
events = (
    spark.readStream.format("walflow")
    .option("port", PORT)
    .option("tokenFile", TOKEN)
    .option("maxRowsPerBatch", ROWS)
    .option("localFiles", FILES)
    .load()
    .select("position", F.get_json_object("value", "$.id").cast("long").alias("id"))
)
writer = events.writeStream.option("checkpointLocation", f"{HERE}/checkpoint")
if WHAT == "finish":
    writer = writer.trigger(availableNow=True)
query = writer.format("parquet").start(f"{HERE}/table")
Path(HERE, "started").touch()
query.awaitTermination()

table = spark.read.parquet(f"{HERE}/table")
found = table.agg(F.count("id"), F.count_distinct("id"), F.min("id"), F.max("id"), F.count_distinct("position"))
sys.stdout.write(json.dumps(list(found.first() or ())) + "\n")
