"""A worker gets a range whole and once, over its connection or out of the log's files, or it is told why not."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from pyspark_walflow import wire
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.fetch import Range, fetch, forget, unreadable
from pyspark_walflow.options import Options
from pyspark_walflow.wire import SEED, FrameKind, Right, WireKey
from tests.pyspark_walflow.conftest import NewLake
from tests.pyspark_walflow.impostor import HANG_UP, LOG, TOKEN, Answers, impostor
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.logs import Given, records
from tests.pyspark_walflow.reads import options, positions, wanted
from walflow_kernel import log_records

OK = wire.control(FrameKind.OK, {})


@pytest.fixture(autouse=True)
def _no_connection_is_kept() -> Iterator[None]:
    yield
    forget()
    unreadable.clear()


@pytest.fixture(params=["true", "false"])
def local_files(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_range_goes_on_behind_the_last_row_when_the_daemon_was_killed(new_lake: NewLake, local_files: str) -> None:
    count = 40_000
    lake = new_lake([Given([b"x" * 1000] * 1000, stream=number) for number in range(count // 1000)])
    rows = fetch(options(lake, retrySeconds="60", localFiles=local_files), wanted(lake, 5, count - 5), "spark")
    found = next(rows)["position"].to_pylist()
    lake.kill()
    lake.start()
    assert found + positions(rows) == list(range(5, count - 5))


def test_a_kept_connection_may_be_dead(lake: Lake) -> None:
    lake.send(*numbered(10))
    range_ = wanted(lake, 1, 11)
    assert positions(fetch(options(lake), range_, "spark")) == list(range(1, 11))
    lake.kill()
    lake.start()
    assert positions(fetch(options(lake, retrySeconds="30"), range_, "spark")) == list(range(1, 11))


def damaged(new_lake: NewLake) -> Lake:
    """Positions 3 and 4 do not have the bytes they were written with."""
    lake = new_lake([Given([b"one", b"two"]), Given([b"three", b"four"]), Given([b"five"])])
    lake.kill()
    [chunk] = [file for file in lake.state.glob("*.wal") if b"three\nfour" in file.read_bytes()]
    chunk.write_bytes(chunk.read_bytes().replace(b"three\nfour", b"three\nfuor"))
    lake.start()
    return lake


def test_what_the_disk_lost_is_an_error_that_names_it(new_lake: NewLake, local_files: str) -> None:
    lake = damaged(new_lake)
    with pytest.raises(WalflowError, match=r"^positions 3 to 4 are lost: .*failOnDataLoss"):
        list(fetch(options(lake, localFiles=local_files), wanted(lake, 1, 6), "spark"))


def test_what_the_disk_lost_is_told_where_nobody_minds(
    new_lake: NewLake, local_files: str, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = damaged(new_lake)
    said = options(lake, failOnDataLoss="false", localFiles=local_files)
    assert positions(fetch(said, wanted(lake, 1, 6), "spark")) == [1, 2, 5]
    assert "walflow: positions 3 to 4 are lost: " in capfd.readouterr().err


def data(directory: Path, first: int, *events: bytes) -> bytes:
    """A DATA frame whose first record is at `first`."""
    blocks = [Given([b"-"] * (first - 1)), Given(events)] if first > 1 else [Given(events)]
    seed, raw = records(directory, blocks)
    start = raw.index(log_records.SYNC, 1) if first > 1 else 0
    return wire.frame(FrameKind.DATA, SEED.pack(seed) + raw[start:])


def from_impostor(answer: Answers, end: int = 4, **more: str) -> list[int]:
    with impostor(answer) as port:
        said = Options.of({"port": str(port), "retrySeconds": "0"} | more)
        ticket = WireKey.of_token(TOKEN).ticket(Right.READ, LOG)
        try:
            return positions(fetch(said, Range(1, end, LOG, ticket), "spark"))
        finally:
            forget()


def test_fewer_rows_than_asked_for_are_an_error(tmp_path: Path) -> None:
    piece = data(tmp_path, 1, b"a", b"b")
    with pytest.raises(WalflowError, match=r"^positions 3 to 3 did not come, and the daemon did not say why$"):
        from_impostor(lambda kind, fields: piece + OK)


def test_rows_of_another_place_are_an_error(tmp_path: Path) -> None:
    piece = data(tmp_path, 2, b"b", b"c")
    with pytest.raises(WalflowError, match=r"^position 1 was to come, 2 came$"):
        from_impostor(lambda kind, fields: piece + OK)


def test_a_loss_that_begins_too_late_is_an_error() -> None:
    lost = wire.control(FrameKind.LOST, {"first": 3, "last": 3, "reason": "corrupt"})
    with pytest.raises(WalflowError, match=r"^positions 1 to 2 did not come, and the daemon did not say why$"):
        from_impostor(lambda kind, fields: lost + OK, failOnDataLoss="false")


@pytest.mark.parametrize(
    ("crc32c", "message"),
    [
        (True, "the record at position 1 arrived with another checksum than it has"),
        (False, "a frame arrived with another checksum than it was sent with"),
    ],
)
def test_bytes_that_were_changed_on_their_way_are_an_error(
    crc32c: bool, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where records are verified by their own checksums, their frame is not verified once more,
    and needs no checksum."""
    if not crc32c:
        monkeypatch.setitem(sys.modules, "google_crc32c", None)
    asked: list[object] = []
    sound = data(tmp_path, 1, b"a", b"b", b"c")
    changed = sound.replace(b"a\nb\nc", b"a\nB\nc")
    answers = [sound, changed]

    def answer(kind: FrameKind, fields: dict[str, object]) -> bytes:
        asked.append(fields.get("summed"))
        return answers.pop(0) + OK

    assert from_impostor(answer) == [1, 2, 3]
    with pytest.raises(WalflowError, match=message):
        from_impostor(answer)
    assert asked == [False if crc32c else None] * 2


