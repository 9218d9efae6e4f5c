"""The page at the admin address, in a browser: on a telephone and on a screen, in the light and in the dark.

Pictures of it stay in the directory that WALFLOW_PICTURES names.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from tests.docs.browser import WIDTH, Browser
from tests.flows.builder import TCP, flow_of, pipeline, plain
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import WALFLOW, Client, free_port, running
from tests.system.warm import said

pytestmark = pytest.mark.nightly

FLOW = flow_of(
    "tcp -> log -> halve -> gone",
    tcp=TCP,
    log=plain("wal", path="log", chunk_size=65536, max_chunks=8),
    halve=pipeline('into out, err pipeline select {"half": 10 / event.n, "text": event.text} from in into out;'),
    gone="null",
)

SIDEWAYS = "document.scrollingElement.scrollWidth"
HOSTILE = b'{"n":1,"text":"<img src=x onerror=alert(1)>"}\n'


def test_the_page_shows_the_flow_and_pauses_a_connector(tmp_path: Path, browser: Browser) -> None:
    pictures = Path(os.environ.get("WALFLOW_PICTURES", tmp_path))
    (tmp_path / "flow.troy").write_text(FLOW)
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--tap", "--admin-token-file", str(tmp_path / "token"))
    with running(tmp_path / "flow.troy", tmp_path, *options, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
        address = f"http://{admin.address}/"
        browser.requested.clear()
        browser.shape(WIDTH)
        browser.open(address)
        browser.until("!document.getElementById('login').hidden")
        assert browser.evaluate("document.getElementById('main').hidden")
        browser.evaluate("document.getElementById('token').value = 's3cret'")
        browser.evaluate("document.querySelector('#login button').click()")
        assert browser.until("document.querySelectorAll('#flow g.node').length") == 5
        browser.thrown = [line for line in browser.thrown if "401" not in line]

        client.send(b'{"n":0}\n')
        browser.until("document.querySelector('#rejections').innerText.includes('division by zero')")
        _click(browser, "log")
        browser.until("document.getElementById('tap').textContent == 'Show events'")
        browser.evaluate("document.getElementById('tap').click()")
        admin.until(lambda admin: "walflow_open_taps 1.0" in _metrics(admin))
        client.send(HOSTILE * 3)
        browser.until("document.getElementById('events').textContent.includes('<img src=x')")
        admin.until(
            partial(_has_delivered, events=4)
        )  # they are shown before the log has them, which may take a while
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
        browser.evaluate("document.getElementById('tap').click()")

        _click(browser, "gone")
        browser.until("document.getElementById('pause').textContent == 'Pause'")
        browser.evaluate("document.getElementById('pause').click()")
        browser.until(
            "document.querySelector('#nodes').innerText.includes('paused main::gone')"
        )  # the click was answered
        client.send(HOSTILE * 1000)
        browser.until("document.querySelector('#logs').innerText.includes('1,000')")
        browser.until("document.querySelectorAll('#chart path').length")
        assert browser.evaluate("document.getElementById('node-state').textContent") == "null, paused, 0 restarts"
        for width, dark in ((WIDTH, False), (WIDTH, True), (1200, False), (1200, True)):
            browser.shape(width, dark=dark)
            assert browser.evaluate(SIDEWAYS) <= width
            browser.picture(pictures / f"page-{width}-{'dark' if dark else 'light'}.png")
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        client.close()
        assert daemon.terminate() == 0
        browser.until("document.getElementById('head').textContent.includes('no daemon answers')")
    browser.open("about:blank")
    assert {url for url in browser.requested if not url.startswith((address, "data:", "about:"))} == set()
    assert [line for line in browser.thrown if "ERR_CONNECTION" not in line] == []


def _metrics(admin: Admin) -> str:
    return admin.get("/metrics", {"Authorization": "Bearer s3cret"})[1]


def _has_delivered(admin: Admin, events: int) -> bool:
    lines = [line for line in _metrics(admin).splitlines() if line.startswith("walflow_wal_acked_events_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines) == events


def test_the_page_shows_how_far_each_consumer_of_a_log_is(tmp_path: Path, browser: Browser) -> None:
    lake = plain("spark", path="lake", url=f"127.0.0.1:{free_port()}", consumers=["hourly", "nightly"])
    (tmp_path / "flow.troy").write_text(flow_of("tcp -> lake", tcp=TCP, lake=lake))
    with running(tmp_path / "flow.troy", tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        (tcp,) = (one for one in daemon.lines if one.get("event") == "listening" and one["component"] == "tcp")
        browser.shape(WIDTH)
        browser.open(f"http://{admin.address}/")
        client = Client(int(str(tcp["address"]).rsplit(":", 1)[1]))
        client.send(b'{"n":0}\n' * 1234)
        row = "document.querySelectorAll('#consumers tr')[1].textContent"
        browser.until(f"document.querySelectorAll('#consumers tr').length == 2 && {row} == 'main/lakenightly11,234'")
        assert browser.evaluate(SIDEWAYS) <= WIDTH
        status = said([*WALFLOW, "status", "--admin", admin.address])
        assert "consumer nightly of lake lacks 1,234 from 1 on\n" in status
        client.close()
        assert daemon.terminate() == 0
    browser.open("about:blank")


def test_the_page_shows_how_far_a_table_is(tmp_path: Path, browser: Browser) -> None:
    flow = flow_of("tcp -> log -> db", tcp=TCP, log=plain("wal", path="log"), db=plain("sqlite", path="rows.db"))
    (tmp_path / "flow.troy").write_text(flow)
    with running(tmp_path / "flow.troy", tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
        browser.shape(WIDTH)
        browser.open(f"http://{admin.address}/")
        browser.until("!document.getElementById('main').hidden")
        assert browser.evaluate("document.getElementById('tables').hidden")
        client.send(b'{"n":0}\n' * 1234)
        browser.until("document.getElementById('frontiers').textContent == 'main/dblog1,2340'")
        assert browser.evaluate(SIDEWAYS) <= WIDTH
        client.close()
        assert daemon.terminate() == 0
    browser.open("about:blank")


def _click(browser: Browser, name: str) -> None:
    node = f"[...document.querySelectorAll('#flow g.node')].find(one => one.textContent.startsWith('{name}'))"
    browser.evaluate(f"{node}.dispatchEvent(new Event('click'))")


def test_the_page_is_of_no_use_to_another_site(tmp_path: Path) -> None:
    (tmp_path / "flow.troy").write_text(FLOW)
    with running(tmp_path / "flow.troy", tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        assert admin.get("/watch", {"Host": "evil.example"})[0] == 403
        assert admin.get("/watch", {"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert admin.get("/watch", {"Sec-Fetch-Site": "same-origin"})[0] == 200
        assert daemon.terminate() == 0
