"""The OpenAPI document of tremor's API. What a daemon answers: tests/system/test_api.py."""

from pathlib import Path

from walflow.admin.v1 import ROUTES

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_the_page_names_each_path() -> None:
    text = (PAGES / "api.md").read_text()
    for route in ROUTES:
        assert f"`{route.path}`" in text
