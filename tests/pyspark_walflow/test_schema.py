"""Events as columns of a schema, and beside them those that do not fit."""

from typing import TYPE_CHECKING

import pytest

from pyspark_walflow import parsed
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.schema import CORRUPT
from tests.pyspark_walflow.conftest import NewLake
from tests.pyspark_walflow.lake import Lake
from tests.pyspark_walflow.logs import Given
from tests.pyspark_walflow.queries import batch, into_memory, rows, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FITS = {
    '{"id":1,"host":"a"}': (1, "a"),
    '{"id":2,"more":[1]}': (2, None),
    '{"host":7}': (None, "7"),
    '{"id":null}': (None, None),
    "{}": (None, None),
    ' {"id":3} ': (3, None),
}
FITS_NOT = ("", "null", "5", '"s"', "[]", '[{"id":1},{"id":2}]', "{bad", '{"id":"x"}', '{"id":1.5}', '{"id":1e30}')


@pytest.fixture
def lake(new_lake: NewLake) -> Lake:
    return new_lake([Given([one.encode() for one in (*FITS, *FITS_NOT)])])


def test_each_event_is_in_its_columns_or_beside_them(spark: "SparkSession", lake: Lake) -> None:
    with into_memory(parsed(stream(spark, lake), "id LONG, host STRING")) as query:
        found = rows(query)
    assert [row.position for row in found] == list(range(1, len(FITS) + len(FITS_NOT) + 1))
    fit, rest = found[: len(FITS)], found[len(FITS) :]
    assert [tuple(row.value) for row in fit] == list(FITS.values())
    assert {row[CORRUPT] for row in fit} == {None}
    assert {row.value for row in rest} == {None}
    assert [row[CORRUPT] for row in rest] == list(FITS_NOT)


def test_bytes_are_parsed_and_stay_bytes_where_they_do_not_fit(spark: "SparkSession", new_lake: NewLake) -> None:
    lake = new_lake([Given([b'{"id":1}', b"\xff{"])])
    first, second = parsed(batch(spark, lake, value="binary"), "id LONG").orderBy("position").collect()
    assert (first.value.id, first[CORRUPT]) == (1, None)
    assert (second.value, bytes(second[CORRUPT])) == (None, b"\xff{")


def test_what_is_no_schema_for_it_is_refused(spark: "SparkSession", lake: Lake) -> None:
    with pytest.raises(WalflowError, match="there is no column value to parse, only position"):
        parsed(batch(spark, lake, columns="position"), "id LONG")
    with pytest.raises(WalflowError, match="_corrupt_record is the column beside value"):
        parsed(batch(spark, lake), "id LONG, _corrupt_record STRING")
    with pytest.raises(WalflowError, match="_corrupt_record is the column beside value"):
        parsed(parsed(batch(spark, lake), "id LONG"), "id LONG")
    with pytest.raises(WalflowError, match="BIGINT is the type of one column"):
        parsed(batch(spark, lake), "BIGINT")
