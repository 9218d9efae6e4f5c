"""What a user would submit: no registration, SQL, a batch and a stream. Arguments: port, token file."""

import sys

from pyspark.sql import SparkSession

options = {"port": sys.argv[1], "tokenFile": sys.argv[2]}
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
spark.sql(f"CREATE TEMPORARY VIEW lake USING walflow OPTIONS ({listed})")
stream = spark.readStream.format("walflow").options(**options).load()
query = stream.writeStream.format("memory").queryName("rows").trigger(availableNow=True).start()
query.awaitTermination()

import pyspark_walflow  # only to say which one it was: nobody needs to

((in_lake,),) = spark.sql("SELECT count(*) FROM lake").collect()
((streamed,),) = spark.sql("SELECT count(DISTINCT position) FROM rows").collect()
print(f"{in_lake} in lake, {streamed} streamed, from {pyspark_walflow.__file__}")  # noqa: T201
spark.stop()
