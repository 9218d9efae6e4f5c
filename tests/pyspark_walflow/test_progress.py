"""What Spark says of a batch, and what a person wants to know of it."""

import json

from pyspark_walflow.progress import SourceProgress, sources_of

OURS = {"log": "0123456789abcdef", "consumer": "lake", "scan": "5"}


def at(position: int) -> dict[str, object]:
    return {**OURS, "position": position}


def test_a_source_has_a_name_and_a_lag() -> None:
    name = "walflow, consumer lake, log 01234567"
    source = {"description": "org.apache.Python@1", "startOffset": at(5), "endOffset": at(9), "latestOffset": at(12)}
    assert sources_of({"sources": [source]}) == [SourceProgress(name, 5, 9, 3)]
    as_text = {key: json.dumps(value) for key, value in source.items()}
    assert sources_of({"sources": [as_text]}) == [SourceProgress(name, 5, 9, 3)]


def test_what_spark_leaves_out_is_no_lag() -> None:
    first = {"startOffset": None, "endOffset": at(9), "latestOffset": None}
    assert [source[1:] for source in sources_of({"sources": [first]})] == [(9, 9, 0, "")]


def test_other_sources_are_left_alone() -> None:
    others = [{"endOffset": "17"}, {"endOffset": "not JSON"}, {"endOffset": {"topic": {"0": 3}}}, {}]
    assert sources_of({"sources": others}) == []
    assert sources_of({}) == []
