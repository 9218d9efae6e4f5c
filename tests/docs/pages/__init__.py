"""The pages of docs/ that a program makes: `make pages` makes all of them anew, and a test compares.

`PAGES` has each of them, with a function that makes the new page from the present one. Only
docs/howto/first-session.md is not here: it is typed into terminals, from a wheel, which takes a minute
(`make transcript`).
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from tests.docs.pages import connectors, functions, metrics, spark, tables
from walflow.admin import v1
from walflow.cli import app

ROOT: Final = Path(__file__).parents[3]
DOCS: Final = ROOT / "docs"
TEMPLATES: Final = ROOT / "walflow" / "cli" / "new" / "templates"


def _shown(*templates: str, page: str) -> str:
    """The page with the files of `walflow new`, between their marks: `codec/pairs.py`."""
    for name in templates:
        language = {".py": "python", ".toml": "toml"}[Path(name).suffix]
        page = tables.with_table(page, name, [f"```{language}\n{(TEMPLATES / name).read_text('utf-8')}```\n"])
    return page


def _connector_howto(page: str) -> str:
    return _shown("connector/spool.py", "connector/pyproject.toml", "connector/ledger.py", page=page)


def _codec_howto(page: str) -> str:
    files = ("codec/pairs.py", "codec/pyproject.toml", "framing/hexed.py", "framing/pyproject.toml")
    return _shown(*files, page=page)


def _operator_howto(page: str) -> str:
    return _shown("operator/labelled.py", "operator/pyproject.toml", page=page)


def _picture(page: str) -> str:
    flow = TEMPLATES / "echo" / "main.troy"
    return CliRunner().invoke(app(), ["graph", str(flow), "--format", "svg"]).output


PAGES: Final[Mapping[str, Callable[[str], str]]] = {
    "howto/your-own-codec.md": _codec_howto,
    "howto/your-own-connector.md": _connector_howto,
    "howto/your-own-operator.md": _operator_howto,
    "images/echo.svg": _picture,
    "reference/codecs.md": tables.codecs_page,
    "reference/commands.md": tables.commands_page,
    "reference/connectors/README.md": connectors.overview,
    "reference/connectors.schema.json": lambda page: tables.connectors_schema_page(),
    "reference/connectors/keys.md": connectors.keys_page,
    **{f"reference/connectors/{kind}.md": partial(connectors.connector_page, kind) for kind in connectors.classes()},
    "reference/constants.md": functions.constants_page,
    "reference/functions.md": functions.functions_page,
    "reference/metrics.md": metrics.metrics_page,
    "reference/openapi.json": lambda page: json.dumps(v1.document(), indent=2) + "\n",
    "reference/operators.md": tables.operators_page,
    "reference/spark.md": spark.page,
    "reference/tremor.md": tables.tremor_page,
    "reference/warnings.md": tables.warnings_page,
}


def made(name: str) -> str:
    """The page as it should be."""
    file = DOCS / name
    return PAGES[name](file.read_text("utf-8") if file.exists() else "")


def stale() -> list[str]:
    return [name for name in PAGES if not (DOCS / name).exists() or (DOCS / name).read_text("utf-8") != made(name)]
