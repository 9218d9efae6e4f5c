"""Options in words, or one line that names the option; and the page that lists them."""

import re
from pathlib import Path

import pytest

from pyspark_walflow.client import Endpoint
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import FROM_COMMITTED, Options

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/spark.md"


def test_what_nobody_says() -> None:
    options = Options.of({})
    assert options.endpoint == Endpoint("127.0.0.1", 7700)
    assert options.consumer == "spark"
    assert options.starting == FROM_COMMITTED
    assert not options.new_checkpoint
    assert Options.of({}, starting="earliest").starting == 0
    assert options.ending is None
    assert (options.max_rows, options.max_bytes, options.partitions) == (200_000, 64 << 20, None)
    assert (options.min_rows, options.max_delay, options.min_partitions, options.max_partitions) == (1, 900, 1, None)
    assert not options.binary
    assert options.fail_on_data_loss


def test_what_is_said_in_any_case() -> None:
    options = Options.of(
        {
            "HOST": "lake",
            "Port": "7",
            "CAfile": "/ca.pem",
            "startingposition": "LATEST",
            "endingPosition": "12",
            "maxBytesPerBatch": "2G",
            "numpartitions": "3",
            "VALUE": "Binary",
            "failOnDataLoss": "False",
        }
    )
    assert options.endpoint == Endpoint("lake", 7, "/ca.pem")
    assert (options.starting, options.ending, options.max_bytes, options.partitions) == (None, 12, 2 << 30, 3)
    assert options.binary
    assert not options.fail_on_data_loss


def test_columns_that_are_needed() -> None:
    assert Options.of({}).columns == ["position", "ingest_ts", "key", "value"]
    assert Options.of({"metadata": "true"}).columns[4:] == ["ingest_ns", "meta"]
    assert Options.of({"columns": " value,position ,"}).columns == ["position", "value"]
    with pytest.raises(
        WalflowError, match=r"^option columns has 'meta': it takes some of position, ingest_ts, key, value$"
    ):
        Options.of({"columns": "meta"})
    assert Options.of({"columns": "meta", "metadata": "true"}).columns == ["meta"]


def test_tls_without_a_file_trusts_whom_the_system_trusts() -> None:
    assert Options.of({"tls": "true"}).endpoint.cafile == ""
    assert Options.of({"tls": "false"}).endpoint.cafile is None


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("port", "70000", "option port is '70000': it takes a number from 1 to 65535"),
        ("port", "१२", "option port is '१२': it takes a number from 1 to 65535"),
        (
            "startingPosition",
            "newest",
            "startingPosition is 'newest': it takes committed, earliest, latest or a position, 1 or more",
        ),
        (
            "startingPosition",
            "0",
            "startingPosition is '0': it takes committed, earliest, latest or a position, 1 or more",
        ),
        ("endingPosition", "earliest", "endingPosition is 'earliest': it takes latest or a position, 1 or more"),
        ("maxRowsPerBatch", "0", "option maxRowsPerBatch is '0': it takes a number, 1 or more"),
        ("maxBytesPerBatch", "64 MB", "option maxBytesPerBatch is "),
        ("maxBytesPerBatch", "9" * 18 + "g", "option maxBytesPerBatch is "),
        ("numPartitions", "many", "option numPartitions is 'many'"),
        ("value", "json", "option value is 'json': it takes string or binary"),
        ("failOnDataLoss", "yes", "option failOnDataLoss is 'yes': it takes true or false"),
        ("tls", "1", "option tls is '1': it takes true or false"),
        ("consumer", " ", "option consumer is ''"),
        ("maxRowPerBatch", "1", "there is no option maxRowPerBatch: do you mean maxRowsPerBatch?"),
        ("qwertz", "1", "there is no option qwertz"),
        ("path", "/x", "load\\(\\) takes no path"),
        (
            "maxTriggerDelay",
            "soon",
            "option maxTriggerDelay is 'soon': it takes a duration such as 500ms, 30s or 15m",
        ),
        ("maxPartitions", "0", "option maxPartitions is '0': it takes a number from 1 to 100000"),
        ("maxoffsetspertrigger", "0", "option maxOffsetsPerTrigger is '0': it takes a number, 1 or more"),
        ("maxOffsetPerTrigger", "1", "there is no option maxOffsetPerTrigger: do you mean maxOffsetsPerTrigger?"),
        (
            "startingOffsets",
            '{"topic":{"0":23}}',
            (
                "it takes no topics and partitions, for there are none here, but committed, earliest, "
                "latest or a position"
            ),
        ),
        ("subscribe", "topic", "there is no option subscribe, as Kafka's source has: a connector has one log"),
        (
            "kafka.bootstrap.servers",
            "h:1",
            "there is no option kafka.bootstrap.servers, as Kafka's source has: there is",
        ),
    ],
)
def test_a_wrong_option_is_named(name: str, value: str, line: str) -> None:
    with pytest.raises(WalflowError, match=line) as raised:
        Options.of({name: value})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"startingOffsets": "latest", "startingPosition": "earliest"},
            "options startingOffsets and startingPosition are the same one: 'latest' or 'earliest'?",
        ),
        (
            {"minOffsetsPerTrigger": "10", "maxRowsPerBatch": "9"},
            "option minOffsetsPerTrigger is 10, and a batch has at most 9 rows (maxRowsPerBatch)",
        ),
        ({"minPartitions": "9", "maxPartitions": "8"}, "option minPartitions is 9, and maxPartitions is 8"),
    ],
)
def test_options_that_contradict_each_other_are_named(given: dict[str, str], line: str) -> None:
    with pytest.raises(WalflowError) as raised:
        Options.of(given)
    assert str(raised.value) == line


