"""What docs/howto/spark.md shows runs as it is printed."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_walflow.fetch import forget
from pyspark_walflow.options import EARLIEST, Options
from pyspark_walflow.reader import BatchReader
from tests.pyspark_walflow.lake import Lake, ids, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


@pytest.mark.spark
def test_the_page(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    lake.send(*numbered(1000))
    stream, batch, columns = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    here = f'format("walflow").option("port", {lake.port}).option("tokenFile", "{lake.state / "token"}")'
    names: dict[str, Any] = {"spark": spark}

    exec(_placed(batch, here, tmp_path), names)  # noqa: S102  # it is ours
    assert names["count"] == 1000

    exec(_placed(columns, here, tmp_path), names)  # noqa: S102
    assert sorted(row.id for row in names["good"].collect()) == [*range(1000)]
    assert names["bad"].collect() == []

    exec(_placed(stream, here, tmp_path), names)  # noqa: S102
    names["query"].processAllAvailable()
    names["query"].stop()
    rows = spark.read.parquet(str(tmp_path / "lines")).orderBy("position").collect()
    assert ids(rows) == [*range(1000)]
    assert [row.position for row in rows] == [*range(1, 1001)]


def _placed(code: str, source: str, directory: Path) -> str:
    return code.replace('format("walflow")', source).replace('"lines', f'"{directory}/lines')


def test_a_key_for_each_event(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"## A key for each event.*?```troy body\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    lake = Lake(tmp_path / "lake")
    lake.replace_in_flow("  create pipeline from_tcp from pipelines::passthrough;\n", block)
    lake.replace_in_flow("/pipeline/from_tcp", "/pipeline/keyed")
    with lake:
        lake.send('{"host":"a","n":1}', '{"host":7}', '{"host":"b"}')
        reader = BatchReader(Options.of(lake.options, starting=EARLIEST))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        forget()
    assert [key for batch in batches for key in batch["key"].to_pylist()] == ["a", "7", "b"]
