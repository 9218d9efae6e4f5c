"""`python -m bench.turns` measures the longest time in which a daemon answers nobody: once while the backlog of a log
goes to one sink, and once at a start with an empty log."""

import http.client
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

EVENTS = 300_000  # small ones: a window has most of them
REQUEST = 10_000
SECONDS = 10.0  # that are looked at, from the start of the daemon
WALFLOW = [sys.executable, "-m", "walflow"]
PASSED = "create pipeline after from pipelines::passthrough;"
SCRIPT = """
define pipeline after
pipeline
  define script parse
  script
    match event of
      case %{id ~= re|^(?<a>[0-9]+)-(?<b>[0-9]+)$|} => {"id": event.id, "twice": event.id + event.id}
      default => event
    end
  end;
  create script parse;
  select event from in into parse;
  select event from parse into out;
end;
create pipeline after;
"""
FLOW = """
define flow main
flow
  use tremor::pipelines;
  define connector web from http_server with config = {"url": "127.0.0.1:%d"} end;
  define connector log from wal with config = {"path": "log"} end;
  define connector sink from %s end;
  %s
  create connector web; create connector log; create connector sink;
  create pipeline before from pipelines::passthrough;
  connect /connector/web to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/sink;
end;
deploy flow main;
"""
AWAY = 'http_client with codec = "json", config = {"url": "http://127.0.0.1:1/"%s}'
FILE = 'file with codec = "json", postprocessors = ["separate"], config = {"path": "out.jsonl", "mode": "append"}'
CASES = {
    "a script, then a file": (FILE, SCRIPT),
    "udp_client": ('udp_client with codec = "json", config = {"url": "127.0.0.1:9"}', PASSED),
    "http_client, away": (AWAY % "", PASSED),
    "http_client with order_by, away": (AWAY % ', "order_by": "id", "concurrency": 8', PASSED),
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Daemon:
    def __init__(self, directory: Path, sink: str, pipeline: str) -> None:
        self.web, self._admin = free_port(), free_port()
        (directory / "main.troy").write_text(FLOW % (self.web, sink, pipeline))
        self._process = subprocess.Popen(
            [*WALFLOW, "run", "main.troy", "--admin", f"127.0.0.1:{self._admin}"],
            cwd=directory,
            stderr=subprocess.DEVNULL,
        )

    def ready(self) -> None:
        admin = f"127.0.0.1:{self._admin}"
        subprocess.run(
            [*WALFLOW, "status", "--ready", "--wait", "30s", "--admin", admin], check=True, stdout=subprocess.DEVNULL
        )

    def silence(self) -> float:
        """The longest, in seconds, since it listens."""
        longest, end, connection = 0.0, time.monotonic() + SECONDS, None
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self._admin)
                connection.request("GET", "/livez")
                connection.getresponse().read()
            except ConnectionError:
                connection = None
            else:
                longest = max(longest, time.monotonic() - began)
            time.sleep(0.002)
        return longest

    def end(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def fill(directory: Path, events: int) -> None:
    """A log that keeps all of it, because its sink is away."""
    daemon = Daemon(directory, AWAY % "", PASSED)
    daemon.ready()
    client = http.client.HTTPConnection("127.0.0.1", daemon.web)
    for first in range(0, events, REQUEST):
        body = "\n".join(f'{{"id":"{first}-{number}"}}' for number in range(REQUEST))
        client.request("POST", "/", body, {"Content-Type": "application/x-ndjson"})
        answer = client.getresponse()
        answer.read()
        if answer.status != http.HTTPStatus.OK:
            sys.exit(f"the log took no events: {answer.status}")
    client.close()
    daemon.end()


def silence(sink: str, pipeline: str, events: int) -> float:
    with TemporaryDirectory() as made:
        directory = Path(made)
        fill(directory, events)
        daemon = Daemon(directory, sink, pipeline)
        try:
            return daemon.silence()
        finally:
            daemon.end()


def main() -> None:
    print(f"the longest time in which the admin address did not answer; a log with {EVENTS:,} events")
    for name, (sink, pipeline) in CASES.items():
        empty, full = silence(sink, pipeline, 0), silence(sink, pipeline, EVENTS)
        print(f"{name}: {full * 1e3:.0f} ms = {full / empty:.1f} x that of an empty log", flush=True)


if __name__ == "__main__":
    main()
