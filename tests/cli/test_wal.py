"""`walflow wal`: a broken directory and the command line are enough to get out of it;
afterwards the log is used again."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.wal_tools import ARRIVED, FIRST, append, flip, inventory, run
from tests.wal.tools import QuickDisk, chunk_files, files_of, payloads, put, restore, works
from walflow.errors import Unusable
from walflow.wal import Log, LogOptions
from walflow.wal.format import CHECKSUM, META, META_MAGIC, SLOT, crc

# stats


def test_stats_of_a_stopped_log(path: Path) -> None:
    before = files_of(str(path))
    known = json.loads(run("stats", path, "--json").output)
    assert (known["low"], known["durable"], known["next"], known["backlog_events"]) == (4, 30, 31, 26)
    assert known["held_by"] is None
    assert len(known["chunks"]) == len(chunk_files(str(path)))
    assert known["chunks"][0]["first"] == 1
    assert known["chunks"][-1]["last"] == 30
    assert known["bytes"] == sum(len(data) for name, data in before.items() if name.endswith(".wal"))
    assert files_of(str(path)) == before
    assert "positions: acked to 4, durable to 30, next 31" in run("stats", path).output


def test_stats_of_a_log_in_use_names_its_holder_and_waits_for_nothing(path: Path, held: Log) -> None:
    append(held, b"1")
    known = json.loads(run("stats", path, "--json").output)
    assert known["held_by"] == f"process {os.getpid()}"
    assert known["durable"] == 31
    assert f"in use by process {os.getpid()}" in run("stats", path).output


def test_stats_lists_what_was_lost(path: Path) -> None:
    flip(Path(chunk_files(str(path))[-1]), 300)
    Log(LogOptions(str(path))).close()
    known = json.loads(run("stats", path, "--json").output)
    (report,) = [one["report"] for one in known["quarantine"]]
    assert report["reason"] == "corrupt"
    assert "quarantine: 1 entry" in run("stats", path).output


@pytest.mark.parametrize("command", ["stats", "check", "dump", "repair"])
def test_what_is_no_log_is_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    assert run(command, tmp_path / "file").exit_code == 74
    assert "is not a log" in run(command, tmp_path / "file").output
    assert run(command, tmp_path / "nowhere").exit_code == 74
    result = run(command, tmp_path / "empty")
    assert result.exit_code == 74
    assert result.output.count("\n") == 1
    assert os.listdir(tmp_path / "empty") == []


# check


def test_a_sound_log_is_sound_also_while_it_is_used(path: Path) -> None:
    result = run("check", path)
    assert (result.exit_code, result.output.splitlines()[-1][:6]) == (0, "sound:")
    log = Log(LogOptions(str(path)))
    try:
        assert run("check", path).exit_code == 0
        works(log)
        assert json.loads(run("check", path, "--json").output)["held_by"] == f"process {os.getpid()}"
    finally:
        log.close()


def test_an_empty_log_is_sound(tmp_path: Path) -> None:
    Log(LogOptions(str(tmp_path / "new"))).close()
    assert run("check", tmp_path / "new").exit_code == 0
    assert run("dump", tmp_path / "new").output == ""
    assert run("stats", tmp_path / "new").exit_code == 0


@pytest.mark.parametrize(
    ("file", "byte", "size", "first", "last"),
    [
        (FIRST, 160 + 60, 272, 1, 3),  # a body that was acked in part
        (FIRST, 160 + 272 + 9, 272, 4, 6),  # a header
        (FIRST, 20, 80, 0, 0),  # the first copy of the chunk's header
        (FIRST, 100, 80, 0, 0),
        ("cursor", 30, SLOT, 0, 0),
        ("cursor", SLOT + 30, SLOT, 0, 0),
        ("meta", 14, 0, 0, 0),
    ],
)
def test_every_damage_is_named(path: Path, file: str, byte: int, size: int, first: int, last: int) -> None:
    flip(path / file, byte)
    before = files_of(str(path))
    result = run("check", path, "--json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.output)["findings"]
    assert finding["file"] == file
    assert (finding["size"] > 0, finding["first"], finding["last"]) == (size > 0, first, last)
    if size:
        assert finding["offset"] <= byte < finding["offset"] + finding["size"]
    assert f"{file} at " in run("check", path).output or file == "meta"
    assert files_of(str(path)) == before


def test_a_missing_chunk_is_named_by_its_positions(path: Path) -> None:
    os.unlink(chunk_files(str(path))[1])
    known = json.loads(run("check", path, "--json").output)
    (finding,) = known["findings"]
    follower = int(Path(chunk_files(str(path))[1]).name[:20])
    assert (finding["kind"], finding["last"]) == ("missing", follower - 1)


@pytest.mark.parametrize("before", [0, 1])
def test_a_torn_tail_is_told_and_is_no_damage(path: Path, before: int) -> None:
    log = Log(LogOptions(str(path), 1024, 64))
    for number in range(before + 1):
        append(log, b'{"torn":%d}' % number)
    log.abandon()
    last = Path(chunk_files(str(path))[-1])
    last.write_bytes(last.read_bytes()[:-9])
    result = run("check", path)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("torn: ")
    left = last.read_bytes()
    assert run("repair", path, "--dry-run").exit_code == 1
    assert last.read_bytes() == left
    assert run("repair", path, "--yes").exit_code == 0
    assert run("check", path).output.startswith("sound: ")
    (copy,) = (path / "quarantine").iterdir()
    assert copy.name == f"{last.name}.copy"
    assert left.endswith(copy.read_bytes())
    assert b'{"tor' in copy.read_bytes()


# dump


def test_dump_prints_one_event_a_line(path: Path) -> None:
    lines = run("dump", path).output.splitlines()
    assert len(lines) == 30
    assert lines[6].startswith('7 2023-11-14T22:13:20.123456Z read#3 {"peer":"here"} {"n":7,"rest":"yyy')
    assert [line.split()[0] for line in run("dump", path, "--from", "5", "--to", "8").output.splitlines()] == list(
        "5678"
    )
    assert run("dump", path, "--from", "99").output == ""


def test_dump_for_scripts(path: Path) -> None:
    events = [
        json.loads(line) for line in run("dump", path, "--from", "4", "--to", "5", "--json").output.splitlines()
    ]
    assert [event["position"] for event in events] == [4, 5]
    assert [event["acked"] for event in events] == [True, False]
    assert (events[0]["source"], events[0]["stream"], events[0]["codec"]) == ("read", 3, "json")
    assert (events[0]["meta"], events[0]["event"]["n"], events[0]["ingest_ns"]) == ({"peer": "here"}, 4, ARRIVED)


def test_dump_raw_is_the_payloads_and_nothing_else(path: Path) -> None:
    raw = run("dump", path, "--raw", "--from", "2", "--to", "4").stdout_bytes
    assert [json.loads(line)["n"] for line in raw.splitlines()] == [2, 3, 4]
    assert raw.endswith(b"}\n")
    assert run("dump", path, "--raw", "--json").exit_code == 2


def test_dump_goes_on_behind_what_cannot_be_read(path: Path) -> None:
    flip(path / FIRST, 160 + 272 + 60)
    result = run("dump", path)
    assert result.exit_code == 1
    assert [line.split()[0] for line in result.stdout.splitlines()[:5]] == ["1", "2", "3", "7", "8"]
    assert result.stderr.startswith(f"walflow: positions 4 to 6: corrupt in {FIRST} at ")


def test_dump_of_what_no_codec_reads(path: Path) -> None:
    log = Log(LogOptions(str(path)))
    put(log, b"\xff\x1b[2J", count=2, tag=b"no tag")
    append(log, b"{", b"2", metas=[{"a": 1}, {"b": b"\0"}])
    log.close()
    undecoded, broken, good = run("dump", path, "--from", "31").output.splitlines()
    assert undecoded.startswith("31-32 ")
    assert "\x1b" not in undecoded
    assert broken.startswith('33 2023-11-14T22:13:20.123456Z read#3 {"peer":"here","a":1} (not json: ')
    assert good.endswith(' {"peer":"here","b":"AA=="} 2')
    known = [json.loads(line) for line in run("dump", path, "--from", "31", "--json").output.splitlines()]
    assert known[0]["payload_base64"] == "/xtbMko="
    assert run("dump", path, "--raw", "--from", "31").stdout_bytes == b"\xff\x1b[2J{\n2\n"


def test_a_closed_stdout_ends_a_dump_quietly(path: Path) -> None:
    log = Log(LogOptions(str(path)), QuickDisk())
    append(log, *[b'"%s"' % (b"x" * 500)] * 1000)
    log.close()
    dump = subprocess.Popen(
        [sys.executable, "-m", "walflow", "wal", "dump", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with dump:
        assert dump.stdout is not None
        assert dump.stderr is not None
        assert dump.stdout.readline().startswith(b"1 ")
        dump.stdout.close()
        assert dump.stderr.read() == b""
    assert dump.returncode == 0


@pytest.mark.parametrize("command", ["stats", "check", "dump"])
def test_a_stdout_that_was_never_open_is_no_error(path: Path, command: str) -> None:
    shell = f"{sys.executable} -m walflow wal {command} '{path}' >&-"
    done = subprocess.run(shell, shell=True, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# repair


def in_the_way(name: str) -> Callable[[Path], None]:
    def break_it(path: Path) -> None:
        if (path / name).exists():
            (path / name).rename(path.parent / "elsewhere")
        (path / name).mkdir()
        (path / name / "precious").write_text("data")

    return break_it


def link(name: str) -> Callable[[Path], None]:
    def break_it(path: Path) -> None:
        (path / name).unlink(missing_ok=True)
        (path / name).symlink_to("/dev/null")

    return break_it


def pipe(name: str) -> Callable[[Path], None]:
    def break_it(path: Path) -> None:
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)

    return break_it


def without_meta_a_directory_for_its_successor(path: Path) -> None:
    (path / "meta").unlink()
    in_the_way("meta.tmp")(path)


def quarantine_is_a_file_and_is_needed(path: Path) -> None:
    (path / "quarantine").write_text("mine")
    (path / f"{99:020d}.wal").write_bytes(b"no chunk")


def several_at_once(path: Path) -> None:
    for name in ("LOCK", "cursor", "meta"):
        in_the_way(name)(path)
        shutil.rmtree(path.parent / "elsewhere", ignore_errors=True)
        (path.parent / "elsewhere").unlink(missing_ok=True)


def another_log(path: Path) -> None:
    """Chunks and the cursor's one slot of another log, and no meta to say which one it is."""
    other = path.parent / "other"
    log = Log(LogOptions(str(other), 1024, 64), QuickDisk())
    append(log, *[b'"theirs"'] * 200)
    append(log, b'"also theirs"')
    log.close()
    for name, data in files_of(str(other)).items():
        if name.endswith(".wal"):
            (path / f"{int(name[:20]) + 1000:020d}.wal").write_bytes(data)
    (path / "meta").unlink()


