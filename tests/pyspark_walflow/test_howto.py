"""What docs/howto/spark.md shows runs as it is printed."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pyspark_walflow.lake import Lake, ids, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


@pytest.mark.spark
def test_the_page(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    lake.send(*numbered(1000))
    stream, batch = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    here = f'format("walflow").option("port", {lake.port}).option("tokenFile", "{lake.state / "token"}")'
    names: dict[str, Any] = {"spark": spark}

    exec(_placed(batch, here, tmp_path), names)  # noqa: S102  # it is ours
    assert names["count"] == 1000

    exec(_placed(stream, here, tmp_path), names)  # noqa: S102
    names["query"].processAllAvailable()
    names["query"].stop()
    rows = spark.read.parquet(str(tmp_path / "lines")).orderBy("position").collect()
    assert ids(rows) == [*range(1000)]
    assert [row.position for row in rows] == [*range(1, 1001)]


def _placed(code: str, source: str, directory: Path) -> str:
    return code.replace('format("walflow")', source).replace('"lines', f'"{directory}/lines')
