"""`walflow schema connectors`: it takes what a connector takes, and refuses what it refuses for its shape."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from tests.test_promises import MADE
from walflow.cli import app
from walflow.cli.schema import connectors_schema
from walflow.contract import Connector
from walflow.registry import connectors

REGISTRY = connectors().of("walflow")
KINDS = sorted(REGISTRY)
SCHEMA: dict[str, Any] = json.loads(json.dumps(connectors_schema(REGISTRY)))
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_command_prints_it() -> None:
    printed = json.loads(CliRunner().invoke(app(), ["schema", "connectors"]).stdout)
    assert {kind: printed["$defs"][kind] for kind in KINDS} == SCHEMA["$defs"]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert sorted(SCHEMA["$defs"]) == KINDS


@pytest.mark.parametrize("connector", MADE, ids=repr)
def test_it_takes_what_a_connector_takes(connector: Connector) -> None:
    kind = next(kind for kind in KINDS if REGISTRY[kind] is type(connector))
    config = connector.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert [error.message for error in VALIDATOR.iter_errors({"type": kind, "config": config})] == []


@pytest.mark.parametrize("kind", KINDS)
def test_it_refuses_a_key_that_there_is_not(kind: str) -> None:
    assert not VALIDATOR.is_valid({"type": kind, "config": {"there is no such key": 1}})


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if any(f.is_required() for f in REGISTRY[kind].model_fields.values())]
)
def test_it_misses_what_is_required(kind: str) -> None:
    assert not VALIDATOR.is_valid({"type": kind, "config": {}})
    assert not VALIDATOR.is_valid({"type": kind})
