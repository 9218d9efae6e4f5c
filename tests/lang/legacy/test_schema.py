"""`walflow schema` takes what walflow takes, and refuses what it refuses for its shape."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.lang.legacy.test_mistakes import MISTAKES
from tests.lang.legacy.test_ramps import FILES, INSTANCES, LISTENERS
from tests.system.daemon import ROOT
from walflow.cli import app
from walflow.diagnostics import render_all
from walflow.plan import load

SHIPPED = sorted((ROOT / "flows" / "legacy").rglob("*.yaml"))


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    printed = CliRunner().invoke(app(), ["schema"])
    assert printed.exit_code == 0
    schema = json.loads(printed.stdout)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def document(text: str) -> object:
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.relative_to(ROOT / "flows")))
def test_what_is_shipped_is_valid(file: Path, validator: Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(document(file.read_text("utf-8")))] == []


@pytest.mark.parametrize("text", [FILES, LISTENERS, INSTANCES])
def test_what_runs_is_valid(text: str, validator: Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(document(text))] == []


@pytest.mark.parametrize("name", ["config", "lost_indentation", "no_section", "sections", "types", "wire"])
def test_what_walflow_refuses_for_its_shape_is_not(name: str, validator: Draft202012Validator) -> None:
    assert not validator.is_valid(document((MISTAKES / f"{name}.yaml").read_text("utf-8")))


RAMPS = [
    "{id: m, type: metronome, config: {interval: 0}}",
    "{id: m, type: metronome, config: {intervall: 1000}}",
    "{id: m, type: metronome}",
    "{id: m, type: metronome, config: {interval: 1}, codec: string}",
    "{id: a/b, type: stdin}",
    "{id: a, type: tcp, config: {host: x, port: 65536}}",
    "{id: a, type: tcp, preprocessors: [line], config: {host: x, port: 1}}",
]


@pytest.mark.parametrize("ramp", RAMPS)
def test_one_thing_wrong_is_found(ramp: str, validator: Draft202012Validator) -> None:
    assert not validator.is_valid(document(f"onramp: [{ramp}]"))


def test_the_example_of_the_page_is_valid_and_runs(validator: Draft202012Validator) -> None:
    page = (ROOT / "docs" / "reference" / "tremor.md").read_text("utf-8")
    text, query = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("yaml", "trickle"))
    assert validator.is_valid(document(text))
    Path("ticks.yaml").write_text(text)
    Path("ticks.trickle").write_text(query)
    assembly, diagnostics = load(["ticks.trickle", "ticks.yaml"])
    assert assembly is not None, render_all(diagnostics)
    assert sorted(str(plan.id) for plan in assembly.connectors) == [
        "default/01::metronome",
        "default/01::system::stdout",
    ]
