"""Args of flows that the command line gives."""

from pathlib import Path

import pytest

from walflow import lang
from walflow.diagnostics import render_all

FLOW = """
define flow main
args port = 1, path = "p", of = "here"
flow
  define connector c from x args given with config = args.given end;
  create connector c with given = {"port": args.port, "path": args.path, "of": args.of} end;
end;
deploy flow main;
deploy flow other from main with port = 2 end;
"""


@pytest.fixture(autouse=True)
def _flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.troy").write_text(FLOW)


def given(*args: str) -> dict[str, object]:
    config, found = lang.load(["f.troy"], args)
    assert found == []
    return {flow.alias: flow.connectors[0].settings["config"].constant.value for flow in config.flows}


def said(*args: str) -> list[str]:
    return render_all(lang.load(["f.troy"], args)[1]).splitlines()


def test_the_command_line_counts_before_with_and_with_before_the_default() -> None:
    assert given() == {
        "main": {"port": 1, "path": "p", "of": "here"},
        "other": {"port": 2, "path": "p", "of": "here"},
    }
    assert given("port=9") == {
        "main": {"port": 9, "path": "p", "of": "here"},
        "other": {"port": 9, "path": "p", "of": "here"},
    }


def test_one_flow_of_several() -> None:
    assert given("other.port=9", "port=8", "main.path=q") == {
        "main": {"port": 8, "path": "q", "of": "here"},
        "other": {"port": 9, "path": "p", "of": "here"},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9000", 9000),
        ('"9000"', "9000"),
        ("out.log", "out.log"),
        ("a=b", "a=b"),
        ("", ""),
        ("true", True),
        ("null", None),
        ('{"a": [1, 2.5]}', {"a": [1, 2.5]}),
        ("{a", "{a"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_a_value_is_json_or_text(text: str, value: object) -> None:
    found = given(f"main.path={text}")["main"]
    assert isinstance(found, dict)
    assert found["path"] == value


def test_what_no_flow_has_is_an_error() -> None:
    assert said("prt=1") == [
        "--set:1:1: error: no deployed flow has an arg `prt`",
        "    1 | prt=1",
        "      | ^^^",
        "      = did you mean `port`?",
    ]
    assert said("third.port=1")[0] == "--set:1:7: error: no deployed flow has an arg `third.port`"
    assert said("zzzzzzzz=1")[-1] == "      = their args are `of`, `path` and `port`"


def test_other_mistakes() -> None:
    assert said("port")[0] == "--set:1:1: error: `port` is no arg"
    assert said("=1")[0] == "--set:1:1: error: `=1` is no arg"
    assert said("port=1", "port=2")[0] == "--set:1:1: error: `port` is given twice"


def test_an_arg_without_a_value_says_how_to_give_it() -> None:
    Path("f.troy").write_text(FLOW.replace("port = 1", "port"))
    assert said()[0] == "f.troy:8:13: error: missing arg `port` of flow `main`"
    assert said()[-1] == "      = give it: `with port = … end`, or start with `--set port=…`"
    assert said("port=1") == []
