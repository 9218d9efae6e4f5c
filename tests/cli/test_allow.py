"""`# check: allow NAME`: one warning, at one line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.lang.world import REGISTRY, Null
from walflow.cli import app
from walflow.contract import Guarantee, Risk
from walflow.plan import load

UNUSED = """\
define flow main
flow
  use tremor::pipelines;
  define connector ticks from metronome with config = {"interval": 1} end;
  define connector null from null;
  define connector spare from null;
  create connector ticks;
  create connector null;
  create pipeline way from pipelines::passthrough;
  connect /connector/ticks to /pipeline/way;
  connect /pipeline/way to /connector/null;
end;
deploy flow main;
"""
SPARE = "  define connector spare from null;\n"
MADE = "  create connector null;\n"


class Lossy(Null):
    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="gone", warnings=(Risk("leaky", "it leaks"),))


class Plain(Null):
    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="gone", warnings=("it leaks",))


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("walflow.plan.assemble.connectors", lambda: REGISTRY)


def strictly(text: str, *options: str) -> Result:
    Path("main.troy").write_text(text, encoding="utf-8")
    return CliRunner().invoke(app(), ["check", "--strict", *options, "main.troy"])


def test_a_warning_says_how_it_is_permitted() -> None:
    result = strictly(UNUSED)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[:5] == [
        "main.troy:6:20: warning: connector `spare` is defined, never created",
        "    6 |   define connector spare from null;",
        "      |                    ^^^^^",
        "      = so it is not checked; create it: `create connector spare;`",
        "      = to permit it in this line: `# check: allow unused`",
    ]


@pytest.mark.parametrize(
    "spare",
    [
        "  define connector spare from null; # check: allow unused\n",
        "  # check: allow unused\n" + SPARE,
        "  # check: allow unlinked, unused\n\n  # why not\n" + SPARE,
    ],
)
def test_it_is_permitted_in_its_line_or_above(spare: str) -> None:
    result = strictly(UNUSED.replace(SPARE, spare))
    assert result.exit_code == 0, result.stdout
    assert "warning:" not in result.stdout
    assert spare.count("unlinked") == result.stdout.count("not needed")


def test_in_another_line_it_is_a_note() -> None:
    result = strictly(UNUSED.replace(SPARE, SPARE + "  # check: allow unused\n"))
    assert result.exit_code == 1
    assert "note: main.troy:7:18: `# check: allow unused` is not needed: there is no such warning at line 8" in (
        result.stdout.splitlines()
    )


def test_another_name_does_not_permit_it() -> None:
    assert strictly(UNUSED.replace(SPARE, SPARE.rstrip() + " # check: allow unlinked\n")).exit_code == 1


def test_a_name_that_no_warning_has_is_an_error() -> None:
    result = strictly(UNUSED.replace(SPARE, SPARE.rstrip() + " # check: allow unusd\n"))
    assert result.exit_code == 78
    assert "main.troy:6:52: error: no warning has the name `unusd`" in result.stdout.splitlines()
    assert "      = did you mean `unused`?" in result.stdout.splitlines()


def test_a_string_is_no_comment() -> None:
    text = UNUSED.replace(SPARE, 'define connector spare from null; const text = "# check: allow unused";\n')
    assert strictly(text).exit_code == 1


@pytest.mark.parametrize(("kind", "name"), [(Lossy, "leaky"), (Plain, "risk")])
@pytest.mark.parametrize("line", [MADE, "  define connector null from null;\n"])
def test_of_a_connector_where_it_is_defined_or_created(
    kind: type[Null], name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walflow.plan.assemble.connectors", lambda: {**REGISTRY, "null": kind})
    text = UNUSED.replace(SPARE, "")
    (warned,) = json.loads(strictly(text, "--json").stdout)["warnings"]
    assert warned == {"connector": "main::null", "name": name, "message": "it leaks"}
    assert strictly(text.replace(line, f"{line.rstrip()} # check: allow {name}\n")).exit_code == 0


def test_a_start_does_not_warn_of_it_either() -> None:
    Path("main.troy").write_text(UNUSED.replace(SPARE, SPARE.rstrip() + " # check: allow unused\n"), encoding="utf-8")
    assert load(["main.troy"], REGISTRY)[1] == []
