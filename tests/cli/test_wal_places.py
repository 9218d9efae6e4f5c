"""`walflow wal dump` and `export` from a time to a time."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from walflow.cli import app
from walflow.wal import Log, LogOptions

DAY = 1_700_000_000  # seconds: 2023-11-14T22:13:20Z
SECOND = 10**9


@pytest.fixture
def path(tmp_path: Path) -> str:
    """An event each second, in four chunks; all of it is acked and kept."""
    path = str(tmp_path / "log")
    log = Log(LogOptions(path, 1024, 4, retain_bytes=1 << 20))
    for number in range(12):
        log.append(b"", b"%d\n" % number + b"x" * 250, 1, (DAY + number) * SECOND)
        commit = log.commit()
        assert commit is not None
        commit.flush()
        log.committed(commit)
        log.ack(1, log.durable)
        while (checkpoint := log.checkpoint()) is not None:
            checkpoint.flush()
            log.checkpointed(checkpoint)
    assert log.history.count >= 2
    log.close()
    return path


def dumped(path: str, *options: str) -> list[int]:
    result = CliRunner().invoke(app(), ["wal", "dump", path, "--json", *options])
    assert result.exit_code == 0, result.output
    return [json.loads(line)["position"] for line in result.output.splitlines()]


@pytest.mark.parametrize("second", range(12))
def test_from_each_second(path: str, second: int) -> None:
    assert dumped(path, "--from", f"2023-11-14T22:13:{20 + second}Z") == [*range(second + 1, 13)]


def test_to_a_time_and_by_other_zones(path: str) -> None:
    assert dumped(path, "--from", "2023-11-14T23:13:22+01:00", "--to", "2023-11-14T22:13:24.5Z") == [3, 4, 5]
    assert dumped(path, "--from", "2", "--to", "2023-11-14T22:13:22Z") == [2]
    assert dumped(path, "--from", "2023-11-14T22:13:21Z", "--to", "4") == [2, 3, 4]


def test_a_fraction_of_a_second_counts_once(path: str) -> None:
    assert dumped(path, "--to", "2023-11-14T22:13:22.7Z") == [1, 2, 3]


def test_before_the_first_and_behind_the_last(path: str) -> None:
    assert dumped(path, "--from", "2020-01-01T00:00:00Z") == [*range(1, 13)]
    assert dumped(path, "--from", "-1h") == []
    assert dumped(path, "--to", "2020-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("given", "said"),
    [("yesterday", "is not a position, a time as"), ("2023-11-14T22:13:20", "has no time zone"), ("-3w", "how long")],
)
def test_what_is_no_place_says_what_to_write(path: str, given: str, said: str) -> None:
    result = CliRunner().invoke(app(), ["wal", "dump", path, "--from", given])
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
