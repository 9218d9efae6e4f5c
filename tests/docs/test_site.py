"""The site in a browser, as narrow as a telephone: nothing scrolls sideways, throws, or comes from another host."""

import functools
import http.client
import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.docs.browser import WIDTH, Browser
from tests.system.daemon import ROOT
from tests.waiting import PATIENCE

pytestmark = pytest.mark.nightly

SIDEWAYS = "document.scrollingElement.scrollWidth"
FOUND = "[...document.querySelectorAll('#mkdocs-search-results a')].map(each => each.getAttribute('href'))"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Its address, and its pages."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install --group lint")
    directory = tmp_path_factory.mktemp("site")
    config = ROOT / "mkdocs.yml"
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(directory),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    pages = [str(path.relative_to(directory)) for path in sorted(directory.rglob("*.html"))]
    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", pages
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


def test_no_page_scrolls_sideways_throws_or_asks_another_host(browser: Browser, site: tuple[str, list[str]]) -> None:
    address, pages = site
    assert len(pages) >= len([*(ROOT / "docs").rglob("*.md")])
    wide = {}
    for page in pages:
        browser.open(f"{address}/{page}")
        if (width := browser.evaluate(SIDEWAYS)) > WIDTH:
            wide[page] = width
    assert wide == {}
    assert sorted(set(browser.thrown)) == []
    assert {url for url in browser.requested if not url.startswith((address, "data:", "about:"))} == set()


def test_flows_are_coloured(browser: Browser, site: tuple[str, list[str]]) -> None:
    """Also a block that is a part of a flow (`troy body`), which Markdown alone takes for a paragraph."""
    address, _ = site
    browser.open(f"{address}/howto/follow-log-files.html")
    colour = "getComputedStyle(document.querySelector('.codehilite .k')).color"
    plain = "getComputedStyle(document.querySelector('.codehilite code')).color"
    assert browser.evaluate("document.querySelector('.codehilite .k').textContent") == "define"
    assert browser.evaluate(colour) != browser.evaluate(plain)
    assert browser.evaluate("document.body.textContent.includes('```')") is False


@pytest.mark.parametrize("word", ["install", "upgrade", "backup", "rotate"])
def test_the_search_finds_the_page(browser: Browser, site: tuple[str, list[str]], word: str) -> None:
    address, _ = site
    browser.open(f"{address}/index.html?q={word}")
    deadline = time.monotonic() + PATIENCE
    while not (found := browser.evaluate(FOUND)):
        assert time.monotonic() < deadline, f"{word} is not found"
        time.sleep(0.05)
    assert any(f"howto/{word}.html" in link for link in found), found
