"""Where `use` looks, and what it finds."""

from pathlib import Path

import pytest

from tests.lang.world import File, assembled, checked

MAIN = """
define flow main
flow
  use {use};
  use tremor::pipelines;
  create connector out from {name}::out;
  create pipeline way from pipelines::passthrough;
  connect /connector/out/err to /pipeline/way;
  connect /pipeline/way to /connector/out;
end;
deploy flow main;
"""


def module(path: str, file: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(
        f'define connector out from file with codec = "json", config = {{"path": "{file}", "mode": "append"}} end;',
        encoding="utf-8",
    )


def used(use: str, name: str) -> str:
    connector = assembled(MAIN.format(use=use, name=name)).connectors[0].connector
    assert isinstance(connector, File)
    return connector.path


@pytest.mark.parametrize(
    ("use", "name"),
    [("lib::sinks", "sinks"), ("lib::sinks as s", "s"), ("lib::{sinks}", "sinks"), ("{prefix}", "sinks")],
)
def test_forms_of_use(use: str, name: str) -> None:
    module("lib/sinks.tremor", "here")
    module("lib/deep/more.troy", "there")
    use = use.replace("{prefix}", "lib::{deep::{more as m}, sinks}")
    assert used(use, name) == "here"


def test_the_first_folder_that_has_it_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    module("sinks.troy", "beside the flow file")
    assert used("sinks", "sinks") == "beside the flow file"
    module("second/sinks.troy", "WALFLOW_PATH")
    monkeypatch.setenv("WALFLOW_PATH", "first::second")
    assert used("sinks", "sinks") == "WALFLOW_PATH"
    module("second/sinks.tremor", ".tremor before .troy")
    assert used("sinks", "sinks") == ".tremor before .troy"


def test_a_module_of_ones_own_before_a_shipped_one() -> None:
    module("integration.troy", "mine")
    assert used("integration", "integration") == "mine"


def test_modules_are_looked_for_beside_the_flow_file_and_not_where_walflow_was_started() -> None:
    module("flows/sinks.troy", "found")
    Path("flows/main.troy").write_text(MAIN.format(use="sinks", name="sinks"), encoding="utf-8")
    assert checked("flows/main.troy")[0] is not None


def test_a_module_of_a_module() -> None:
    Path("outer.troy").write_text("use inner;", encoding="utf-8")
    module("inner.troy", "inner")
    assert used("outer", "outer::inner") == "inner"


def test_a_flow_of_a_module() -> None:
    Path("lib.troy").write_text(
        "define flow spare\nflow\nend;\n" + MAIN.partition("deploy")[0].format(use="sinks", name="sinks"),
        encoding="utf-8",
    )
    module("sinks.troy", "found")
    Path("main.troy").write_text("use lib;\ndeploy flow mine from lib::main;", encoding="utf-8")
    assembly, said = checked("main.troy")
    assert assembly is not None, said
    assert [str(plan.id) for plan in assembly.connectors] == ["mine::out"]


def test_modules_that_use_each_other() -> None:
    Path("a.troy").write_text("use b;", encoding="utf-8")
    Path("b.troy").write_text("use a;", encoding="utf-8")
    Path("main.troy").write_text("use a;", encoding="utf-8")
    assert checked("main.troy")[1].splitlines() == [
        "b.troy:1:5: error: these modules use each other: a -> b -> a",
        "    1 | use a;",
        "      |     ^",
    ]


def test_a_long_chain_of_modules() -> None:
    for number in range(100):
        Path(f"m{number}.troy").write_text(f"use m{number + 1};", encoding="utf-8")
    Path("main.troy").write_text("use m0;", encoding="utf-8")
    assert checked("main.troy")[1].splitlines()[0] == "m32.troy:1:5: error: modules use modules more than 32 deep"


def test_a_module_that_cannot_be_read() -> None:
    Path("bad.troy").write_bytes(b"\xff")
    Path("main.troy").write_text("use bad;", encoding="utf-8")
    assert checked("main.troy")[1].splitlines() == [
        "main.troy:1:5: error: cannot read bad.troy: line 1 is not UTF-8",
        "    1 | use bad;",
        "      |     ^^^",
    ]


def test_a_folder_is_no_module() -> None:
    Path("sinks.troy").mkdir()
    Path("main.troy").write_text("use sinks;", encoding="utf-8")
    assert "= looked for sinks.troy, .trickle and .tremor in . and among" in checked("main.troy")[1]


def test_an_error_in_a_module_says_who_created_it() -> None:
    Path("lib.troy").write_text("define connector bad from bad_connector;", encoding="utf-8")
    Path("main.troy").write_text(
        "use lib;\ndefine flow f\nflow\n  create connector x from lib::bad;\nend;\ndeploy flow f;", encoding="utf-8"
    )
    _, said = checked("main.troy")
    assert said.splitlines() == [
        "lib.troy:1:27: error: Unknown connector type bad_connector",
        "    1 | define connector bad from bad_connector;",
        "      |                           ^^^^^^^^^^^^^",
        "      = there are `file`, `metronome`, `null`, `stdio`, `tcp_server` and `wal`; created at main.troy:4:20",
    ]


@pytest.mark.parametrize("unit", ["micros", "millis", "seconds", "minutes", "hours", "days", "weeks"])
def test_spans_of_time(unit: str) -> None:
    nanos = {"micros": 10**3, "millis": 10**6, "seconds": 10**9, "minutes": 60 * 10**9, "hours": 3600 * 10**9}
    nanos |= {"days": 86400 * 10**9, "weeks": 7 * 86400 * 10**9}
    assembly = assembled(f"""
define flow f
flow
  use std::time::nanos;
  use tremor::pipelines;
  define connector m from metronome
  with
    config = {{"interval": nanos::from_{unit}(3) + nanos::to_{unit}(nanos::from_{unit}(2) + 1)}}
  end;
  define connector n from null;
  create connector m;
  create connector n;
  create pipeline p from pipelines::passthrough;
  connect /connector/m to /pipeline/p;
  connect /pipeline/p to /connector/n;
end;
deploy flow f;
""")
    assert assembly.connectors[0].connector.model_dump() == {"interval": 3 * nanos[unit] + 2}