def test_a_connection_that_ends_in_the_middle_is_made_again_from_there(tmp_path: Path) -> None:
    asked: list[object] = []
    answers = [data(tmp_path / "1", 1, b"a", b"b") + HANG_UP, HANG_UP, data(tmp_path / "2", 3, b"c") + OK]

    def answer(kind: FrameKind, fields: dict[str, object]) -> bytes:
        asked.append(fields["first"])
        return answers.pop(0)

    assert from_impostor(answer, retrySeconds="30") == [1, 2, 3]
    assert asked == [1, 3, 3]


# out of the log's files


def placed(path: Path, seed: int, size: int, **other: object) -> bytes:
    return wire.control(FrameKind.PLACE, {"path": str(path), "seed": seed, "offset": 0, "limit": size} | other)


def test_a_worker_on_the_daemons_machine_reads_the_files(new_lake: NewLake) -> None:
    """The daemon is killed when it has said where the events are."""
    count = 40_000
    lake = new_lake([Given([b"x" * 1000] * 1000, stream=number) for number in range(count // 1000)])
    rows = fetch(options(lake), wanted(lake, 5, count - 5), "spark")
    found = next(rows)["position"].to_pylist()
    lake.kill()
    assert found + positions(rows) == list(range(5, count - 5))


def test_files_that_the_worker_may_not_read_come_over_the_connection(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    answers = [
        placed(tmp_path / "elsewhere", 7, 100),
        data(tmp_path / "log", 1, b"a", b"b", b"c"),
        data(tmp_path / "again", 1, b"a", b"b", b"c"),
    ]

    def answer(kind: FrameKind, fields: dict[str, object]) -> bytes:
        asked.append(fields.get("files"))
        return answers.pop(0) + OK

    assert from_impostor(answer) == [1, 2, 3]
    assert from_impostor(answer) == [1, 2, 3]
    assert asked == [True, None, None]  # it does not try that log's files again
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("damage", ["another seed", "shorter", "no records", "fewer positions"])
def test_files_that_do_not_hold_what_the_daemon_says_come_over_the_connection(
    damage: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seed, records_ = records(tmp_path / "log", [Given([b"a", b"b"]), Given([b"c"]), Given([b"d"])])
    file = tmp_path / "file"
    limit = len(records_)
    if damage == "another seed":
        seed ^= 1
    elif damage == "shorter":
        records_ = records_[:-8]
    elif damage == "no records":
        records_ = bytes(limit)
    else:
        limit = records_.rindex(log_records.SYNC)
    file.write_bytes(records_)
    asked: list[tuple[object, object]] = []

    def answer(kind: FrameKind, fields: dict[str, object]) -> bytes:
        asked.append((fields["first"], fields.get("files")))
        if len(asked) == 1:
            return placed(file, seed, limit) + OK
        return data(tmp_path / "sent", cast(int, fields["first"]), *[b"e"] * (5 - cast(int, fields["first"]))) + OK

    assert from_impostor(answer, end=5) == [1, 2, 3, 4]
    assert asked[0] == (1, True)
    assert asked[1][1] is None
    assert len(asked) == 2
    assert ("is asked for the events from position" in capfd.readouterr().err) == (damage != "fewer positions")


def test_a_place_without_its_fields_is_no_place() -> None:
    with pytest.raises(WalflowError, match="a place in a file without path, seed, offset, limit"):
        from_impostor(lambda kind, fields: wire.control(FrameKind.PLACE, {"path": "/"}) + OK)


def test_nobody_is_told_of_files_who_did_not_ask(tmp_path: Path) -> None:
    with pytest.raises(WalflowError, match="answered with a frame of kind 54, which was not asked for"):
        from_impostor(lambda kind, fields: placed(tmp_path / "x", 1, 1) + OK, localFiles="false")
