"""Spark's structured_network_wordcount.py: counts the words of the lines that come from HOST PORT, and prints them.

    python flows/jobs/socket_wordcount.py localhost 9999

With `format("socket")` what is under way when either side dies is not counted. Make it `format("walflow")` and each
line is counted once; the daemon then wants to know who asks: WALFLOW_TOKEN_FILE=socket_state/token.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, split


def main(host: str, port: str) -> None:
    spark = (
        SparkSession.builder.appName("socket_wordcount")
        .config("spark.sql.shuffle.partitions", 4)  # the default, 200, is for more words than anybody types
        .getOrCreate()
    )
    lines = spark.readStream.format("socket").option("host", host).option("port", port).load()
    words = lines.select(explode(split(lines.value, " ")).alias("word"))
    counts = words.groupBy("word").count()
    counts.writeStream.outputMode("complete").format("console").start().awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Usage: socket_wordcount.py HOST PORT")
    main(*sys.argv[1:])
