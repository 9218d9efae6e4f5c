"""The pages that a program makes are as it makes them; and no page says so that no program makes."""

import re

import pytest

from demo.newcomer import PAGE
from tests.docs.pages import DOCS, PAGES, made

TYPED = str(PAGE.relative_to(DOCS))


@pytest.mark.test  # a page asks for what the machine has: a process is started
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == made(name), "make pages"


def test_a_page_that_says_it_is_made_has_a_program() -> None:
    says = re.compile(r"(?:is|are)\s+generated\s+from|made by `make pages`|by hand: `make pages`")
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if says.search(page.read_text("utf-8"))}
    assert pages
    assert pages - PAGES.keys() - {TYPED} == set()


def test_no_page_of_a_connector_is_left_over() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.glob("reference/connectors/*.md")}
    assert pages <= PAGES.keys()
