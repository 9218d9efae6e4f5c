"""The Spark half of walflow. It stands alone: importable without walflow, so that `--py-files` can ship it.

`format("walflow")` reads a log of a daemon. `parsed(frame, schema)` makes columns of its events. `pipeline(file,
name)` runs a pipeline over any data; only that, when it is called, needs walflow.

Spark imports every module named `pyspark_*` to find data sources, so this must be quick and never raise; and the
daemon imports `pyspark_walflow.wire`, so nothing here may import pyspark before `DefaultSource` is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_walflow.over_data import pipeline as pipeline
    from pyspark_walflow.schema import parsed as parsed


def __getattr__(name: str) -> object:
    if name == "pipeline":
        return import_module("pyspark_walflow.over_data").pipeline
    if name == "parsed":
        return import_module("pyspark_walflow.schema").parsed
    if name == "DefaultSource":
        try:
            return import_module("pyspark_walflow.source").DefaultSource
        except ImportError as error:  # no pyspark, or one of before Python could be a data source
            raise AttributeError(f'format("walflow") is not available: {error}') from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
