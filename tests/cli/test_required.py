"""`walflow check --require`: what each path promises, and the exit code."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.flows.builder import LOG, NULL, OUT, TCP, flow_of, lines, lines_in, lines_out, pipeline, plain
from walflow.cli import app


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TABLE = plain("sqlite", path="rows.db", table="events")
FOLLOWED = lines_in("file", path="in/*.log", mode="read", follow=True)
HTTP = lines("http_server", url="127.0.0.1:8080")
CLIENT = lines("http_client", url="http://127.0.0.1:1")
BUFFER = plain("memory", max_elements=10)
RELAXED = plain("wal", path="state", sync="never")
DROPS = plain("wal", path="state", on_full="drop_oldest")
BATCH = pipeline("""
    define operator two from generic::batch with count = 2 end;
    create operator two;
    select event from in into two;
    select event from two into out;
""")
COUNT = pipeline("""
    define window second from tumbling with interval = 1000000000 end;
    select aggr::stats::count() from in[second] into out;
""")
SAFE = ["lines -> log", "log -> table", "lines/err -> errors", "log/err -> errors", "table/err -> errors"]
NODES = {
    "tcp": TCP,
    "http": HTTP,
    "lines": FOLLOWED,
    "log": LOG,
    "second": plain("wal", path="second"),
    "relaxed": RELAXED,
    "drops": DROPS,
    "table": TABLE,
    "out": OUT,
    "client": CLIENT,
    "none": NULL,
    "buffer": BUFFER,
    "batch": BATCH,
    "count": COUNT,
    "errors": lines_out("file", path="errors", mode="append"),
}


def required(ways: list[str], *asked: str, options: tuple[str, ...] = ()) -> Result:
    used = {step.partition("/")[0] for way in ways for step in way.split(" -> ")}
    Path("main.troy").write_text(flow_of(*ways, **{name: node for name, node in NODES.items() if name in used}))
    return CliRunner().invoke(app(), ["check", *(f"--require={one}" for one in asked), *options, "main.troy"])


@pytest.mark.parametrize(
    ("asked", "ways"),
    [
        ("at-least-once", SAFE),
        ("once", SAFE),
        ("once-from-source", SAFE),
        ("once=main/table", [*SAFE, "log -> none"]),
        ("at-least-once=main/table", [*SAFE, "log -> none"]),
        ("once=main/table", ["tcp -> log", "log -> table", "table/err -> errors"]),
        ("at-least-once=main/log", ["http -> log", "http/err -> errors", "log/err -> errors", "log -> none"]),
    ],
)
def test_what_holds(asked: str, ways: list[str]) -> None:
    result = required(ways, asked)
    assert result.exit_code == 0, result.stdout


@pytest.mark.parametrize(
    ("asked", "ways", "chain", "reason"),
    [
        ("at-least-once", ["tcp -> log", "log -> table"], "tcp -> from_tcp -> log", "tcp: what a client has sent"),
        ("at-least-once", ["log -> none"], "log -> from_log -> none", "none: an event is acked and dropped"),
        ("at-least-once", ["relaxed -> table"], "relaxed -> from_relaxed -> table", "relaxed: every event is sent"),
        ("at-least-once", ["drops -> table"], "drops -> from_drops -> table", "drops: every event is sent"),
        (
            "at-least-once",
            ["log -> buffer", "buffer -> none"],
            "log -> from_log -> buffer",
            "buffer: an event is acked once it is in",
        ),
        ("at-least-once", ["log -> table"], "log -> from_log -> table", "an event that table rejects is kept"),
        ("at-least-once=main/table", ["tcp -> log", *SAFE[1:2]], "tcp -> from_tcp -> log", "tcp: what a client"),
        ("once", ["log -> batch -> table"], "log -> batch -> table", "batch may hold events, make one of several"),
        ("once", [*SAFE, "log -> batch -> table"], "log -> from_log -> table", "several ways lead here from log"),
        ("once", [*SAFE, "log -> client"], "log -> from_log -> client", "client does not store which positions"),
        ("once", [*SAFE, "log -> out"], "log -> from_log -> out", "out does not store which positions of log"),
        ("once", ["http -> table"], "http -> from_http -> table", "there is no log between http and table"),
        ("once", ["lines -> table"], "lines -> from_lines -> table", "lines gives events no positions"),
        (
            "once-from-source",
            ["tcp -> log", "log -> none"],
            "tcp -> from_tcp -> log",
            "log cannot tell an event that comes to tcp",
        ),
        (
            "once-from-source",
            ["http -> log", "http -> none", "log -> table"],
            "log -> from_log -> table",
            "log cannot tell an event that comes to http again",
        ),
        (
            "once-from-source",
            ["lines -> batch -> log", "log -> table"],
            "log -> from_log -> table",
            "events that lines sends again after a crash or a failure are stored in log again, as other events",
        ),
        (
            "once-from-source",
            ["http -> log", "http -> none", "log -> second", "second -> table"],
            "second -> from_second -> table",
            "log cannot tell an event that comes to http again",
        ),
        (
            "once-from-source",
            ["lines -> batch -> log", "log -> second", "second -> table"],
            "second -> from_second -> table",
            "events that lines sends again after a crash or a failure are stored in log again, as other events",
        ),
    ],
)
def test_what_promises_less(asked: str, ways: list[str], chain: str, reason: str) -> None:
    result = required(ways, asked)
    assert result.exit_code == 1, result.stdout
    at = result.stdout.index(f"error: --require {asked}: `main: {chain}` promises less\n")
    told = result.stdout[at:].partition("main.troy:")[0]
    assert f"      = {reason}" in told, result.stdout
    sink = chain.rpartition(" ")[2]
    place = result.stdout[:at].rpartition("\n")[2]
    line, column = (int(part) for part in place.split(":")[1:3])
    assert Path("main.troy").read_text().splitlines()[line - 1][column - 1 :].startswith(f"{sink} from ")


def test_windows_are_lost_with_walflow_and_what_is_behind_them_too() -> None:
    result = required(["log -> count -> table"], "at-least-once=main/table")
    assert result.exit_code == 1
    assert (
        "`main: log -> count -> count/results/out` promises less\n      = count: windows are in memory"
        in result.stdout
    )


def test_error_records_are_asked_to_come_at_least_once() -> None:
    assert required(SAFE, "once").exit_code == 0
    result = required([*SAFE[:-1], "table/err -> none"], "once")
    assert result.exit_code == 1
    assert "`main: table/err -> from_table_err -> none` promises less" in result.stdout


def test_each_part_of_the_way_to_a_table_is_told() -> None:
    said = required(["tcp -> log", "log -> table", "table/err -> errors"]).stdout
    assert "    table: each event that comes here from log is stored once, whatever dies" in said
    assert "    table: an event that table rejects comes to errors at least once" in said
    kept = required(["tcp -> log", "log -> table"]).stdout
    assert "    table: an event that table rejects is kept as a letter, which is on disk before its position" in kept


def test_json_says_what_holds_and_why_a_path_does_not() -> None:
    result = required(
        ["lines -> log", "lines/err -> errors", "log/err -> errors", "log -> table"],
        "once=main/table",
        "at-least-once=main/log",
        options=("--json",),
    )
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["required"] == [
        {"requirement": "once=main/table", "holds": False},
        {"requirement": "at-least-once=main/log", "holds": True},
    ]
    (path,) = [path for path in found["paths"] if path["sink"]["connector"] == "main::table"]
    kept = "an event that table rejects is kept as a letter, and of too many letters the oldest are dropped"
    assert path["short_of"]["once"] == [f"{kept}: a link from its `err` keeps all"]
    assert [(finding["file"], finding["line"]) for finding in found["diagnostics"]] == [("main.troy", 8)]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("twice", "'twice' is none of at-least-once, once, once-from-source"),
        ("once=table", "'table' is not FLOW/SINK"),
        ("once=", "'' is not FLOW/SINK"),
    ],
)
def test_what_is_no_requirement(asked: str, said: str) -> None:
    result = required(SAFE, asked)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_sink_that_no_path_leads_to() -> None:
    result = required(SAFE, "once=main/tabel")
    assert result.exit_code == 1
    assert "error: --require once=main/tabel: no path leads there\n      = sinks are main/errors" in result.stdout