BREAKS = [
    *(kind(name) for name in ("LOCK", "meta", "cursor") for kind in (in_the_way, link)),
    pipe("LOCK"),
    pipe("cursor"),
    without_meta_a_directory_for_its_successor,
    quarantine_is_a_file_and_is_needed,
    several_at_once,
    another_log,
]


@pytest.mark.parametrize("break_it", BREAKS)
def test_what_a_start_refuses_is_repaired_and_used_again(path: Path, break_it: Callable[[Path], None]) -> None:
    break_it(path)
    if break_it not in (BREAKS[6], BREAKS[7]):  # a pipe stops a start by a failed write
        with pytest.raises(Exception, match=r"cannot|unlink failed|recovery failed|different logs"):
            Log(LogOptions(str(path)))
    before = inventory(path)
    dry = run("repair", path, "--dry-run")
    assert dry.exit_code == 1, dry.output
    assert "to do: " in dry.output
    assert inventory(path) == before
    result = run("repair", path, "--yes")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith(f"the log opens: {path} ")
    assert run("repair", path, "--dry-run").output == "nothing to do: the log opens\n"
    log = Log(LogOptions(str(path)), QuickDisk())
    try:
        assert b'{"n":30,' in payloads(log)[-1]
        works(log)
    finally:
        log.close()
    assert contents(path) >= {kept for kept in before.values() if kept in (b"data", b"mine", b"no chunk")}


