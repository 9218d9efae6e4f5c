"""`python -m bench.reload`: how long a client waits for `walflow reload`, beside closing and opening a log."""

import json
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from walflow.wal import Log, LogOptions

RELOADS = 20
WALFLOW = [sys.executable, "-m", "walflow"]
FLOW = """
define flow main
flow
  use tremor::pipelines;
  define connector tcp from tcp_server with
    codec = "string", preprocessors = ["separate"], postprocessors = ["separate"],
    config = {"url": "127.0.0.1:%d"}
  end;
  define connector log from wal with config = {"path": "log"} end;
  create connector tcp; create connector log;
  create pipeline there from pipelines::passthrough;
  create pipeline back from pipelines::passthrough;
  connect /connector/tcp to /pipeline/there;
  connect /pipeline/there to /connector/log;
  connect /connector/log to /pipeline/back;
  connect /pipeline/back to /connector/tcp;
end;
deploy flow main;
"""


class EchoClient(threading.Thread):
    """One line after the other, over one connection. `longest`: seconds that an echo took, since it was set to 0."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self.echoes = 0
        self.enough = threading.Event()
        self._socket = socket.create_connection(("127.0.0.1", port))

    def run(self) -> None:
        with self._socket, self._socket.makefile("rb") as answers:
            while not self.enough.is_set():
                began = time.monotonic()
                self._socket.sendall(b"line %d\n" % self.echoes)
                if not answers.readline():
                    return
                self.longest = max(self.longest, time.monotonic() - began)
                self.echoes += 1


def alone(directory: Path) -> float:
    """Seconds to close the log and to open it again, with a file that is written to, as a daemon's is: of that, what
    is only reserved is read too."""
    log = Log(LogOptions(str(directory)))
    log.append(b"", b"one\n", 1, time.time_ns())
    commit = log.commit()
    assert commit is not None
    commit.flush()
    log.committed(commit)
    began = time.monotonic()
    log.close()
    log = Log(LogOptions(str(directory)))
    took = time.monotonic() - began
    log.close()
    return took


def main() -> None:
    with TemporaryDirectory() as made:
        directory = Path(made)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        (directory / "main.troy").write_text(FLOW % port)
        admin = f"unix:{directory}/admin.sock"
        daemon = subprocess.Popen(
            [*WALFLOW, "run", "main.troy", "--admin", admin], cwd=directory, stderr=subprocess.DEVNULL
        )
        subprocess.run([*WALFLOW, "status", "--ready", "--wait", "30s", "--admin", admin], check=True)
        client = EchoClient(port)
        client.start()
        waits: list[float] = []
        for _ in range(RELOADS):
            client.longest = 0.0
            subprocess.run(
                [*WALFLOW, "reload", "--admin", admin, "--watch", "1s"], check=True, stdout=subprocess.DEVNULL
            )
            waits.append(client.longest)
        client.enough.set()
        client.join()
        echoes = client.echoes
        shutil.copytree(directory / "log", directory / "copy")
        took = [alone(directory / "copy") for _ in range(RELOADS)]
        status = subprocess.run([*WALFLOW, "status", "--json", "--admin", admin], capture_output=True, check=True)
        subprocess.run(["kill", f"-{signal.SIGTERM.value}", str(json.loads(status.stdout)["pid"])], check=True)
        daemon.wait()
    longest, reference = sorted(waits), statistics.median(took)
    print(f"{RELOADS} reloads, {echoes} echoes over one connection")
    for name, value in (("median", statistics.median(waits)), ("longest", longest[-1])):
        print(f"wait of the client, {name}: {value * 1e3:.0f} ms = {value / reference:.1f} x close and open")
    print(f"close and open the log alone: {reference * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
