"""Another program answers where the daemon should be, or a walflow of another version: one line, and an exit code."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.flows.builder import LOG, OUT, flow_of, lines_in
from tests.system.daemon import ROOT, WALFLOW
from tests.waiting import PATIENCE

TAPPED = b'{"port":1}\n{"counts":[]}\n'
DEEP = b'{"x":' + b"[" * 100_000
UNKNOWN = "the program that answers is no walflow of this version"


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """The same to every request. Yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(202 if self.command == "POST" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Not to the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("body", [b'{"x": 1}', b"[]", b"<html>", b"\xff", DEEP, TAPPED])
@pytest.mark.parametrize(
    "command",
    [["status"], ["status", "--ready"], ["reload"], ["reload", "--dry-run"], ["tap"], ["check", "--running"]],
)
def test_what_it_says_is_not_taken_for_a_daemon(tmp_path: Path, command: list[str], body: bytes) -> None:
    flow = tmp_path / "main.troy"
    flow.write_text(flow_of("tcp -> log -> out", tcp=lines_in("tcp_server", url="127.0.0.1:7000"), log=LOG, out=OUT))
    files = [str(flow)] if command[0] == "check" else []
    with answering(body) as address:
        done = subprocess.run(
            [*WALFLOW, *command, "--admin", address, *files],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 69, done.stderr
    ended = command[0] == "tap" and body != TAPPED  # none of these lines is an event
    assert ("has ended the tap" if ended else UNKNOWN) in last
