"""`format("walflow")`. It can be imported where pyspark.sql.datasource can, so that it can name any other package
that is missing."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.datasource import DataSource

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import COMMITTED, EARLIEST, Options, of_table
from pyspark_walflow.quiet import Quiet, without_own
from pyspark_walflow.requirement import require

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_walflow.many import ManyBatchReader, ManyReader
    from pyspark_walflow.reader import BatchReader, StreamReader
    from pyspark_walflow.writer import BatchWriter, StreamWriter

SCHEMA: Final = "position long, ingest_ts timestamp, key string, value string"
SPARKS: Final = ("checkpointLocation", "queryName")  # its own, among the options of a stream
TABLE: Final = "walflow.options"  # in the metadata of columns
BINARY_SCHEMA: Final = "position long, ingest_ts timestamp, key string, value binary"
METADATA: Final = ", ingest_ns long, meta string"


class DefaultSource(DataSource):
    """Everything raises WalflowError."""

    def __init__(self, options: dict[str, str]) -> None:
        require(pyspark.__version__)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "walflow"

    def schema(self) -> "str | StructType":
        text = _schema(self.options)
        table = of_table(self.options)
        return _with_options(text, table) if table else text

    def reader(self, schema: "StructType") -> "BatchReader | ManyBatchReader":
        from pyspark_walflow.many import ManyBatchReader
        from pyspark_walflow.reader import BatchReader

        given = self._given(schema)
        many = Options.each(given, EARLIEST)
        return ManyBatchReader(many) if many else BatchReader(Options.of(given, starting=EARLIEST))

    def streamReader(self, schema: "StructType") -> "StreamReader | ManyReader":
        from pyspark_walflow.many import ManyReader
        from pyspark_walflow.older_reader import OlderStreamReader
        from pyspark_walflow.older_spark import BOUNDS
        from pyspark_walflow.reader import StreamReader

        given = self._given(schema)
        if many := Options.each(given):
            return ManyReader(many)
        reader = StreamReader if BOUNDS else OlderStreamReader
        return reader(Options.of(given, starting=COMMITTED), Quiet.of(self.options))

    def writer(self, schema: "StructType", overwrite: bool) -> "BatchWriter":
        from pyspark_walflow.writer import BatchWriter

        if overwrite:
            raise WalflowError("what was published cannot be overwritten: write with mode append")
        return BatchWriter(Options.of(self.options))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "StreamWriter":
        from pyspark_walflow.writer import StreamWriter

        return StreamWriter(Options.of(self.options, SPARKS))

    def _given(self, schema: "StructType") -> dict[str, str]:
        given = {**_options_of(schema), **without_own(self.options)}
        asked = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
        if asked.replace("bigint", "long") != _schema(given):
            raise WalflowError(f"the schema is always ({_schema(given)}): leave out ({asked})")
        return given


def _schema(given: Mapping[str, str]) -> str:
    many = Options.each(without_own(given))
    options = next(iter(many.values())) if many else Options.of(without_own(given))
    columns = (BINARY_SCHEMA if options.binary else SCHEMA) + (METADATA if options.metadata else "")
    named = ", ".join(one for one in columns.split(", ") if one.split()[0] in options.columns)
    return f"log string, {named}" if many else named


def _with_options(text: str, table: Mapping[str, str]) -> "StructType":
    """Spark asks a table for its schema with the table's options, and reads it without them. So they travel in the
    schema, or a table would be read from wherever the defaults are."""
    from pyspark.sql import types

    kinds = {
        "long": types.LongType(),
        "timestamp": types.TimestampType(),
        "string": types.StringType(),
        "binary": types.BinaryType(),
    }
    said = {TABLE: json.dumps(table)}
    columns = (column.split() for column in text.split(", "))
    return types.StructType([types.StructField(name, kinds[kind], True, said) for name, kind in columns])


def _options_of(schema: "StructType") -> dict[str, str]:
    """Of a table; names in small letters, as Spark has those that are said when it is read."""
    said = schema.fields[0].metadata.get(TABLE) if schema.fields else None
    return {name.lower(): value for name, value in json.loads(said).items()} if said else {}