def contents(path: Path) -> set[bytes]:
    return set(inventory(path).values())


def test_the_line_of_a_refused_start_is_a_command_that_works(path: Path) -> None:
    in_the_way("cursor")(path)
    with pytest.raises(Unusable) as refused:
        Log(LogOptions(str(path)))
    _, _, command = str(refused.value).partition("run: walflow ")
    done = subprocess.run(
        f"{sys.executable} -m walflow {command} --yes", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    Log(LogOptions(str(path))).close()


def test_it_asks_first(path: Path) -> None:
    in_the_way("cursor")(path)
    before = inventory(path)
    for answer in ("n\n", ""):
        result = run("repair", path, answer=answer)
        assert result.exit_code == 1
        assert "nothing was changed; --yes does it without asking" in result.output
        assert inventory(path) == before
    assert run("repair", path, answer="y\ny\n").exit_code == 0


def test_scripts_are_told_in_json_and_asked_nothing(path: Path) -> None:
    in_the_way("cursor")(path)
    assert run("repair", path, "--json").exit_code == 2
    dry = run("repair", path, "--json", "--dry-run")
    assert (dry.exit_code, json.loads(dry.output)["opens"]) == (1, False)
    result = run("repair", path, "--json", "--yes")
    known = json.loads(result.output)
    assert (result.exit_code, known["opens"], known["done"]) == (0, True, known["to_do"])
    assert known["start"] == ["the cursor is missing: everything in the log is delivered again"]
    assert (known["low"], known["durable"], known["backlog_events"]) == (0, 30, 30)
    again = json.loads(run("repair", path, "--json", "--dry-run").output)
    assert (again["opens"], again["to_do"]) == (True, [])


def test_a_log_in_use_is_refused(path: Path, held: Log) -> None:
    for options in ([], ["--dry-run"], ["--yes"]):
        result = run("repair", path, *options)
        assert result.exit_code == 75
        assert f"is in use by process {os.getpid()}; stop it first" in result.output
    works(held)


def test_of_two_logs_both_can_be_read_afterwards(path: Path) -> None:
    another_log(path)
    ours = json.loads(run("stats", path.parent / "other", "--json").output)["uuid"]
    assert run("repair", path, "--yes").exit_code == 0
    other = path / "quarantine" / f"log-{ours}"
    assert '"also theirs"' in run("dump", other).output
    assert run("stats", path).exit_code == 0
    assert run("dump", path).output.count('{"n":') == 30


def test_which_of_two_logs_stays_can_be_said(path: Path) -> None:
    another_log(path)
    theirs = json.loads(run("stats", path.parent / "other", "--json").output)["uuid"]
    result = run("repair", path, "--yes", "--keep", "00")
    assert (result.exit_code, theirs in result.output) == (74, True)
    assert run("repair", path, "--yes", "--keep", theirs).exit_code == 0
    assert '"also theirs"' in run("dump", path).output
    (other,) = (path / "quarantine").glob("log-*")
    assert json.loads(run("stats", other, "--json").output)["low"] == 4  # the cursor went with them
    assert run("dump", other).output.count('{"n":') == 30


def test_a_newer_version_is_left_to_the_newer_version(path: Path) -> None:
    fields = META.pack(META_MAGIC, 3, 0, bytes(16), 0)
    (path / "meta").write_bytes(fields + CHECKSUM.pack(crc(0, fields)))
    before = files_of(str(path))
    for command in ("stats", "check", "dump", "repair"):
        result = run(command, path)
        assert result.exit_code == 74
        assert "written by a newer walflow" in result.output
    assert files_of(str(path)) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open anything")
@pytest.mark.parametrize("name", ["", "meta", "cursor", "LOCK", FIRST])
def test_modes_that_keep_us_out_are_set_right(path: Path, name: str) -> None:
    os.chmod(path / name, 0)
    assert run("repair", path, "--yes").exit_code == 0
    log = Log(LogOptions(str(path)), QuickDisk())
    works(log)
    log.close()


def test_damage_that_a_start_heals_is_told_before(path: Path) -> None:
    flip(Path(chunk_files(str(path))[-1]), 300)
    (path / "cursor").unlink()
    result = run("repair", path, "--dry-run")
    assert result.exit_code == 1
    assert (
        "the next start does the rest: the cursor is missing: everything in the log is delivered again"
        in result.output
    )
    assert not (path / "cursor").exists()
    assert run("repair", path, "--yes").exit_code == 0


def the_meta_is_gone(path: Path) -> None:
    (path / "meta").unlink()


def the_meta_is_damaged(path: Path) -> None:
    flip(path / "meta", 14)


def the_cursor_is_garbage(path: Path) -> None:
    (path / "cursor").write_bytes(b"garbage!" * 1024)


def a_chunk_is_cut(path: Path) -> None:
    os.truncate(chunk_files(str(path))[1], 500)


def the_last_chunk_is_cut(path: Path) -> None:
    os.truncate(chunk_files(str(path))[-1], 300)


def a_chunk_is_empty(path: Path) -> None:
    os.truncate(chunk_files(str(path))[1], 0)


def a_bit_is_flipped(path: Path) -> None:
    flip(path / FIRST, 500)


def a_foreign_file_has_a_chunks_name(path: Path) -> None:
    (path / f"{777:020d}.wal").write_text("not mine")


def all_chunks_are_gone(path: Path) -> None:
    for file in chunk_files(str(path)):
        os.unlink(file)


def a_header_is_damaged(path: Path) -> None:
    flip(path / FIRST, 30)


def the_other_copy_of_a_header_is_damaged(path: Path) -> None:
    flip(path / FIRST, 110)


HARM = (
    a_header_is_damaged,
    the_other_copy_of_a_header_is_damaged,
    the_meta_is_gone,
    the_meta_is_damaged,
    the_cursor_is_garbage,
    a_chunk_is_cut,
    the_last_chunk_is_cut,
    a_chunk_is_empty,
    a_bit_is_flipped,
    a_foreign_file_has_a_chunks_name,
    all_chunks_are_gone,
)


@pytest.mark.parametrize("harm", HARM)
def test_what_check_names_repair_settles(path: Path, harm: Callable[[Path], None]) -> None:
    """Check, the command that it names, check again; nothing that was there is gone."""
    harm(path)
    before = inventory(path)
    result = run("check", path)
    assert result.exit_code == 1, result.output
    command = result.output.splitlines()[-1].partition("walflow wal ")[2]
    assert command == f"repair '{path}'"
    assert run("repair", path, "--dry-run").exit_code == 1
    assert inventory(path) == before
    repaired = run("repair", path, "--yes")
    assert repaired.exit_code == 0, repaired.output
    again = run("check", path)
    assert again.exit_code == 0, again.output
    assert all(line.startswith(("reported: ", "sound: ")) for line in again.output.splitlines())
    assert run("repair", path, "--dry-run").output == "nothing to do: the log opens\n"
    for name, data in before.items():
        if harm in (a_header_is_damaged, the_other_copy_of_a_header_is_damaged) and name == FIRST:
            data = data[:160]
        assert name in ("cursor", "LOCK") or any(data in one for one in contents(path)), name
    if harm is the_cursor_is_garbage:
        assert before["cursor"] in contents(path)


def test_each_lost_position_has_its_report(path: Path) -> None:
    a_chunk_is_cut(path)
    flip(path / FIRST, 500)
    result = run("repair", path, "--yes")
    assert "done: positions 5 to 6 are lost: corrupt in" in result.output
    known = json.loads(run("stats", path, "--json").output)
    reports = [one["report"] for one in known["quarantine"]]
    assert [(one["first"], one["last"]) for one in reports] == [(5, 6), (13, 15), (16, 18)]
    assert known["backlog_events"] == 26 - 2 - 6


def test_no_lock_is_taken_by_looking(path: Path) -> None:
    """A daemon that starts at that moment is not turned away."""
    fd = os.open(path / "LOCK", os.O_RDWR)
    try:
        before = os.stat(path / "LOCK")
        fcntl.flock(fd, fcntl.LOCK_EX)
        for command in ("stats", "check", "dump"):
            assert run(command, path).exit_code == 0
        assert os.stat(path / "LOCK").st_mtime_ns == before.st_mtime_ns
    finally:
        os.close(fd)


@pytest.mark.test
def test_any_single_byte_gone_wrong_is_survived_by_every_command(path: Path) -> None:
    files = files_of(str(path))
    for name in (FIRST, "meta", "cursor"):
        for byte in range(0, min(len(files[name]), 600), 37):
            restore(str(path), files)
            flip(path / name, byte)
            for command in ("stats", "check", "dump"):
                result = run(command, path)
                assert result.exit_code in (0, 1), (name, byte, result.output)
                assert result.exception is None or isinstance(result.exception, SystemExit)


def test_repair_of_what_is_not_there_says_so(tmp_path: Path) -> None:
    result = run("repair", tmp_path / "nosuch")
    assert result.exit_code == 74
    assert result.output == (
        f"walflow: {tmp_path / 'nosuch'}: there is no log there, and nothing to repair; the path is the "
        "`path` of a `wal` in a flow file\n"
    )
