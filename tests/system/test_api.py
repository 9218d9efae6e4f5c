"""tremor's API: what it says of a running daemon, and pause and resume."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import Client, echo_flow, running
from tests.waiting import PATIENCE

TOKEN = {"Authorization": "Bearer s3cret"}
CONNECTORS = "/v1/flows/server/connectors"
LOG = f"{CONNECTORS}/log"


def ask(admin: Admin, path: str, patch: object = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    host, _, port = admin.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    try:
        if patch is None:
            connection.request("GET", path, headers=headers or {})
        else:
            connection.request("PATCH", path, body=json.dumps(patch), headers=headers or {})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()
    finally:
        connection.close()


def conforms(answer: Any, path: str, document: Any) -> None:
    """To the document's schema of this path."""
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(answer)


def log_of(admin: Admin) -> Any:
    return ask(admin, "/status", headers=TOKEN)[1]["flows"][0]["connectors"][1]


def test_what_it_says_is_what_its_document_says(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        _, document = ask(admin, "/v1/openapi.json")
        named = {"{flow}": "server", "{connector}": "log"}
        for path in document["paths"]:
            asked = path
            for name, value in named.items():
                asked = asked.replace(name, value)
            code, answer = ask(admin, asked)
            assert code == 200, asked
            conforms(answer, path, document)
        assert ask(admin, "/v1/status")[1] == {"all_running": True, "num_flows": 1, "flows": {"running": 1}}
        assert ask(admin, "/v1/flows/server")[1] == {
            "alias": "server",
            "status": "running",
            "connectors": ["tcp", "log", "out"],
        }
        assert ask(admin, LOG)[1] == {
            "alias": "log",
            "status": "running",
            "connectivity": "connected",
            "pipelines": {
                "in": [{"alias": "before", "port": "out"}],
                "out": [{"alias": "after", "port": "in"}],
            },
        }
        assert ask(admin, "/v1/flows/other") == (
            404,
            {"code": 404, "error": "there is no flow other; there is server"},
        )
        assert ask(admin, "/v1/flows/server/connectors/x")[1]["error"] == (
            "flow server has no connector x; it has tcp, log, out"
        )
        code, answer = ask(admin, LOG, {"status": "paused"})
        assert (code, answer["error"]) == (403, "pause and resume need a daemon that has an --admin-token-file")
        assert ask(admin, LOG, {"status": "paused"}, {"Sec-Fetch-Site": "cross-site"})[0] == 403


def test_pause_and_resume(tmp_path: Path) -> None:
    """What a paused log has taken stays in it, and leaves it after the resume."""
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--admin-token-file", str(tmp_path / "token"))
    with running(echo_flow(tmp_path), tmp_path, *options, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
        assert ask(admin, LOG, {"status": "paused"})[0] == 401
        code, answer = ask(admin, LOG, {"status": "pause"}, TOKEN)
        assert (code, 'write {"status": "paused"}' in answer["error"]) == (400, True)
        assert ask(admin, f"{CONNECTORS}/out", {"status": "paused"}, TOKEN)[1]["status"] == "paused"
        assert daemon.wait_for("paused")["component"] == "out"
        client.send(b'{"a":1}\n')
        admin.until(lambda admin: log_of(admin)["log"]["backlog_events"] == 1)
        lanes = {lane["name"]: lane for lane in log_of(admin)["lanes"]}
        assert lanes["out"]["gate"] == [{"by": "paused server::out", "reason": "by the admin interface"}]
        assert lanes["out"]["events"] == 1
        reason = 'component="log",flow="server",kind="connector",reason="paused",type="wal"} 1.0'
        assert f"walflow_component_gate_shut{{{reason}" in admin.get("/metrics", TOKEN)[1]

        assert ask(admin, "/v1/flows/server", {"status": "paused"}, TOKEN)[1]["status"] == "paused"
        code, answer = ask(admin, "/v1/status", headers=TOKEN)
        assert (code, answer) == (200, {"all_running": False, "num_flows": 1, "flows": {"paused": 1}})
        assert ask(admin, "/v1/flows/server", {"status": "running"}, TOKEN)[1]["status"] == "running"
        assert client.lines(1) == [b'{"a":1}']
        client.close()
        assert daemon.terminate() == 0


@pytest.mark.parametrize("paused", ["out", "log"])
def test_a_stop_does_not_wait_for_what_is_paused(paused: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--admin-token-file", str(tmp_path / "token"), "--drain-seconds", "1000")
    with running(echo_flow(tmp_path), tmp_path, *options, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
        assert ask(admin, f"{CONNECTORS}/out", {"status": "paused"}, TOKEN)[0] == 200
        client.send(b'{"a":1}\n')
        admin.until(lambda admin: log_of(admin)["log"]["backlog_events"] == 1)
        if paused == "log":
            assert ask(admin, LOG, {"status": "paused"}, TOKEN)[0] == 200
            assert ask(admin, f"{CONNECTORS}/out", {"status": "running"}, TOKEN)[0] == 200
        client.close()
        assert daemon.terminate() == 0
        assert daemon.last("drain is over")["reason"] == f"server::{paused} is paused"
        assert daemon.last("stopped")["left"] == 1


def test_a_body_may_come_in_pieces(tmp_path: Path) -> None:
    """Pause, reload and letters: each waits for the rest of what it is asked."""
    (tmp_path / "token").write_text("s3cret\n")
    asked: list[tuple[str, str, object, int]] = [
        ("PATCH", LOG, {"status": "paused"}, 200),
        ("POST", "/letters", {"path": "none", "do": "drop", "ranges": []}, 404),
        ("POST", "/reload", {"by": "two pieces", "dry": True}, 202),
    ]
    options = ("--admin-token-file", str(tmp_path / "token"))
    with running(echo_flow(tmp_path), tmp_path, *options, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        host, _, port = admin.address.rpartition(":")
        for method, path, wanted, code in asked:
            body = json.dumps(wanted).encode()
            head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {TOKEN['Authorization']}\r\n"
            with socket.create_connection((host, int(port)), PATIENCE) as sock:
                sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:9])
                for _ in range(3):
                    admin.get("/livez")  # so it has looked at what came
                sock.sendall(body[9:])
                answer = http.client.HTTPResponse(sock)
                answer.begin()
                assert answer.status == code, answer.read()
        assert daemon.wait_for("reload")["by"] == "two pieces"
        deep = b'{"path": "none", "do": "drop", "ranges": [], "mended": {"1": ' + b"[" * 100_000
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        connection.request("POST", "/letters", deep, TOKEN)
        assert connection.getresponse().status == 400
        connection.close()
        assert daemon.terminate() == 0
