"""`walflow schema`: what editors check the YAML of tremor 0.11 by."""

import json

import typer


def schema() -> None:
    """Print the JSON Schema of tremor 0.11's YAML files, for yaml-language-server and the like."""
    from walflow.lang.legacy.schema import schema as legacy_schema
    from walflow.registry import connectors

    typer.echo(json.dumps(legacy_schema(connectors()), indent=2, ensure_ascii=False))
