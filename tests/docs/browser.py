"""Chromium, driven by its own protocol."""

import base64
import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.waiting import PATIENCE

WIDTH = 390  # CSS pixels
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


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

    def until(self, expression: str) -> Any:
        """Asks again and again until it is true, or something. Returns it."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, (expression, self.thrown, self.evaluate("document.body.innerText"))
            time.sleep(0.05)
        return value

    def shape(self, width: int, *, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path) -> None:
        """Of the whole page."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(taken["data"]))

    def evaluate(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

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
        # Chromium answers no pings
        with connect(tab, max_size=None, proxy=None, compression=None, ping_interval=None) as socket:
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
