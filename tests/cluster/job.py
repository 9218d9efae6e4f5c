"""A job as one submits it to a cluster. It names where the log is; the token it has from its environment."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession, functions as F

PORT, CAFILE, HERE, ROWS = sys.argv[1:]

spark = SparkSession.builder.appName("cluster").getOrCreate()
events = (
    spark.readStream.format("walflow")
    .option("port", PORT)
    .option("cafile", CAFILE)
    .option("maxRowsPerBatch", ROWS)
    .option("numPartitions", "4")
    .option("localFiles", "false")  # as on machines of their own
    .load()
    .select(
        "position", F.get_json_object("value", "$.id").cast("long").alias("id"), F.spark_partition_id().alias("part")
    )
)
query = (
    events.writeStream.trigger(availableNow=True)
    .option("checkpointLocation", f"{HERE}/checkpoint")
    .format("parquet")
    .start(f"{HERE}/table")
)
query.awaitTermination()

table = spark.read.parquet(f"{HERE}/table")
found = table.agg(
    F.count("id"),
    F.count_distinct("id"),
    F.min("id"),
    F.max("id"),
    F.count_distinct("position"),
    F.count_distinct("part"),
)
Path(HERE, "plan.txt").write_text(query._jsq.explainInternal(True) or "")
Path(HERE, "found.json").write_text(json.dumps(list(found.first() or ())))
Path(HERE, "look").touch()
while not Path(HERE, "looked").exists():  # the pages are gone with the application
    spark.sparkContext.parallelize(range(2), 2).count()