def test_kafkas_names_are_understood() -> None:
    options = Options.of(
        {
            "startingoffsets": "earliest",
            "endingOffsets": "12",
            "maxOffsetsPerTrigger": "500",
            "minOffsetsPerTrigger": "50",
            "maxTriggerDelay": "2m",
            "minPartitions": "4",
            "includeHeaders": "true",
        },
        starting="committed",
    )
    assert (options.starting, options.ending, options.max_rows, options.min_rows) == (0, 12, 500, 50)
    assert (options.max_delay, options.min_partitions, options.metadata) == (120.0, 4, True)


@pytest.mark.parametrize(
    ("said", "seconds"), [("90000", 90), ("1500ms", 1.5), ("15m", 900), ("15 min", 900), ("2H", 7200), ("1d", 86400)]
)
def test_durations_are_those_of_spark(said: str, seconds: float) -> None:
    assert Options.of({"maxTriggerDelay": said}).max_delay == seconds


def test_a_token_is_no_option_and_not_repeated() -> None:
    with pytest.raises(WalflowError, match="a token is never a plain option") as raised:
        Options.of({"token": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_where_the_token_comes_from(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("from one\n")
    other.write_text("from other\n")
    everywhere = {"WALFLOW_TOKEN_FILE": str(other), "WALFLOW_TOKEN": "from environment"}
    named = Options.of({"tokenFile": str(one)})
    assert named.key(everywhere).secret == b"from one"
    assert Options.of({}).key(everywhere).secret == b"from other"
    assert Options.of({}).key({"WALFLOW_TOKEN": "from environment\n"}).secret == b"from environment"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\x00", b"x" * 5000])
def test_a_token_file_that_holds_none(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(WalflowError, match=rf"^the token file {file} \(option tokenFile\)") as raised:
        Options.of({"tokenFile": str(file)}).key({})
    assert "\n" not in str(raised.value)


def test_no_token_at_all() -> None:
    with pytest.raises(WalflowError, match=r"^no token: name its file in option tokenFile or in WALFLOW_TOKEN_FILE"):
        Options.of({}).key({})


def test_the_part_for_users_of_kafka_names_tests_that_are_there() -> None:
    page = PAGE.read_text().partition("## From Spark's source for Kafka")[2]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 15
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), (file, test)
    rows = [line for line in page.partition("Its options")[0].splitlines() if line.startswith("| ")]
    assert all("`tests/" in row for row in rows[1:]), "each row has its test"


def test_a_table_of_sparks_catalog_gives_its_options_twice_and_much_else() -> None:
    """As Spark 4.3.0 does for CREATE TABLE."""
    table = {"option.port": "7", "option.tokenfile": "/t", "port": "7", "tokenfile": "/t"}
    properties = {
        "path": "file:/warehouse/lake",
        "provider": "walflow",
        "location": "x",
        "owner": "me",
        "is_managed_location": "true",
    }
    options = Options.of(table | properties | {"maxRowsPerBatch": "5"})
    assert (options.endpoint.port, options.token_file, options.max_rows) == (7, "/t", 5)
    with pytest.raises(WalflowError, match="there is no option prot: do you mean port"):
        Options.of(table | properties | {"option.prot": "7"})
    with pytest.raises(WalflowError, match="takes no path"):
        Options.of({"port": "7", "path": "/lake"})


def test_a_time_is_milliseconds_or_has_a_zone() -> None:
    given = {"startingTimestamp": "1700000000123", "endingTimestamp": "2023-11-14T23:13:20.5+01:00"}
    known = Options.of(given)
    assert (known.starting_ns, known.ending_ns) == (1_700_000_000_123_000_000, 1_700_000_000_500_000_000)
    assert Options.of({}).starting_ns is None
    for wrong, line in (
        ({"startingTimestamp": "yesterday"}, "startingTimestamp takes milliseconds since 1970, or a time as"),
        ({"startingTimestamp": "2023-11-14T22:13:20"}, "has no time zone: write 2023-11-14T22:13:20Z for UTC"),
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, "and startingOffsets too: leave one out"),
        ({"endingTimestamp": "1", "endingPosition": "7"}, "and endingPosition too: leave one out"),
    ):
        with pytest.raises(WalflowError, match=line):
            Options.of(wrong)
