"""`parsed(frame, "id long, host string")`: events as columns, and beside them those that do not fit.

    from pyspark_walflow import parsed

    rows = parsed(spark.readStream.format("walflow").load(), "id long, host string")
    rows.where("_corrupt_record is null").select("position", "value.*")

Spark's own `from_json` parses, in the JVM: an event is read as Spark reads JSON everywhere else. So what follows the
first document in an event is not looked at.
"""

from typing import TYPE_CHECKING, Final

from pyspark_walflow.errors import WalflowError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt_record"  # as Spark's sources of files call it


def parsed(frame: "DataFrame", schema: "str | StructType") -> "DataFrame":
    """`frame`, whose `value` is JSON, as text or as bytes. Its `value` becomes a struct of `schema`, which is DDL or
    a StructType, and null for an event that is no such object. Then the last column, `_corrupt_record`, has the event
    as it was, and else it is null. No row is left out. Fields that `schema` does not name are left out.
    Raises WalflowError for a frame without `value`, and what Spark raises for a schema that is none."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructType

    if "value" not in frame.columns:
        raise WalflowError(f"there is no column value to parse, only {', '.join(frame.columns)}")
    said = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(said, StructType):
        raise WalflowError(f"{schema} is the type of one column: name columns, as in id LONG, host STRING")
    fields = said.fields
    if CORRUPT in frame.columns or any(field.name == CORRUPT for field in fields):
        raise WalflowError(f"{CORRUPT} is the column beside value that this makes, and neither a field nor there yet")
    told = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    whole = StructType([*fields]).add(CORRUPT, StringType())
    read = sql.from_json(sql.col("value").cast("string"), whole, told)
    both = frame.withColumn(CORRUPT, read)
    fits = sql.col(CORRUPT).isNotNull() & sql.col(f"{CORRUPT}.{CORRUPT}").isNull()
    struct = sql.struct(*(sql.col(CORRUPT).getField(field.name).alias(field.name) for field in fields))
    columns = [
        sql.when(fits, struct).alias(name) if name == "value" else sql.col(f"`{name}`") for name in frame.columns
    ]
    return both.select(*columns, sql.when(~fits, sql.col("value")).alias(CORRUPT))
