"""`walflow check`, with the shipped seed and classes of its own, so that no connector's wording matters here."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from connectors.metronome import Metronome
from tests.lang.world import REGISTRY
from walflow.cli import app
from walflow.contract import Objection

SEED = Path(__file__).parent.parent / "lang" / "seeds" / "000.troy"

CLEAN = """
define flow main
flow
  use tremor::pipelines;
  define connector ticks from metronome with config = {"interval": 1} end;
  define connector null from null;
  create connector ticks;
  create connector null;
  create pipeline way from pipelines::passthrough;
  connect /connector/ticks to /pipeline/way;
  connect /connector/ticks/err to /pipeline/way;
  connect /pipeline/way to /connector/null;
end;
deploy flow main;
"""

SEED_REPORT = """
server: tcp_server -> before_gd -> wal
    tcp_server: as safe as TCP
    wal: on disk
    wal is a log: here one ack domain ends and the next begins
server: wal -> after_gd -> server_out
    wal: again and again
    server_out: written
server: wal -> after_gd -> tcp_server
    wal: again and again
    tcp_server: written to a socket and logged before
server: tcp_server/err -> debug -> stdio
    tcp_server: as safe as TCP
    stdio: to stdout
server::tcp_server sends to stdio and wal: while one of them is unavailable, tcp_server sends to none of them
server::wal sends to server_out, stdio and tcp_server: while one of them is unavailable, wal sends to none of them
warning: server::wal: takes 102400 bytes
note: server: an event that server_out, stdio or wal rejects is logged, counted and dropped; a link from its `err` keeps it
3 warnings
""".lstrip()  # noqa: E501  # a line of its data is one


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("walflow.plan.assemble.connectors", lambda: REGISTRY)


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app(), ["check", *arguments])


def write(text: str, name: str = "main.troy") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_the_seeds_paths_and_what_each_guarantees() -> None:
    result = check(str(SEED))
    assert result.exit_code == 0
    assert result.stdout.endswith(SEED_REPORT)


@pytest.mark.parametrize(
    ("text", "arguments", "exit_code"),
    [
        (CLEAN, [], 0),
        (CLEAN, ["--strict"], 0),
        (CLEAN.replace("/err", ""), [], 78),  # linked twice
        (CLEAN.replace("  connect /connector/ticks/err to /pipeline/way;\n", ""), [], 0),
        (CLEAN.replace("  connect /connector/ticks/err to /pipeline/way;\n", ""), ["--strict"], 0),  # a note
        (CLEAN + "define flow other flow end;\n", ["--strict"], 1),
        ("", [], 78),
    ],
)
def test_exit_codes(text: str, arguments: list[str], exit_code: int) -> None:
    assert check(write(text), *arguments).exit_code == exit_code


def test_a_clean_flow() -> None:
    assert check(write(CLEAN)).stdout.splitlines() == [
        "main: ticks -> way -> null",
        "    ticks: ticks",
        "    null: gone",
        "main: ticks/err -> way -> null",
        "    ticks: ticks",
        "    null: gone",
        "ok",
    ]


def test_an_error() -> None:
    result = check(write(CLEAN.replace("from metronome", "from metronom")))
    assert result.exit_code == 78
    assert result.stdout.splitlines() == [
        "main.troy:5:31: error: Unknown connector type metronom",
        '    5 |   define connector ticks from metronom with config = {"interval": 1} end;',
        "      |                               ^^^^^^^^",
        "      = did you mean `metronome`?",
        "1 error",
    ]


class Grumbler(Metronome):
    """What it would run is found wanting."""

    def probe(self) -> Sequence[Objection]:
        return [Objection("interval", "it does not tick", "| tick\n| ^\nwind it up")]


def test_what_only_a_try_finds_is_shown_where_it_is_written_and_only_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walflow.plan.assemble.connectors", lambda: {**REGISTRY, "metronome": Grumbler})
    assert check(write(CLEAN)).exit_code == 0
    result = check("--spark", write(CLEAN))
    assert result.exit_code == 78
    assert result.stdout.splitlines() == [
        "main.troy:5:68: error: connector `main::ticks`: it does not tick",
        '    5 |   define connector ticks from metronome with config = {"interval": 1} end;',
        "      |                                                                    ^",
        "      = | tick",
        "      = | ^",
        "      = wind it up",
        "1 error",
    ]


def test_json() -> None:
    found = json.loads(check("--json", str(SEED)).stdout)
    assert found["diagnostics"][0] == {
        "severity": "warning",
        "message": "pipeline `gd` is created, never linked",
        "hint": "it does nothing",
        "name": "unused",
        "file": str(SEED),
        "line": 37,
        "column": 17,
        "end_line": 37,
        "end_column": 19,
    }
    assert found["paths"][0] == {
        "flow": "server",
        "chain": "tcp_server -> before_gd -> wal",
        "source": {"connector": "server::tcp_server", "port": "out", "guarantee": "as safe as TCP"},
        "sink": {"connector": "server::wal", "port": "in", "guarantee": "on disk"},
        "may_come_twice": [],
        "appended_once": "",
        "dead_letters": "",
        "short_of": {
            "at-least-once": [
                "tcp_server: as safe as TCP",
                "wal: on disk",
                "an event that wal rejects is dropped: a link from its `err` keeps it",
            ],
            "once": [],
            "once-from-source": [
                "tcp_server: as safe as TCP",
                "wal: on disk",
                "an event that wal rejects is dropped: a link from its `err` keeps it",
                "wal cannot tell an event that comes to tcp_server again from a new one",
            ],
        },
        "ends_in_log": True,
    }
    assert found["warnings"] == [{"connector": "server::wal", "name": "risk", "message": "takes 102400 bytes"}]
    assert len(found["stops"]) == 2
    assert found["more_paths"] is False


def test_json_of_what_cannot_be_read() -> None:
    result = check("--json", "nowhere.troy")
    assert result.exit_code == 78
    assert json.loads(result.stdout)["diagnostics"] == [
        {
            "severity": "error",
            "message": "cannot read nowhere.troy: no such file or directory",
            "hint": None,
            "name": None,
        }
    ]


def test_relative_paths_start_at_the_workdir() -> None:
    Path("work").mkdir()
    result = check(write(CLEAN), "--workdir", "work")
    assert result.exit_code == 0
    missing = check(write(CLEAN), "--workdir", "nowhere")
    assert missing.exit_code == 2
    assert missing.stderr == "walflow: --workdir nowhere: No such file or directory\n"


def test_very_many_paths_are_cut_off() -> None:
    stages = "".join(
        f"create pipeline {a}{i} from pipelines::passthrough;"
        + "".join(f"connect /pipeline/{b}{i - 1} to /pipeline/{a}{i};" for b in "pq" if i)
        for i in range(10)
        for a in "pq"
    )
    body = (
        'use tremor::pipelines; define connector t from metronome with config = {"interval": 1} end;'
        "define connector n from null; create connector t; create connector n;"
        f"{stages} connect /connector/t to /pipeline/p0; connect /connector/t to /pipeline/q0;"
        "connect /pipeline/p9 to /connector/n; connect /pipeline/q9 to /connector/n;"
    )
    stdout = check(write(f"define flow f flow {body} end; deploy flow f;")).stdout
    assert stdout.count("\nf: ") <= 200
    assert "and more paths: these are the first 200" in stdout


def test_help_and_version() -> None:
    assert CliRunner().invoke(app(), ["--version"]).stdout.startswith("walflow ")
    assert "Check flow files" in check("--help").stdout


def test_python_prints_what_runs() -> None:
    text = """
