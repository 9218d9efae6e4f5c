"""`walflow wal export` and `import`: a log goes through lines of JSON and comes out the same."""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.cli.wal_tools import ARRIVED, FIRST, append, flip, run
from tests.examples import examples
from tests.wal.tools import QuickDisk, checkpoint, chunk_files, files_of, put, read
from walflow.cli.wal.lines import ExportLine, LineWriter, encode, read_line, record_of
from walflow.codecs import JSON
from walflow.delivery.tag import Tags, arrived
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.wal import Log, LogOptions, Record
from walflow.wal.arrivals import Provenance
from walflow.wal.cursor import Acked

GOLDEN = Path(__file__).parents[1] / "wal" / "golden" / "v1"


RECEIPT = Receipt(lambda _: None, 1)
RECEIPT.pending = 0


def exported(path: Path, *options: str, code: int = 0) -> bytes:
    result = run("export", path, *options)
    assert result.exit_code == code, result.output
    return result.stdout_bytes


def imported(tmp_path: Path, lines: bytes, name: str = "again", chunk_size: int = 2048) -> Path:
    file, path = tmp_path / f"{name}.jsonl", tmp_path / name
    file.write_bytes(lines)
    result = run("import", path, file, "--chunk-size", str(chunk_size))
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir(tmp_path / name)) == sorted(
        {
            "LOCK",
            "cursor",
            "meta",
            *(Path(one).name for one in chunk_files(str(path))),
            *(["marks"] if b'"kind":"mark"' in lines else []),
        }
    )
    return path


def what_a_daemon_sends(path: Path) -> tuple[list[Record], list[tuple[int, int]]]:
    log = Log(LogOptions(str(path)), QuickDisk())
    try:
        return read(log), log.unacked(1, log.durable)
    finally:
        log.close()


def test_a_round_trip_is_identity(path: Path, tmp_path: Path) -> None:
    before = files_of(str(path))
    lines = exported(path)
    assert files_of(str(path)) == before
    again = imported(tmp_path, lines)
    assert exported(again) == lines
    assert run("check", again).output.startswith("sound: ")
    assert what_a_daemon_sends(again) == what_a_daemon_sends(path)
    assert exported(again) == lines  # and after it was used as well


def test_what_the_lines_say(path: Path) -> None:
    head, *rest = [json.loads(line) for line in exported(path).splitlines()]
    uuid = json.loads(run("stats", path, "--json").output)["uuid"]
    assert head == {"kind": "log", "version": 3, "uuid": uuid, "low": 4, "durable": 30, "ranges": []}
    terms = [line.pop("term") for line in rest]
    assert len(set(terms)) == len(list(path.glob("*.wal")))
    payload = "".join(f'{{"n":{number},"rest":"{"y" * 40}"}}\n' for number in (4, 5, 6))
    assert rest[1] == {
        "kind": "record",
        "position": 4,
        "count": 3,
        "ingest_ns": ARRIVED,
        "acked": 1,
        "source": "read",
        "run": 1,
        "stream": 3,
        "codec": "json",
        "framing": "separate",
        "meta": {"peer": "here"},
        "payload": payload,
    }
    assert [line["position"] for line in rest] == list(range(1, 31, 3))


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.json")))
def test_golden_directories_go_round(name: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(GOLDEN / name, tmp_path / name))
    damaged = 1 if name in ("damaged", "quarantine") else 0
    lines = exported(copy, code=damaged)
    again = imported(tmp_path, lines)
    assert exported(again, code=1 if name == "damaged" else 0) == lines  # what was lost and reported is nobody's now
    sent, unacked = what_a_daemon_sends(again)
    assert (sent, unacked) == what_a_daemon_sends(copy)


@pytest.mark.parametrize(("first", "last"), [(1, 30), (5, 8), (4, 6), (30, 30), (2, 2), (1, 4), (31, 99), (7, 99)])
def test_a_part_of_a_log_goes_round(path: Path, tmp_path: Path, first: int, last: int) -> None:
    lines = exported(path, "--from", str(first), "--to", str(last))
    again = imported(tmp_path, lines)
    assert exported(again) == lines
    _, unacked = what_a_daemon_sends(again)
    assert unacked == ([(max(first, 5), min(last, 30))] if last >= 5 and first <= 30 else [])


