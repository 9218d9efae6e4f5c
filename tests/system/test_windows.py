"""Windows in a daemon: the flow of docs/howto/count-per-host.md as it is shipped,
and what becomes of open windows."""

import json
import re
import socket
from pathlib import Path

from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import ROOT, Daemon, running
from tests.waiting import wait_until

FLOW = ROOT / "flows" / "windows" / "per-host.troy"
HOWTO = (ROOT / "docs" / "howto" / "count-per-host.md").read_text(encoding="utf-8")
SENT = re.findall(r"'(\{.*?\})'", HOWTO)
RESULTS = [json.loads(line) for line in re.findall(r'^\{"host":"web.*\}$', HOWTO, re.MULTILINE)]


def flow(directory: Path, seconds: int) -> Path:
    text = FLOW.read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:4242", "127.0.0.1:0").replace("seconds = 10", f"seconds = {seconds}")
    path = directory / "per-host.troy"
    path.write_text(text, encoding="utf-8")
    return path


def send(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall("".join(f"{line}\n" for line in SENT).encode())


def sent_and_held(daemon: Daemon) -> None:
    admin = Admin(daemon)
    send(daemon.port())
    admin.until(lambda admin: admin.metrics()["walflow_component_received_events_total", "requests"] == len(SENT))
    assert admin.metrics()["walflow_component_window_groups", "per_host"] == len(RESULTS)
    assert admin.metrics()["walflow_component_window_open", "per_host"] == len(RESULTS)
    assert admin.metrics()["walflow_component_state_bytes", "per_host"] > 0
    [pipeline] = admin.status()["flows"][0]["pipelines"]
    assert pipeline["keeps"]["window_groups"] == len(RESULTS)


def results(daemon: Daemon) -> list[object]:
    return sorted((json.loads(line) for line in daemon.stdout), key=lambda one: one["host"])


def test_windows_close_while_no_event_comes(tmp_path: Path) -> None:
    with running(flow(tmp_path, 1), tmp_path) as daemon:
        send(daemon.port())
        wait_until(lambda: len(daemon.stdout) == len(RESULTS))
        assert results(daemon) == RESULTS
        assert daemon.terminate() == 0
    assert not [line for line in daemon.lines if line.get("event") == "open windows dropped"]


def test_open_windows_are_dropped_at_a_stop_and_counted(tmp_path: Path) -> None:
    with running(flow(tmp_path, 3600), tmp_path, admin=LOOPBACK) as daemon:
        sent_and_held(daemon)
        assert daemon.terminate() == 0
    assert results(daemon) == []
    dropped = daemon.last("open windows dropped")
    assert (dropped["windows"], dropped["events"]) == (2, 3)


def test_open_windows_are_closed_at_a_stop_if_asked(tmp_path: Path) -> None:
    with running(flow(tmp_path, 3600), tmp_path, "--flush", admin=LOOPBACK) as daemon:
        sent_and_held(daemon)
        assert daemon.terminate() == 0
    assert results(daemon) == RESULTS
    assert not [line for line in daemon.lines if line.get("event") == "open windows dropped"]
