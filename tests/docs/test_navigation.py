"""The site's navigation: by task, at most nine entries a level, each page once. mkdocs checks that it leaves out no
page."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT

NAVIGATION: list[Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
MOST = 9
A_SCREEN = 200  # words in prose: about what a screen shows beside the picture


def levels(entries: list[Any], name: str = "the top") -> Iterator[tuple[str, list[Any]]]:
    yield name, entries
    for entry in entries:
        if isinstance(entry, dict):
            ((title, inner),) = entry.items()
            yield from levels(inner, title)


LEVELS = dict(levels(NAVIGATION))
PAGES = [entry for entry in chain.from_iterable(LEVELS.values()) if isinstance(entry, str)]


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_has_at_most_nine_entries(name: str) -> None:
    assert len(LEVELS[name]) <= MOST, name


def test_the_tasks_are_these() -> None:
    tasks = [title for entry in NAVIGATION for title in entry]
    assert tasks == ["Start", "Receive", "Store", "Transform", "Deliver", "Spark", "Operate", "Extend", "Reference"]


def test_a_page_has_one_place() -> None:
    assert sorted(PAGES) == sorted(set(PAGES))


def test_the_first_page_fits_a_screen() -> None:
    page = (DOCS / "index.md").read_text("utf-8")
    assert len(re.sub(r"\]\([^)]*\)", "]", page).translate({ord(one): " " for one in "·|-"}).split()) <= A_SCREEN
    assert len(page.splitlines()) <= 25


def test_each_decision_is_in_their_list() -> None:
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (DOCS / "decisions" / "README.md").read_text("utf-8")))
    assert listed == {page.name for page in DOCS.glob("decisions/0*.md")}
