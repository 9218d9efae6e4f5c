"""What Spark's Python sources have from 4.1 or 4.2 on, and what stands for it on an older Spark.

since   name                                                   before
4.2     ReadLimit and its kinds, SupportsTriggerAvailableNow   names alone; `older_reader` bounds a batch itself
4.1     Filter and its kinds, `pushFilters`                    no filter narrows a read, Spark applies them all
4.1     DataSourceStreamArrowWriter                            a writer of streams that is one of Arrow too: Spark
                                                               hands rows to any other
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import datasource

__all__ = [
    "BOUNDS",
    "PUSHES",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamArrowWriter,
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    BOUNDS: bool
    PUSHES: bool
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        BOUNDS: Final = True  # Spark says where a query is, and how much it wants
    except ImportError:
        BOUNDS: Final = False

        class SupportsTriggerAvailableNow: ...

        class ReadLimit: ...

        class ReadAllAvailable(ReadLimit): ...

        class ReadMaxRows(ReadLimit):
            def __init__(self, max_rows: int) -> None:
                self.max_rows = max_rows

        class ReadMaxBytes(ReadLimit):
            def __init__(self, max_bytes: int) -> None:
                self.max_bytes = max_bytes

    PUSHES: Final = hasattr(datasource, "Filter")  # Spark says which filters a read has
    if PUSHES:
        from pyspark.sql.datasource import (
            DataSourceStreamArrowWriter,
            EqualNullSafe,
            EqualTo,
            Filter,
            GreaterThan,
            GreaterThanOrEqual,
            In,
            LessThan,
            LessThanOrEqual,
        )
    else:

        class Filter: ...

        class EqualTo(Filter): ...

        class EqualNullSafe(Filter): ...

        class GreaterThan(Filter): ...

        class GreaterThanOrEqual(Filter): ...

        class In(Filter): ...

        class LessThan(Filter): ...

        class LessThanOrEqual(Filter): ...

        class DataSourceStreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter): ...