define flow main
flow
  define pipeline way
  pipeline
    select event from in where event.level == "info" into out;
  end;
  define connector null from null;
  create connector null;
  create pipeline way;
  connect /pipeline/way to /connector/null;
end;
deploy flow main;
"""
    found = check("--python", write(text))
    assert found.exit_code == 0, found.output
    assert '# main.troy:6: select event from in where event.level == "info" into out;' in found.stdout
    assert "= 'info'" in found.stdout
    compile(found.stdout, "printed", "exec")
    assert check("--python", "--json", "main.troy").exit_code == 2


def test_a_script_and_a_pipeline_are_checked_as_run_takes_them() -> None:
    script, query = (
        write("let event.n = event.n + 1; event", "s.tremor"),
        write("select event from in into out;", "q.trickle"),
    )
    result = check(script, query)
    assert (result.exit_code, result.stdout) == (0, "ok\n")
    assert "def run(" in check(script, "--python").stdout
    assert json.loads(check(script, "--json").stdout)["diagnostics"] == []


def test_a_wrong_script_has_its_place_and_what_to_write() -> None:
    result = check(write("let event.n = 1\nevent", "s.tremor"))
    assert result.exit_code == 78
    assert result.stdout.startswith("s.tremor:2:1: error: expected the end of the file or `;`, found `event`\n")
    assert "      = is `;` missing before it?\n" in result.stdout


def test_an_arg_of_a_script_is_given_by_set() -> None:
    script = write("event > args.least", "s.tremor")
    assert "= give it a value: `--set least=VALUE`" in check(script).stdout
    assert check(script, "--set", "least=3").exit_code == 0


def test_what_only_a_flow_has_is_refused_for_a_script() -> None:
    result = check(write("event", "s.tremor"), "--environment")
    assert result.exit_code == 2
    assert "--engine are for" in " ".join(result.stderr.replace("│", " ").split())


def test_a_script_beside_a_flow_file() -> None:
    Path("s.tremor").write_text("event")
    Path("main.troy").write_text("")
    done = CliRunner().invoke(app(), ["check", "main.troy", "s.tremor"])
    assert done.exit_code == 2
    assert done.stderr == "walflow: s.tremor is a script, and has a command of its own: walflow check s.tremor\n"
