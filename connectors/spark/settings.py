"""What the head of a pipeline says of how it runs on Spark."""

from pydantic import Field

from walflow import HostSettings


class SparkSettings(HostSettings):
    """`#!config spark = {…}`"""

    dir: str | None = Field(
        default=None,
        min_length=1,
        description="Directory of the log in front. Default: `spark/FLOW.PIPELINE`, relative to --workdir.",
    )
    master: str | None = Field(
        default=None, description="Spark's master URL. Default: `local[N,4]` with N processors."
    )
    conf: dict[str, str] = Field(default={}, description="Spark's own configuration, with its names.")
    checkpoint: str | None = Field(
        default=None, min_length=1, description="Directory of Spark's checkpoint. Default: `checkpoint` in `dir`."
    )
    partitions: int | None = Field(
        default=None, ge=1, description="Number of tasks of a batch. Default: one for each 16 MiB."
    )
    buckets: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description=(
            "Number of parts into which the groups of windows are dealt. Each is one task of a batch at most. "
            "Default: 8."
        ),
    )
    python: str | None = Field(
        default=None,
        min_length=1,
        description="The Python interpreter that has pyspark. Default: the one that runs walflow.",
    )
    url: str = Field(default="127.0.0.1:0", description="host:port where Spark finds the log. Default: a free port.")
    trigger_interval: int | None = Field(default=None, gt=0, description="Nanoseconds between the starts of batches.")
    max_rows_per_batch: int | None = Field(default=None, ge=1, description="The most events that one batch reads.")
    max_chunks: int | None = Field(default=None, ge=1, description="The most files of the log, of 64 MiB each.")

    def parts(self) -> int | None:
        return self.buckets
