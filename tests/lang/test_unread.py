"""Args that nothing reads."""

from pathlib import Path

import pytest

from walflow.diagnostics import render
from walflow.lang import load

FLOW = """\
define flow main
{args}
flow
  define connector ticks from metronome args every = 1 with config = {{"interval": args.every}} end;
  define connector console from stdio;
  define pipeline way
  {pipeline_args}
  pipeline
    {inside}
  end;
  create connector ticks{ticks};
  create connector console;
  create pipeline way;
  connect /connector/ticks to /pipeline/way;
  connect /pipeline/way to /connector/console;
end;
deploy flow main;
"""
PASS = "select event from in into out;"


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(args: str = "", pipeline_args: str = "", inside: str = PASS, ticks: str = "") -> list[str]:
    text = FLOW.format(args=args, pipeline_args=pipeline_args, inside=inside, ticks=ticks)
    Path("main.troy").write_text(text)
    return [render(one) for one in load(["main.troy"])[1]]


def test_an_arg_of_a_flow() -> None:
    assert said("args seconds = 1") == [
        (
            "main.troy:2:6: warning: arg `seconds` of flow `main` is never read\n"
            "    2 | args seconds = 1\n"
            "      |      ^^^^^^^\n"
            "      = what is given for it changes nothing: read it as `args.seconds`, or take it away"
        )
    ]


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        (f"define script s args least = 1 script event end; create script s; {PASS}", "arg `least` of script `s`"),
        (
            f"define operator b from generic::batch args n = 1 with count = 10 end; create operator b; {PASS}",
            "arg `n` of operator `b`",
        ),
        (
            (
                f"define pipeline p args n = 1 pipeline {PASS} end; create pipeline p;"
                "select event from in into p; select event from p into out;"
            ),
            "arg `n` of pipeline `p`",
        ),
    ],
)
def test_an_arg_of_what_stands_in_a_pipeline(inside: str, what: str) -> None:
    (found,) = said(inside=inside)
    assert f"warning: {what} is never read" in found


def test_an_arg_of_a_connector_that_has_one_of_the_same_name_beside_it() -> None:
    """The flow's `every` is not the connector's."""
    (found,) = said("args every = 1")
    assert "arg `every` of flow `main`" in found


@pytest.mark.parametrize(
    "inside",
    [
        "select event from in where event.n > args.x into out;",
        "select event from in where match event.n of case 1 => true case _ => event.n > args.x end into out;",
        'select "at #{args.x}" from in into out;',
        'select args["x"] from in into out;',
        "select args from in into out;",
        "select event[args.x] from in into out;",
        "select event from in where present args.x into out;",
        f"define script s args least = args.x script args.least end; create script s; {PASS}",
        f"define script s args least script args.least end; create script s with least = args.x end; {PASS}",
        (
            "use aggr; define window w from tumbling with size = [4, args.x][0] end;"
            "select aggr::win::last(event) from in[w] into out;"
        ),
        f"#!config engine = args.x\n{PASS}",
    ],
)
def test_each_way_to_read_an_arg_of_a_pipeline(inside: str) -> None:
    found = said(pipeline_args='args x = "daemon"', inside=inside)
    assert [one for one in found if "error:" in one or "never read" in one] == []


@pytest.mark.parametrize("ticks", [" with every = args.x end", " with every = 1 + args.x * 2 end"])
def test_an_arg_of_a_flow_that_is_handed_on(ticks: str) -> None:
    assert said("args x = 1", ticks=ticks) == []


def test_a_comment_permits_it() -> None:
    text = FLOW.format(args="args x = 1  # check: allow unused", pipeline_args="", inside=PASS, ticks="")
    Path("main.troy").write_text(text)
    config, found = load(["main.troy"])
    assert config.allowances.rest(found) == []


def test_an_error_may_be_the_reason() -> None:
    (found,) = said(pipeline_args="args least = 1", inside="select event from in where event.n > least into out;")
    assert "error: unknown constant `least`" in found
