"""`walflow schema`: schemas for editors and other programs."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Final

import typer

from walflow.contract import Connector

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]  # JSON Schema has no narrower type


class What(Enum):
    TREMOR = "tremor-0.11"
    CONNECTORS = "connectors"


def schema(
    what: Annotated[
        What, typer.Argument(help="tremor-0.11: its YAML files. connectors: the keys of each connector type.")
    ] = What.TREMOR,
) -> None:
    """Print a JSON Schema: of tremor 0.11's YAML files, for editors (yaml-language-server), or of the keys of each
    connector type, for programs that write flows."""
    from walflow.lang.legacy.schema import schema as legacy_schema
    from walflow.registry import connectors

    made = legacy_schema if what is What.TREMOR else connectors_schema
    typer.echo(json.dumps(made(connectors()), indent=2, ensure_ascii=False))


def connectors_schema(registry: Mapping[str, type[Connector]]) -> Schema:
    """Of a document with `type` and `config`, as `define connector NAME from TYPE with config = CONFIG` has them.
    `$defs` has the schema of each type's `config`."""
    return {
        "$schema": DIALECT,
        "title": "A connector of walflow: its type, and the keys of its config",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": sorted(registry)}, "config": {"type": "object"}},
        "oneOf": [_either(kind, registry[kind]) for kind in sorted(registry)],
        "$defs": {kind: _keys(kind, registry[kind]) for kind in sorted(registry)},
    }


def _either(kind: str, connector: type[Connector]) -> Schema:
    needs_config = any(field.is_required() for field in connector.model_fields.values())
    return {
        "properties": {"type": {"const": kind}, "config": {"$ref": f"#/$defs/{kind}"}},
        "required": ["type", *(["config"] if needs_config else [])],
    }


def _keys(kind: str, connector: type[Connector]) -> Schema:
    return connector.model_json_schema(ref_template=f"#/$defs/{kind}/$defs/{{model}}")
