"""The OpenAPI document of tremor's API. What a daemon answers: tests/system/test_api.py."""

import json
from pathlib import Path

from walflow.admin.v1 import ROUTES, document

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_the_document_in_the_docs_is_what_the_daemon_serves() -> None:
    """`python -m walflow.admin.v1 > docs/reference/openapi.json` makes it."""
    assert json.loads((PAGES / "openapi.json").read_text()) == document()


def test_the_page_names_each_path() -> None:
    text = (PAGES / "api.md").read_text()
    for route in ROUTES:
        assert f"`{route.path}`" in text
