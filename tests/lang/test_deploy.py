"""What a flow declares, worked out: names, args, constants."""

from pathlib import Path

import pytest

from tests.lang.world import Log, assembled, checked

FLOW = """
define flow main
args
  folder = "state",
  chunk = 1024
flow
  use std::time::nanos;
  use tremor::pipelines;
  define connector log from wal
  args
    path,
    size = args.chunk * 2
  with
    config = {"path": args.path, "chunk_size": args.size}
  end;
  define connector ticks from metronome with config = {"interval": nanos::from_millis(250)} end;
  create connector log with path = "#{args.folder}/log" end;
  create connector ticks;
  create pipeline way from pipelines::passthrough;
  connect /connector/ticks to /pipeline/way;
  connect /connector/ticks/err to /pipeline/way;
  connect /pipeline/way to /connector/log;
  define connector null from null;
  create connector null;
  create pipeline after from pipelines::passthrough;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/null;
end;
"""


def logs(text: str) -> dict[str, object]:
    found = {str(plan.id): plan.connector for plan in assembled(text).connectors}
    return {name: connector for name, connector in found.items() if isinstance(connector, Log)}


def test_args_reach_what_they_are_handed_to() -> None:
    assert logs(FLOW + "deploy flow main;") == {"main::log": Log(path="state/log", chunk_size=2048)}


def test_one_flow_deployed_under_several_names() -> None:
    text = """
deploy flow main;
deploy flow second from main with folder = "other" end;
deploy flow third from main with folder = "third", chunk = 4 end;
"""
    assert logs(FLOW + text) == {
        "main::log": Log(path="state/log", chunk_size=2048),
        "second::log": Log(path="other/log", chunk_size=2048),
        "third::log": Log(path="third/log", chunk_size=8),
    }


def test_several_files_run_together() -> None:
    Path("a.troy").write_text(FLOW + "deploy flow main;", encoding="utf-8")
    Path("b.troy").write_text(FLOW + 'deploy flow other from main with folder = "b" end;', encoding="utf-8")
    assembly, said = checked("a.troy", "b.troy")
    assert assembly is not None, said
    assert {plan.id.flow for plan in assembly.connectors} == {"main", "other"}


def test_a_name_deployed_in_two_files() -> None:
    for name in ("a.troy", "b.troy"):
        Path(name).write_text(FLOW + "deploy flow main;", encoding="utf-8")
    assembly, said = checked("a.troy", "b.troy")
    assert assembly is None
    assert said.splitlines() == [
        "b.troy:29:13: error: flow `main` is deployed twice",
        "   29 | deploy flow main;",
        "      |             ^^^^",
        "      = first at a.troy:29:13",
    ]


def test_errors_come_in_the_order_of_the_files() -> None:
    Path("z.troy").write_text("define flow a flow create; end;", encoding="utf-8")
    Path("a.troy").write_text("define flow a flow create; end;", encoding="utf-8")
    _, said = checked("z.troy", "nowhere.troy", "a.troy")
    assert [line.partition(":")[0] for line in said.splitlines() if "error" in line] == ["error", "z.troy", "a.troy"]


VALUES = [
    ("1_000", 1000),
    ("0xff", 255),
    ("0b101", 5),
    ("18446744073709551615", 18446744073709551615),
    ("1.5e3", 1500.0),
    ("-1", -1),
    ("null", None),
    ("true", True),
    ('"a\\tb\\"\\\\\\u00e9\\u{1F600}\\#{x}"', 'a\tb"\\é😀#{x}'),
    ('"# no comment"', "# no comment"),
    ('"#{1 + 1} and #{"in #{"side"}"} and #{ {"a": [1.5, null]} }"', '2 and in side and {"a":[1.5,null]}'),
    ('"""\n    two\n      lines\n    """', "    two\n      lines\n    "),
    ('"""\n  #{1}\n  b"""', "  1\n  b"),
    ("[1, [2], {},]", [1, [2], {}]),
    ('{"a": 1, "#{"b"}": {"c": [],},}', {"a": 1, "b": {"c": []}}),
    ("1 + 2 * 3 - 4 / 2", 5.0),
    ("(1 + 2) * 3", 9),
    ("7 / 2", 3.5),
    ("-7 % 3", -1),
    ('"a" + "b"', "ab"),
    ("[1] + [2]", [1, 2]),
    ("1 << 10 | 1", 1025),
    ("1 < 2 and not (2 < 1) xor false", True),
    ("1 == true", False),
    ('{"a": [1, {"b": 2}]}.a[1]["b"]', 2),
    ("!0", (1 << 64) - 1),
]


@pytest.mark.parametrize(("written", "value"), VALUES)
def test_values(written: str, value: object) -> None:
    from walflow.lang import load

    text = f"define flow f flow define connector c from t with config = {written} end; create connector c; end;"
    Path("main.troy").write_text(f"{text} deploy flow f;", encoding="utf-8")
    config, said = load(["main.troy"])
    assert not said
    found = config.flows[0].connectors[0].settings["config"].constant
    assert found.value == value
    assert type(found.value) is type(value)


def test_an_empty_flow_is_a_warning() -> None:
    text = "define flow client\nflow\n# unchanged ...\nend;\ndeploy flow client;\n"
    Path("main.troy").write_text(text, encoding="utf-8")
    assembly, said = checked("main.troy")
    assert assembly is not None
    assert said.splitlines() == [
        "main.troy:1:13: warning: flow `client` declares nothing",
        "    1 | define flow client",
        "      |             ^^^^^^",
        "      = deployed, it does nothing",
    ]
