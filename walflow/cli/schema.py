"""`walflow schema`: the schema by which editors check the YAML of tremor 0.11."""

import json

import typer


def schema() -> None:
    """Print the JSON Schema of tremor 0.11's YAML files, for editors (yaml-language-server)."""
    from walflow.lang.legacy.schema import schema as legacy_schema
    from walflow.registry import connectors

    typer.echo(json.dumps(legacy_schema(connectors()), indent=2, ensure_ascii=False))
