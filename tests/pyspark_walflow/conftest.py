"""One Spark session for everybody here; a daemon for each test."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pyspark_walflow.lake import Lake
from tests.pyspark_walflow.logs import Given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
NewLake = Callable[..., Lake]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """local[2,4]: two tasks at a time, each tried four times."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.local.dir": str(tmp_path_factory.mktemp("local")),
    }
    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, on sockets that it leaves to the collector
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def new_lake(tmp_path: Path) -> Iterator[NewLake]:
    """A running daemon whose log holds what is given; killed at the end."""
    with ExitStack() as lakes:
        made = 0

        def make(given: Sequence[Given] = (), config: str = "") -> Lake:
            nonlocal made
            made += 1
            return lakes.enter_context(Lake(tmp_path / f"lake{made}", given, config))

        yield make


@pytest.fixture
def lake(new_lake: NewLake) -> Lake:
    return new_lake()
