"""The site in a browser, as narrow as a telephone: nothing scrolls sideways, throws, or comes from another host."""

import functools
import http.client
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.system.daemon import PATIENCE, ROOT

pytestmark = pytest.mark.nightly

WIDTH = 390  # CSS pixels
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIDEWAYS = "document.scrollingElement.scrollWidth"
FOUND = "[...document.querySelectorAll('#mkdocs-search-results a')].map(each => each.getAttribute('href'))"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Its address, and its pages."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install --group lint")
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(directory)]
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


class Browser:
    """One tab, by Chromium's own protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._last = 0
        self.requested: list[str] = []
        self.thrown: list[str] = []
        self._loaded = False
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": WIDTH, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while (said := self._hear()).get("id") != self._last:
            pass
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    def open(self, url: str) -> None:
        self._loaded = False
        self.call("Page.navigate", url=url)
        while not self._loaded:
            self._hear()

    def evaluate(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def _hear(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._socket.recv(PATIENCE))
        given = said.get("params", {})
        match said.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(given["request"]["url"])
            case "Runtime.exceptionThrown":
                self.thrown.append(
                    f"{given['exceptionDetails'].get('url')}: {given['exceptionDetails']['exception']}"
                )
            case "Log.entryAdded" if given["entry"]["level"] == "error":
                self.thrown.append(f"{given['entry'].get('url')}: {given['entry']['text']}")
            case "Page.loadEventFired":
                self._loaded = True
        return said


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--disable-background-networking", "--no-first-run", "--hide-scrollbars"]
    command += ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        told = profile / "DevToolsActivePort"
        deadline = time.monotonic() + PATIENCE
        while not told.exists() or len(told.read_text().splitlines()) < 2:
            assert process.poll() is None, "the browser has ended"
            assert time.monotonic() < deadline, "the browser does not start"
            time.sleep(0.05)
        port = told.read_text().splitlines()[0]
        tab = _first_tab(int(port))
        with connect(tab, max_size=None, proxy=None, compression=None) as socket:
            yield Browser(socket)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _first_tab(port: int) -> str:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        client.request("GET", "/json/list")
        tabs: list[dict[str, str]] = json.loads(client.getresponse().read())
    finally:
        client.close()
    return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        missing = "Chromium is not installed: sudo apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one


def test_no_page_scrolls_sideways_throws_or_asks_another_host(browser: Browser, site: tuple[str, list[str]]) -> None:
    address, pages = site
    assert len(pages) > 50
    wide = {}
    for page in pages:
        browser.open(f"{address}/{page}")
        if (width := browser.evaluate(SIDEWAYS)) > WIDTH:
            wide[page] = width
    assert wide == {}
    assert sorted(set(browser.thrown)) == []
    assert {url for url in browser.requested if not url.startswith((address, "data:", "about:"))} == set()


@pytest.mark.parametrize("word", ["install", "upgrade", "backup", "rotate"])
def test_the_search_finds_the_page(browser: Browser, site: tuple[str, list[str]], word: str) -> None:
    address, _ = site
    browser.open(f"{address}/index.html?q={word}")
    deadline = time.monotonic() + PATIENCE
    while not (found := browser.evaluate(FOUND)):
        assert time.monotonic() < deadline, f"{word} is not found"
        time.sleep(0.05)
    assert any(f"howto/{word}.html" in link for link in found), found
