"""A driver of its own that copies a log into its results, and may be killed between the sink's commit and Spark's.

killed_driver.py PORT TOKEN_FILE CHECKPOINT FATE      FATE: a file with the batch behind which to kill, and whom
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_walflow.options import Options
from pyspark_walflow.source import SPARKS, DefaultSource
from pyspark_walflow.writer import StreamWriter

port, token_file, checkpoint, fate = sys.argv[1:]


class KilledWriter(StreamWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        if os.path.exists(fate):
            batch, group = map(int, Path(fate).read_text().split())
            if batch == batchId:
                os.killpg(group, signal.SIGKILL)


class Killed(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KilledWriter:
        return KilledWriter(Options.of(self.options, SPARKS))


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.dataSource.register(Killed)
    options = {"port": port, "tokenFile": token_file}
    stream = spark.readStream.format("walflow").options(**options).option("maxRowsPerBatch", "40").load()
    writer = stream.select("value").writeStream.format("killed").options(**options)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()
