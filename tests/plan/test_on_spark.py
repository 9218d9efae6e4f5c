"""Which pipelines go to Spark, and what is said of those that cannot."""

from pathlib import Path

import pytest

from walflow.diagnostics import render_all
from walflow.plan import Assembly, load
from walflow.plan.on_spark import Engine

FLOW = """
define flow main
flow
  define pipeline p
  {inputs}
  pipeline
    {directives}
    {body}
  end;
  define connector ticks from metronome with config = {{"interval": 1}} end;
  define connector null from null;
  create connector ticks;
  create connector null;
  create pipeline p;
  connect /connector/ticks to /pipeline/p;
  connect /pipeline/p to /connector/null;
  connect /pipeline/p/err to /connector/null;
end;
deploy flow main;
"""
WHERE = "select event from in where event.n > 1 into out;"
BATCH = (
    "define operator b from generic::batch with count = 2 end; create operator b; select event from in into b; "
    "select event from b into out;"
)
ON_SPARK = '#!config engine = "spark"\n'


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(body: str, directives: str = "", inputs: str = "") -> str:
    return FLOW.format(body=body, directives=directives, inputs=inputs)


def loaded(
    body: str, directives: str = "", engine: Engine | None = None, inputs: str = ""
) -> tuple[Assembly | None, str]:
    Path("flow.troy").write_text(written(body, directives, inputs))
    assembly, found = load(["flow.troy"], engine=engine)
    return assembly, render_all(found)


def logs(assembly: Assembly | None) -> list[str]:
    assert assembly is not None
    return [str(plan.id) for plan in assembly.connectors if plan.kind == "spark"]


@pytest.mark.parametrize(
    ("body", "directives", "engine", "moved"),
    [
        (WHERE, ON_SPARK, None, True),
        (WHERE, "", None, False),
        (WHERE, "", "spark", True),
        (WHERE, '#!config engine = "daemon"\n', "spark", False),
        (WHERE, '#!config spark = {"partitions": 2}\n', None, False),
        (WHERE, '#!config spark = {"partitions": 2}\n', "spark", True),
        ("select event from in into out;", "", "spark", False),
        ("select event from in into out;", ON_SPARK, None, True),
    ],
)
def test_where_it_runs(body: str, directives: str, engine: Engine | None, moved: bool) -> None:
    assembly, said = loaded(body, directives, engine)
    assert said == ""
    assert logs(assembly) == (["main::p/spark"] if moved else [])


def test_settings() -> None:
    assembly, _ = loaded(
        WHERE, f'{ON_SPARK}#!config spark = {{"dir": "there", "partitions": 3, "master": "local[1]"}}\n'
    )
    assert assembly is not None
    [connector] = [plan.connector for plan in assembly.connectors if plan.kind == "spark"]
    given = connector.model_dump()
    assert (given["path"], given["options"], given["master"]) == ("there", {"numPartitions": "3"}, "local[1]")


@pytest.mark.parametrize(
    ("body", "directives", "said"),
    [
        (WHERE, '#!config engine = "sparc"\n', "`engine` is `daemon` or `spark`"),
        (WHERE, f"{ON_SPARK}#!config spark = 1\n", "`spark` takes a record, not a whole number"),
        (WHERE, f'{ON_SPARK}#!config spark = {{"mastr": "x"}}\n', "did you mean `master`?"),
        (WHERE, f'{ON_SPARK}#!config spark = {{"partitions": 0}}\n', "`partitions`"),
        (WHERE, '#!config engin = "spark"\n', "did you mean `engine`?"),
        (BATCH, ON_SPARK, "operator generic::batch does not run on Spark"),
    ],
)
def test_what_is_wrong_is_an_error_at_its_place(body: str, directives: str, said: str) -> None:
    assembly, text = loaded(body, directives)
    assert assembly is None
    assert said in text
    assert text.startswith("flow.troy:")


def test_with_the_option_it_stays_in_the_daemon_with_a_warning() -> None:
    assembly, said = loaded(BATCH, engine="spark")
    assert logs(assembly) == []
    assert "warning: pipeline `main::p` stays in the daemon: operator generic::batch does not run on Spark" in said


def test_several_inputs_share_one_log() -> None:
    body = "select event from in where event.n > 1 into out; select event from late where event.n > 1 into out;"
    assembly, said = loaded(body, ON_SPARK, inputs="from in, late")
    assert said == ""
    assert logs(assembly) == ["main::p/spark"]


def test_a_directive_at_the_head_of_a_file() -> None:
    Path("flow.troy").write_text(ON_SPARK + FLOW.format(body=WHERE, directives="", inputs=""))
    assembly, found = load(["flow.troy"])
    assert assembly is None
    assert "`engine` stands at the head of a pipeline" in render_all(found)
