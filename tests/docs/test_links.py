"""Links of the pages that are not in docs/ (mkdocs checks those): the file is there, and so is the heading."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "changelog.d").glob("*.md")),
    *sorted(page for folder in ("packaging", "editors", "bench", "demo") for page in (ROOT / folder).rglob("*.md")),
]
LINKS = [
    (page, link)
    for page in PAGES
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    if not re.match(r"[a-z]+:", link)
]


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{page.name}: {link}" for page, link in LINKS])
def test_a_link_leads_somewhere(page: Path, link: str) -> None:
    path, _, anchor = link.partition("#")
    base = ROOT if page.parent.name == "changelog.d" else page.parent  # a fragment is read in CHANGELOG.md
    target = (base / path) if path else page
    assert target.exists(), target
    if anchor:
        headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_there_are_links() -> None:
    assert len(LINKS) > 20
