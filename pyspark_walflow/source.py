"""`format("walflow")`. Importable wherever pyspark.sql.datasource is, so that whatever else is missing can be said."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.datasource import DataSource

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_walflow.reader import BatchReader, StreamReader
    from pyspark_walflow.writer import BatchWriter, StreamWriter

OLDEST: Final = (4, 2)  # the first whose Python sources may bound a batch
SCHEMA: Final = "position long, ingest_ts timestamp, key string, value string"
SPARKS: Final = ("checkpointLocation", "queryName")  # its own, among the options of a stream
BINARY_SCHEMA: Final = "position long, ingest_ts timestamp, key string, value binary"


class DefaultSource(DataSource):
    """Everything raises WalflowError."""

    def __init__(self, options: dict[str, str]) -> None:
        require(pyspark.__version__)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "walflow"

    def schema(self) -> str:
        return BINARY_SCHEMA if Options.of(self.options).binary else SCHEMA

    def reader(self, schema: "StructType") -> "BatchReader":
        from pyspark_walflow.reader import BatchReader

        return BatchReader(self._options(schema))

    def streamReader(self, schema: "StructType") -> "StreamReader":
        from pyspark_walflow.reader import StreamReader

        return StreamReader(self._options(schema))

    def writer(self, schema: "StructType", overwrite: bool) -> "BatchWriter":
        from pyspark_walflow.writer import BatchWriter

        if overwrite:
            raise WalflowError("what was published cannot be overwritten: write with mode append")
        return BatchWriter(Options.of(self.options))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "StreamWriter":
        from pyspark_walflow.writer import StreamWriter

        return StreamWriter(Options.of(self.options, SPARKS))

    def _options(self, schema: "StructType") -> Options:
        asked = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
        if asked.replace("bigint", "long") != self.schema():
            raise WalflowError(f"the schema is always ({self.schema()}): leave out ({asked})")
        return Options.of(self.options)


def require(version: str) -> None:
    """Raises WalflowError."""
    numbers = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    if tuple(numbers) < OLDEST:
        raise WalflowError(f"Spark {version} is too old: Spark 4.2 or newer is needed")
    for package in ("pyarrow", "numpy"):
        try:
            import_module(package)
        except ImportError as error:
            raise WalflowError(
                f"Spark's Python has no {package} ({error}): install it there, on the driver and on every executor"
            ) from None