@pytest.mark.parametrize("short", [False, True])
def test_what_came_from_a_log_upstream_goes_round(*, short: bool) -> None:
    block = Block(StreamId("a::b", 1, 2), Frames(b"1\n", 1, LINES), JSON, RECEIPT, ingest_ns=1, meta={})
    tags = Tags()
    first, second = tags.encode(block), tags.encode(block)
    assert first != second
    tag = arrived(second if short else first, Provenance("ab" * 16, 7, 30, 39))
    record = Record(1, 1, tag, b"1\n", 5)
    line = LineWriter(Acked()).line(record)
    assert (line.source, line.arrived) == ("a::b", ("ab" * 16, 7, 30, 39))
    assert line.short is (True if short else msgspec.UNSET)
    again = read_line(encode(line))
    assert isinstance(again, ExportLine)
    assert record_of(again) == record
    with pytest.raises(ValueError, match="arrived must be"):
        record_of(msgspec.structs.replace(again, arrived=("ab" * 16, 1 << 40, 1, 1)))
    with pytest.raises(ValueError, match="arrived must be"):
        record_of(msgspec.structs.replace(again, arrived=("ab", 7, 1, 1)))


def test_what_json_cannot_say_goes_round(path: Path, tmp_path: Path) -> None:
    log = Log(LogOptions(str(path)), QuickDisk())
    put(log, b"\xff\0", tag=b"no tag", count=2)
    put(log, b"", tag=b"", count=1)
    append(log, b"1", metas=[{"raw": b"\0", "not a number": float("nan"), "big": 1 << 63}])
    append(log, '"ü\u2028\x7f"'.encode(), codec="json", metas=[{"half": 0.5, "none": None, "list": [1, {"a": "b"}]}])
    log.ack(31, 31)
    log.close()
    lines = exported(path)
    last = json.loads(lines.splitlines()[-1])
    assert last["event_metas"] == [{"half": 0.5, "none": None, "list": [1, {"a": "b"}]}]
    assert json.loads(lines.splitlines()[11])["payload_base64"] == "/wA="
    again = imported(tmp_path, lines)
    assert exported(again) == lines
    assert what_a_daemon_sends(again) == what_a_daemon_sends(path)


def test_lost_positions_are_lines_and_stay_lost(path: Path, tmp_path: Path) -> None:
    flip(path / FIRST, 160 + 272 + 60)  # 4 to 6, of which 4 is acked
    flip(path / FIRST, 160 + 2 * 272 + 60)  # 7 to 9
    flip(path / FIRST, 160 + 60)  # 1 to 3, all acked
    os.unlink(chunk_files(str(path))[2])
    result = run("export", path)
    lines = result.stdout_bytes
    assert result.exit_code == 1
    assert result.stderr.startswith(f"walflow: positions 1 to 3: corrupt in {FIRST} at ")
    lost = [json.loads(line) for line in lines.splitlines() if b'"lost"' in line]
    assert lost == [{"kind": "lost", "first": 5, "last": 9}, {"kind": "lost", "first": 19, "last": 27}]
    again = imported(tmp_path, lines)
    assert exported(again, code=1) == lines
    sent, _ = what_a_daemon_sends(again)
    assert [record.position for record in sent] == [10, 13, 16, 28]
    reports = [report.name for report in (again / "quarantine").glob("*.json")]
    assert sorted(reports) == [f"{5:020d}-{9:020d}.json", f"{19:020d}-{27:020d}.json"]


def test_an_unclean_log_goes_round(tmp_path: Path) -> None:
    """Acks that no cursor has, a torn record, trimmed chunks, more records than a chunk has room for."""
    dice = random.Random(3)
    path = tmp_path / "log"
    for life in range(6):
        log = Log(LogOptions(str(path), 1024, 64), QuickDisk())
        for _ in range(12):
            if log.fits(200, 2000):
                append(log, *[b'"%s"' % (b"x" * dice.randrange(300))] * dice.randrange(1, 5))
            first = dice.randrange(1, log.durable + 1)
            log.ack(first, first + dice.randrange(8))
            if dice.random() < 0.3 and (checkpoint := log.checkpoint()) is not None:
                checkpoint.flush()
                log.checkpointed(checkpoint)
        log.ack(1, log.durable - 40)
        (log.close if life % 2 else log.abandon)()
    lines = exported(path)
    again = imported(tmp_path, lines)
    assert exported(again) == lines
    assert what_a_daemon_sends(again) == what_a_daemon_sends(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(200))
