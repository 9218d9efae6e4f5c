"""`env` and `secret`: values from outside, which are values and never text of the file."""

import os
from pathlib import Path

import pytest

from connectors.http import HttpClient
from tests.lang.world import REGISTRY
from walflow import lang
from walflow.cli.promises import promises
from walflow.diagnostics import Hidden, render_all
from walflow.lang.environment import SHORTEST
from walflow.net import Secret
from walflow.plan import load

FLOW = """
define flow main
args given = VALUE
flow
  define connector c from x args given with config = args.given end;
  create connector c with given = args.given end;
end;
deploy flow main;
"""

WHOLE = """
define flow main
flow
  use tremor::pipelines;
  define connector in from tcp_server with codec = "json", config = {"url": "h:1", "token": VALUE} end;
  define connector null from null;
  create connector in;
  create connector null;
  create pipeline way from pipelines::passthrough;
  connect /connector/in to /pipeline/way;
  connect /pipeline/way to /connector/null;
end;
deploy flow main;
"""

HTTP = """
define flow main
flow
  define connector ticks from metronome with config = {"interval": 1_000_000_000} end;
  define connector log from wal with config = {"path": "state"} end;
  define connector out from http_client with config = {"url": "http://127.0.0.1:1", "token": secret("token")} end;
  define pipeline way pipeline select event from in into out; end;
  create connector ticks;
  create connector log;
  create connector out;
  create pipeline before from way;
  create pipeline after from way;
  connect /connector/ticks to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
end;
deploy flow main;
"""


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", "here")
    monkeypatch.setenv("COUNT", "12")
    monkeypatch.delenv("NOWHERE", raising=False)
    Path("token").write_text("hunter2\n")


def read(value: str, *, reads_secrets: bool = False) -> object:
    Path("f.troy").write_text(FLOW.replace("VALUE", value))
    config, found = lang.load(["f.troy"], reads_secrets=reads_secrets)
    assert found == [], render_all(found)
    return config.flows[0].connectors[0].settings["config"].constant.value


def refused(value: str, *, reads_secrets: bool = False) -> str:
    Path("f.troy").write_text(FLOW.replace("VALUE", value))
    return lang.load(["f.troy"], reads_secrets=reads_secrets)[1][0].message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("env.PLACE", "here"),
        ('"in #{env.PLACE}!"', "in here!"),
        ("env.COUNT", "12"),
        ('env("COUNT")', "12"),
        ('env("COUNT", 1)', 12),
        ('env("COUNT", "1")', "12"),
        ('env("NOWHERE", 1)', 1),
        ('"#{env("NOWHERE", "there")}"', "there"),
        ('{"a": [env.PLACE]}', {"a": ["here"]}),
    ],
)
def test_a_variable(value: str, expected: object) -> None:
    assert read(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("env.NOWHERE", 'the environment variable `NOWHERE` is not set; `env("NOWHERE", …)` gives a default'),
        (
            'env("NOWHERE")',
            '`env`: the environment variable `NOWHERE` is not set; `env("NOWHERE", …)` gives a default',
        ),
        ('env("PLACE", 1)', "`env`: the environment variable `PLACE` is a string, and its default a whole number"),
        ("env()", "`env` takes 1 to 2 arguments, not 0"),
        ("env(1)", "`env`: `name` takes a string, not a whole number"),
    ],
)
def test_a_variable_that_is_wrong(value: str, message: str) -> None:
    assert refused(value) == message


