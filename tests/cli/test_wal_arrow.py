"""`walflow wal export --arrow`: what a reader of Arrow gets."""

import io
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.wal_tools import ARRIVED, FIRST, append, flip, run
from walflow.cli.wal import arrow
from walflow.wal import Log, LogOptions


def rows(path: Path, *options: str, code: int = 0) -> list[dict[str, object]]:
    done = run("export", path, "--arrow", *options)
    assert done.exit_code == code, done.output
    with pa.ipc.open_stream(io.BytesIO(done.stdout_bytes)) as stream:
        return [row for batch in stream for row in batch.to_pylist()]


def test_each_event_is_a_row(tmp_path: Path) -> None:
    log = Log(LogOptions(str(tmp_path)))
    append(log, b'{"n": 1}', b'["two"]')
    append(log, "drei ü".encode(), codec="string")
    log.close()
    found = rows(tmp_path)
    assert [(row["position"], row["source"], row["value"]) for row in found] == [
        (1, "read", '{"n":1}'),
        (2, "read", '["two"]'),
        (3, "read", '"drei ü"'),
    ]
    assert {row["time"].value for row in found} == {ARRIVED}  # type: ignore[attr-defined]
    assert [row["position"] for row in rows(tmp_path, "--from", "2", "--to", "2")] == [2]
    assert [row["position"] for row in rows(tmp_path, "--to", "2023-11-14T22:13:20Z")] == []


def test_what_cannot_be_decoded_has_no_value_and_what_cannot_be_read_no_row(tmp_path: Path) -> None:
    log = Log(LogOptions(str(tmp_path)))
    append(log, b'{"n":1}')
    append(log, b"no json", b'{"n":3}')
    log.close()
    assert [row["value"] for row in rows(tmp_path, code=1)] == ['{"n":1}', None, '{"n":3}']
    assert "1 events could not be decoded: their value is null" in run("export", tmp_path, "--arrow").stderr
    flip(tmp_path / FIRST, (tmp_path / FIRST).read_bytes().index(b'{"n":1}'))
    assert [row["position"] for row in rows(tmp_path, code=1)] == [2, 3]
    assert "positions 1 to 1: corrupt" in run("export", tmp_path, "--arrow").stderr


@pytest.mark.parametrize(("bound", "batches"), [("ROWS", [3, 3, 1]), ("BYTES", [3, 3, 1])])
def test_a_batch_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, batches: list[int]) -> None:
    monkeypatch.setattr(arrow, bound, 3 if bound == "ROWS" else 30)
    log = Log(LogOptions(str(tmp_path)))
    for number in range(7):
        append(log, b'{"number":%d}' % number)
    log.close()
    with pa.ipc.open_stream(io.BytesIO(run("export", tmp_path, "--arrow").stdout_bytes)) as stream:
        assert [batch.num_rows for batch in stream] == batches