@given(tag=st.binary(max_size=80), payload=st.binary(max_size=80), count=st.integers(1, 9))
def test_any_record_is_its_line(tag: bytes, payload: bytes, count: int) -> None:
    record = Record(7, count, tag, payload, -5)
    line = read_line(encode(LineWriter(Acked()).line(record)))
    assert record_of(line) == record  # type: ignore[arg-type]


def test_a_running_daemon_is_left_alone(path: Path, held: Log, tmp_path: Path) -> None:
    append(held, b'{"n":31}')
    lines = exported(path)
    assert json.loads(lines.splitlines()[-1])["position"] == 31
    assert exported(imported(tmp_path, lines)) == lines


class Recycling(QuickDisk):
    preallocates = True


@pytest.mark.parametrize(("disk", "chunk_size", "size"), [(QuickDisk, 2048, 100), (Recycling, 65536, 7000)])
@pytest.mark.test
def test_a_log_that_is_written_and_trimmed_meanwhile(
    tmp_path: Path, disk: type[QuickDisk], chunk_size: int, size: int
) -> None:
    """Whatever was deleted or written over while it was read: all lines fit, and no position is called lost."""
    log = Log(LogOptions(str(tmp_path / "log"), chunk_size, 8), disk())
    stop = threading.Event()

    def use() -> None:
        while not stop.wait(0.0005):
            if log.fits(200, size + 20):
                append(log, b'"%s"' % (b"x" * size), b"2", b"3")
            else:
                log.ack(1, log.durable - 4)
                checkpoint(log)

    user = threading.Thread(target=use)
    user.start()
    try:
        for number in range(15):
            assert run("dump", tmp_path / "log").exit_code == 0
            result = run("export", tmp_path / "log")
            assert (result.exit_code, result.stderr) == (0, "")
            imported(tmp_path, result.stdout_bytes, f"again{number}")
    finally:
        stop.set()
        user.join()
        log.close()


def test_what_is_delivered_meanwhile_counts_as_acked(tmp_path: Path, path: Path) -> None:
    head, *rest = exported(path).splitlines(keepends=True)
    lines = head + rest[0] + b'{"kind":"gone","first":4,"last":9}\n' + b"".join(rest[3:])
    sent, unacked = what_a_daemon_sends(imported(tmp_path, lines))
    assert (sent[0].position, unacked) == (10, [(10, 30)])


# What is wrong


def changed(lines: list[bytes], number: int, old: bytes, new: bytes) -> list[bytes]:
    assert old in lines[number - 1]
    return [*lines[: number - 1], lines[number - 1].replace(old, new), *lines[number:]]