@pytest.mark.parametrize("text", ['a", "b": "c', "a\nb", "#{args.given}", "}; end;", "\\"])
def test_no_text_of_a_variable_is_code(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", text)
    assert read('{"a": "#{env.PLACE}", "z": env.PLACE}') == {"a": text, "z": text}


@pytest.mark.parametrize("word", ["const of = env.PLACE;", 'const of = env("PLACE");', 'const of = secret("token");'])
def test_elsewhere_it_is_an_error_that_says_where(word: str) -> None:
    Path("f.troy").write_text(f"{word}\n{FLOW.replace('VALUE', '1')}")
    (found,) = lang.load(["f.troy"])[1]
    assert found.hint == "it has a value in the keys of connectors and in args: declare an arg, and give it there"


def test_a_name_that_the_file_defines_itself_counts_first() -> None:
    Path("f.troy").write_text('const env = {"PLACE": "mine"};' + FLOW.replace("VALUE", "env.PLACE"))
    config, found = lang.load(["f.troy"])
    assert found == []
    assert config.flows[0].connectors[0].settings["config"].constant.value == "mine"


def test_a_secret_is_read_by_a_run_and_not_by_check() -> None:
    value = '{"t": secret("token"), "u": "Bearer #{secret("token")}"}'
    assert read(value) == {"t": "********", "u": "Bearer ********"}
    found = read(value, reads_secrets=True)
    assert found == {"t": "hunter2", "u": "Bearer hunter2"}
    assert "hunter2" not in repr(found)


def test_a_function_may_take_a_secret() -> None:
    Path("f.troy").write_text("use std::base64;" + FLOW.replace("VALUE", 'base64::encode(secret("token"))'))
    config, _ = lang.load(["f.troy"], reads_secrets=True)
    assert config.flows[0].connectors[0].settings["config"].constant.value == "aHVudGVyMg=="


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ('base64::encode(secret("token"))', "aHVudGVyMg=="),
        ('string::uppercase(secret("token"))', "HUNTER2"),
        ('match secret("token") of case s = _ => "#{s}x" end', "hunter2x"),
        ('(for ["a", secret("token")] of case (i, e) => e end)[1]', "hunter2"),
        ('"a #{string::uppercase(secret("token"))} b"', "a HUNTER2 b"),
        ('string::uppercase(secret("token")) + "x"', "HUNTER2x"),
        ('string::uppercase("#{ {"a": secret("token")} }")', '{"A":"HUNTER2"}'),
        ('string::split(secret("token"), "ter")[0]', "hun"),
        ('array::join([string::uppercase(secret("token"))], "-")', "HUNTER2"),
    ],
)
def test_what_is_made_of_a_secret_is_one_too(value: str, made: str) -> None:
    uses = "use std::base64; use std::string; use std::array;"
    Path("f.troy").write_text(uses + FLOW.replace("VALUE", value))
    config, found = lang.load(["f.troy"], reads_secrets=True)
    assert found == []
    configured = config.flows[0].connectors[0].settings["config"].constant.value
    assert configured == made
    assert isinstance(configured, Hidden)
    for text in (WHOLE.replace('"h:1"', "VALUE"), WHOLE.replace('"json"', "VALUE")):
        Path("f.troy").write_text(uses + text.replace("VALUE", value))
        _, found = load(["f.troy"], REGISTRY, reads_secrets=True)
        assert found or made.startswith("{")
        assert len(made) < SHORTEST or made not in render_all(found)


def test_a_secret_that_cannot_be_read() -> None:
    assert read('secret("gone")') == "********"
    reason = "`secret`: cannot read the secret in `gone`: No such file or directory"
    assert refused('secret("gone")', reads_secrets=True) == reason
    os.mkfifo("gone")
    assert refused('secret("gone")', reads_secrets=True) == "`secret`: `gone` is no plain file"


@pytest.mark.parametrize(("value", "reads"), [('secret("token")', True), ('env("MY_PASSWORD")', False)])
def test_no_message_shows_a_secret(value: str, reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "hunter2")
    for at in ('"#{VALUE}"', "VALUE", '{"#{VALUE}": 1}', "[VALUE]"):
        for text in (WHOLE.replace('"h:1"', "VALUE"), WHOLE.replace('"json"', "VALUE")):
            Path("f.troy").write_text(text.replace("VALUE", at.replace("VALUE", value)))
            _, found = load(["f.troy"], REGISTRY, reads_secrets=reads)
            assert found
            assert "hunter2" not in render_all(found)


def test_check_says_which_are_used_without_their_values() -> None:
    Path("f.troy").write_text(
        WHOLE.replace('"h:1"', '"#{env.PLACE}:#{env("NOWHERE", 1)}"').replace("VALUE", 'secret("t")')
    )
    assembly, _ = load(["f.troy"], REGISTRY)
    assert assembly is not None
    assert promises(assembly).notes[-2:] == [
        "from the environment: NOWHERE (not set, so its default), PLACE (set)",
        "secrets, which only `walflow run` reads: t",
    ]


def test_a_token_from_a_file_does_not_stand_in_the_flow_file() -> None:
    assert Secret.model_validate("hunter2").inline
    Path("f.troy").write_text(HTTP)
    assembly, found = load(["f.troy"], reads_secrets=True)
    assert assembly is not None, render_all(found)
    assert promises(assembly).warnings == []
    (out,) = [plan.connector for plan in assembly.connectors if isinstance(plan.connector, HttpClient)]
    assert out.token is not None
    assert out.token.read().get_secret_value() == "hunter2"
