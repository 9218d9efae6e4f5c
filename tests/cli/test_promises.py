"""The sentences of `walflow check` that depend on the whole flow."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from walflow.cli import app


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


KEYS = """
define flow main
flow
  use tremor::pipelines;
  define connector http from http_server with config = {"url": "127.0.0.1:8080"} end;
  define connector log from wal with config = {"path": "state"} end;
  define connector out from null;
  define connector dead from null;
  create connector http;
  create connector log;
  create connector out;
  create connector dead;
  create pipeline before from pipelines::passthrough;
  create pipeline after from pipelines::passthrough;
  create pipeline errors from pipelines::passthrough;
  connect /connector/http to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
  %s
end;
deploy flow main;
"""


@pytest.mark.parametrize(
    "link", ["", "connect /connector/http/err to /pipeline/errors; connect /pipeline/errors to /connector/dead;"]
)
def test_a_source_whose_keys_no_log_gives_back(link: str) -> None:
    Path("main.troy").write_text(KEYS % link)
    said = CliRunner().invoke(app(), ["check", "main.troy"]).stdout
    forgets = "note: main::http: here a restart forgets all its keys, because its events go to dead and log;"
    assert (forgets in said) == bool(link)


FOLLOWED = """
define flow main
flow
  use tremor::pipelines;
  define connector lines from file
  with codec = "json", preprocessors = ["separate"], config = {"path": "%s", "mode": "read", "follow": true}
  end;
  define connector log from wal with config = {"path": "state", "sync": "%s"} end;
  define connector out from null;
  define pipeline windowed pipeline
    define operator some from generic::batch with count = 2 end;
    create operator some;
    select event from in into some;
    select event from some into out;
  end;
  create connector lines;
  create connector log;
  create connector out;
  create pipeline before from %s;
  create pipeline after from pipelines::passthrough;
  connect /connector/lines to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
  %s
end;
deploy flow main;
"""
STRAIGHT = "pipelines::passthrough"
TWO_WAYS = "create pipeline more from pipelines::passthrough; connect /connector/lines to /pipeline/more; connect /pipeline/more to /connector/log;"


@pytest.mark.parametrize(
    ("path", "sync", "before", "more", "once"),
    [
        ("in/*.log", "always", STRAIGHT, "", True),
        ("in/app.log", "always", STRAIGHT, "", True),
        ("in/*", "always", STRAIGHT, "", False),
        ("in/app.log*", "always", STRAIGHT, "", False),
        ("in/*z", "always", STRAIGHT, "", False),
        ("in/*.log", "never", STRAIGHT, "", False),
        ("in/*.log", "always", "windowed", "", False),
        ("in/*.log", "always", STRAIGHT, TWO_WAYS, False),
    ],
)
def test_where_a_log_recognises_what_a_followed_file_reads_again(
    path: str, sync: str, before: str, more: str, once: bool
) -> None:
    Path("main.troy").write_text(FOLLOWED % (path, sync, before, more))
    said = CliRunner().invoke(app(), ["check", "main.troy"]).stdout
    assert ("each event that comes here from lines is appended once, also after kill -9" in said) == once


STREAM = """
define flow main
flow
  use tremor::pipelines;
  define connector source from %s end;
  define connector out from null;
  create connector source;
  create connector out;
  create pipeline all from pipelines::passthrough;
  connect /connector/source%s to /pipeline/all;
  connect /pipeline/all to /connector/out;
end;
deploy flow main;
"""
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
    Path("main.troy").write_text(STREAM % (source, port))
    ran = CliRunner().invoke(app(), ["check", "main.troy"])
    assert ran.exit_code == 0, ran.stdout
    notes = [line for line in ran.stdout.splitlines() if "one read of its stream is one event" in line]
    assert [note.split("; ")[1] for note in notes] == ([] if hint is None else [hint])
    assert all(note.startswith("note: main::source: ") for note in notes)


FILTERED = """
define flow main
flow
  use tremor::pipelines;
  define connector tcp from tcp_server
  with codec = "json", preprocessors = ["separate"], config = {"url": "127.0.0.1:4242"}
  end;
  define connector log from wal with config = {"path": "state"} end;
  define connector out from file
  with codec = "json", postprocessors = ["separate"], config = {"path": "out", "mode": "append"}
  end;
  define pipeline some pipeline select event from in where event.n > 1 into out; end;
  define pipeline counted pipeline
    define operator some from generic::batch with count = 2 end;
    create operator some;
    select event from in where event.n > 1 into some;
    select event from some into out;
  end;
  create connector tcp;
  create connector log;
  create connector out;
  create pipeline before from %s;
  create pipeline after from %s;
  connect /connector/tcp to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
  %s
end;
deploy flow main;
"""
ALL = "pipelines::passthrough"
ANOTHER_SINK = """
  define connector more from null;
  create connector more;
  create pipeline rest from pipelines::passthrough;
  connect /connector/log to /pipeline/rest;
  connect /pipeline/rest to /connector/more;
"""


@pytest.mark.parametrize(
    ("before", "after", "more", "told"),
    [
        (ALL, "some", "", True),
        ("some", ALL, "", False),
        (ALL, "some", ANOTHER_SINK, False),  # before the log it would filter for that sink too
        (ALL, "counted", "", False),
    ],
)
def test_a_filter_behind_a_log_that_could_stand_before_it(before: str, after: str, more: str, told: bool) -> None:
    Path("main.troy").write_text(FILTERED % (before, after, more))
    ran = CliRunner().invoke(app(), ["check", "main.troy"])
    assert ran.exit_code == 0, ran.stdout
    note = (
        "note: main::after: it may stand before log, if log need not keep what it takes out. Behind log, out cannot recognise "
        "what log sends again"
    )
    assert (note in ran.stdout.splitlines()) == told


TWO_PATHS = """
  define connector more from file
  with codec = "json", postprocessors = ["separate"], config = {"path": "more", "mode": "append"}
  end;
  create connector more;
  create pipeline rest from some;
  connect /connector/log to /pipeline/rest;
  connect /pipeline/rest to /connector/out;
  connect /pipeline/rest to /connector/more;
"""


def test_a_long_sentence_is_printed_once() -> None:
    Path("main.troy").write_text(FILTERED % (ALL, ALL, TWO_PATHS))
    lines = CliRunner().invoke(app(), ["check", "main.troy"]).stdout.splitlines()
    long = [line.partition(": ")[2] for line in lines if line.startswith("    ") and len(line) > 200]
    assert long
    assert len(long) == len(set(long))
    assert "    out: as above" in lines
    assert "    more: as out above" in lines