WRONG: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "no line": (lambda lines: [], ":1: there is no line"),
    "no head": (lambda lines: lines[1:], ":1: Invalid value 'record'"),
    "no JSON": (lambda lines: [*lines[:3], b"{\n"], ":4: "),
    "cut in a line": (lambda lines: [*lines[:-1], lines[-1][:40]], ":11: "),
    "no UTF-8": (lambda lines: changed(lines, 3, b"yyyy", b"\xff"), ":3: "),
    "cut between lines": (lambda lines: lines[:-2], ":10: positions 25 to 30 are missing: they are not acked, and"),
    "a line is missing": (lambda lines: [*lines[:4], *lines[5:]], ":5: positions 10 to 12 are missing"),
    "in disorder": (lambda lines: [*lines[:4], lines[5], lines[4]], ":5: positions 10 to 12 are missing"),
    "twice": (lambda lines: [*lines[:4], *lines[3:]], ":5: position 7 comes after 9: positions must increase"),
    "newer": (lambda lines: changed(lines, 1, b'"version":3', b'"version":4'), ":1: these are lines of version 4"),
    "uuid": (lambda lines: changed(lines, 1, b'"uuid":"', b'"uuid":"x'), ":1: no log has the uuid 'x"),
    "low": (lambda lines: changed(lines, 1, b'"low":4', b'"low":44'), ":1: low, ranges and durable do not fit"),
    "ranges": (lambda lines: changed(lines, 1, b"[]", b"[[5,6]]"), ":1: low, ranges and durable do not fit"),
    "range": (lambda lines: changed(lines, 1, b"[]", b"[[9,31]]"), ":1: low, ranges and durable do not fit"),
    "durable": (lambda lines: changed(lines, 1, b'"durable":30', b'"durable":29'), ":11: position 30 is above 29"),
    "acked": (
        lambda lines: changed(lines, 3, b'"acked":1', b'"acked":2'),
        ":3: acked is 2, and the first line says 1",
    ),
    "count": (lambda lines: changed(lines, 3, b'"count":3', b'"count":0'), ":3: positions 4 to 3 are none"),
    "field": (lambda lines: changed(lines, 3, b'"count"', b'"amount"'), ":3: Object contains unknown field `amount`"),
    "no payload": (
        lambda lines: changed(lines, 3, b'"payload"', b'"source"'),
        ":3: it must have either payload",
    ),
    "no tag": (lambda lines: changed(lines, 3, b'"codec":"json",', b""), ":3: it has neither tag_base64 nor all of"),
    "arrival": (lambda lines: changed(lines, 3, str(ARRIVED).encode(), b"9" * 19), ":3: no event arrived at 999"),
    "term": (lambda lines: changed(lines, 3, b'"term":', b'"term":-'), ":3: no log has a term -"),
    "kind": (lambda lines: changed(lines, 3, b'"record"', b'"event"'), ":3: Invalid value 'event'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bad_line_is_named_and_nothing_is_left(path: Path, tmp_path: Path, name: str) -> None:
    change, words = WRONG[name]
    file = tmp_path / "lines"
    file.write_bytes(b"".join(change(exported(path).splitlines(keepends=True))))
    before = sorted(os.listdir(tmp_path))
    result = run("import", tmp_path / "again", file)
    assert result.exit_code == 65, result.output
    assert result.output.startswith(f"walflow: {file}{words}")
    assert result.output.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_what_is_there_is_not_touched(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(exported(path))
    before = files_of(str(path))
    result = run("import", path, file)
    assert (result.exit_code, result.output) == (73, f"walflow: {path} is not empty; import to another path\n")
    assert files_of(str(path)) == before
    result = run("import", file, file)
    assert (result.exit_code, "exists and is not an empty directory" in result.output) == (73, True)
    (tmp_path / "empty").mkdir()
    assert run("import", tmp_path / "empty", file, "--json").exit_code == 0
    assert exported(tmp_path / "empty") == file.read_bytes()


def test_files_that_are_not_there(tmp_path: Path) -> None:
    result = run("import", tmp_path / "log", tmp_path / "nowhere")
    assert (result.exit_code, result.output) == (66, f"walflow: {tmp_path}/nowhere: No such file or directory\n")
    assert run("import", tmp_path / "log", tmp_path).exit_code == 66
    assert os.listdir(tmp_path) == []


def test_what_a_killed_import_left_is_no_obstacle(path: Path, tmp_path: Path) -> None:
    left = tmp_path / "again.importing"
    left.mkdir()
    for name in ("LOCK", "cursor", FIRST):
        (left / name).write_bytes(b"half")
    again = imported(tmp_path, exported(path))
    assert exported(again) == exported(path)
    assert not left.exists()


def test_what_is_no_imports_is_left_there(path: Path, tmp_path: Path) -> None:
    left = tmp_path / "again.importing"
    left.mkdir()
    (left / "mine").write_text("precious")
    (tmp_path / "lines").write_bytes(exported(path))
    result = run("import", tmp_path / "again", tmp_path / "lines")
    assert (result.exit_code, "mine is in the way" in result.output) == (73, True)
    assert (left / "mine").read_text() == "precious"


def test_it_works_in_a_pipe(path: Path, tmp_path: Path) -> None:
    walflow = f"{sys.executable} -m walflow wal"
    shell = f"{walflow} export '{path}' | {walflow} import '{tmp_path}/again' --json"
    done = subprocess.run(shell, shell=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    known = json.loads(done.stdout)
    assert (known["records"], known["low"], known["durable"], known["backlog_events"]) == (10, 4, 30, 26)
    assert exported(tmp_path / "again") == exported(path)
