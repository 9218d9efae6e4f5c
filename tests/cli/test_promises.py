"""The sentences of `walflow check` that depend on the whole flow."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.flows.builder import NULL, PASSED, flow_of, lines_in, lines_out, pipeline, plain
from walflow.cli import app


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


HTTP = plain("http_server", url="127.0.0.1:8080")
STATE = plain("wal", path="state")


@pytest.mark.parametrize("ways", [(), ("http/err -> dead",)])
def test_a_source_whose_keys_no_log_gives_back(ways: tuple[str, ...]) -> None:
    Path("main.troy").write_text(flow_of("http -> log -> out", *ways, http=HTTP, log=STATE, out=NULL, dead=NULL))
    said = CliRunner().invoke(app(), ["check", "main.troy"]).stdout
    forgets = "note: main::http: here a restart forgets all its keys, because its events go to dead and log;"
    assert (forgets in said) == bool(ways)


BATCHES = pipeline("""
    define operator two from generic::batch with count = 2 end;
    create operator two;
    select event from in into two;
    select event from two into out;
""")
DIRECT = "lines -> log"


@pytest.mark.parametrize(
    ("path", "sync", "ways", "once"),
    [
        ("in/*.log", "always", [DIRECT], True),
        ("in/app.log", "always", [DIRECT], True),
        ("in/*", "always", [DIRECT], False),
        ("in/app.log*", "always", [DIRECT], False),
        ("in/*z", "always", [DIRECT], False),
        ("in/*.log", "never", [DIRECT], False),
        ("in/*.log", "always", ["lines -> batches -> log"], False),
        ("in/*.log", "always", [DIRECT, "lines -> other -> log"], False),
    ],
)
def test_where_a_log_recognises_what_a_followed_file_reads_again(
    path: str, sync: str, ways: list[str], once: bool
) -> None:
    lines = lines_in("file", path=path, mode="read", follow=True)
    log = plain("wal", path="state", sync=sync)
    between = {"batches": BATCHES, "other": PASSED}
    Path("main.troy").write_text(flow_of(*ways, "log -> out", lines=lines, log=log, out=NULL, **between))
    said = CliRunner().invoke(app(), ["check", "main.troy"]).stdout
    assert ("each event that comes here from lines is appended once, also after kill -9" in said) == once


TCP = 'tcp_server with config = {"url": "127.0.0.1:4242"}'
LINES = '`preprocessors = ["separate"]` cuts it at newlines'
LENGTHS = '`preprocessors = ["length-prefixed"]` cuts it where the sender writes the length before each'
NONE_CUTS = "none of its preprocessors cuts the stream: `separate` cuts at newlines, `length-prefixed` by lengths"


@pytest.mark.parametrize(
    ("source", "port", "hint"),
    [
        (f'{TCP}, codec = "json"', "", LINES),
        (f'{TCP}, codec = "syslog"', "", LINES),
        (f'{TCP}, codec = "string"', "", LINES),
        (f'{TCP}, codec = "msgpack"', "", LENGTHS),
        (f'{TCP}, codec = "yaml"', "", LENGTHS),
        (f'{TCP}, codec = "json", preprocessors = ["decompress"]', "", NONE_CUTS),
        ('unix_socket_server with config = {"path": "in"}, codec = "json"', "", LINES),
        ('stdio with codec = "json"', "", LINES),
        ('file with codec = "json", config = {"path": "in", "mode": "read"}', "", LINES),
        (f'{TCP}, codec = "json"', "/err", None),
        (f'{TCP}, codec = "binary"', "", None),
        (f'{TCP}, codec = "json", preprocessors = ["separate"]', "", None),
        (f'{TCP}, codec = "json", preprocessors = ["textual-length-prefixed"]', "", None),
        (f'{TCP}, codec = "json", preprocessors = ["separate", "base64"]', "", None),
        (f'{TCP}, codec = "json", preprocessors = ["decompress", "separate", "remove-empty"]', "", None),
        ('udp_server with config = {"url": "127.0.0.1:4242"}, codec = "json"', "", None),
        ('ws_server with config = {"url": "127.0.0.1:4242"}, codec = "json"', "", None),
        ('http_server with config = {"url": "127.0.0.1:4242"}, codec = "json"', "", None),
    ],
)
def test_a_stream_that_nothing_cuts_into_events(source: str, port: str, hint: str | None) -> None:
    Path("main.troy").write_text(flow_of(f"source{port} -> out", source=f"{source} end", out=NULL))
    ran = CliRunner().invoke(app(), ["check", "main.troy"])
    assert ran.exit_code == 0, ran.stdout
    notes = [line for line in ran.stdout.splitlines() if "one read of its stream is one event" in line]
    assert [note.split("; ")[1] for note in notes] == ([] if hint is None else [hint])
    assert all(note.startswith("note: main::source: ") for note in notes)


FILTER = pipeline("select event from in where event.n > 1 into out;")


def filtered(*ways: str, **more: str) -> str:
    nodes = {
        "before": FILTER,
        "after": FILTER,
        "counted": BATCHES,
        "tcp": lines_in("tcp_server", url="127.0.0.1:4242"),
    }
    out = lines_out("file", path="out", mode="append")
    return flow_of(*ways, log=STATE, out=out, **nodes, **more)


@pytest.mark.parametrize(
    ("ways", "told"),
    [
        (["tcp -> log", "log -> after -> out"], True),
        (["tcp -> before -> log -> out"], False),
        (
            ["tcp -> log", "log -> after -> out", "log -> more"],
            False,
        ),  # before the log it would filter for that sink too
        (["tcp -> log", "log -> counted -> out"], False),
    ],
)
def test_a_filter_behind_a_log_that_could_stand_before_it(ways: list[str], told: bool) -> None:
    Path("main.troy").write_text(filtered(*ways, more=NULL))
    ran = CliRunner().invoke(app(), ["check", "main.troy"])
    assert ran.exit_code == 0, ran.stdout
    note = (
        "note: main::after: it may stand before log, if log need not keep what it takes out. Behind log, out cannot "
        "recognise what log sends again"
    )
    assert (note in ran.stdout.splitlines()) == told


def test_a_long_sentence_is_printed_once() -> None:
    more = lines_out("file", path="more", mode="append")
    Path("main.troy").write_text(filtered("tcp -> log -> out", "log -> after -> out", "after -> more", more=more))
    lines = CliRunner().invoke(app(), ["check", "main.troy"]).stdout.splitlines()
    long = [line.partition(": ")[2] for line in lines if line.startswith("    ") and len(line) > 200]
    assert long
    assert len(long) == len(set(long))
    assert "    out: as above" in lines
    assert "    more: as out above" in lines
