"""How fast the bridge serves a range, and how late the loop is meanwhile: `python -m bench.spark_read [BLOCK_BYTES]`.

A log of a million lines of 100 bytes is made, and read through a socket by a client that looks at nothing. The
machine's other work counts: run it on one that is idle.
"""

import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

import msgspec

from bench.spark.processes import peak_rss_mb
from demo.server import Server, free_port
from pyspark_walflow.client import Client, Endpoint, LostPositions
from pyspark_walflow.local_files import FilePart
from pyspark_walflow.wire import WireKey
from walflow.wal import Log, LogOptions

ROWS = 1_000_000
ROUNDS = 5
LINE = b'{"id":7,"pad":"%s"}\n' % (b"x" * 82)
TAG = msgspec.msgpack.encode(("main::tcp", 1, 1, "json", "separate", {}, None))
FLOW = """\
define flow main
flow
  use tremor::pipelines;
  define connector tick from metronome with config = {"interval": 3600000000000} end;
  define connector spark from spark
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"path": "state", "url": "127.0.0.1:0"}
  end;
  create connector tick;
  create connector spark;
  create pipeline between from pipelines::passthrough;
  connect /connector/tick to /pipeline/between;
  connect /pipeline/between to /connector/spark;
end;
deploy flow main;
"""


def fill(path: str, block_bytes: int) -> int:
    """The position after the last one."""
    count = max(1, block_bytes // len(LINE))
    log = Log(LogOptions(path))
    while log.next <= ROWS:
        log.append(TAG, LINE * count, count, time.time_ns())
        while log.next % 10_000 < count and (commit := log.commit()) is not None:
            commit.flush()
            log.committed(commit)
    while (commit := log.commit()) is not None:
        commit.flush()
        log.committed(commit)
    log.close()
    return log.next


def main(block_bytes: int) -> None:
    assert len(LINE) == 100
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        end = fill(str(directory / "state"), block_bytes)
        (directory / "flow.troy").write_text(FLOW)
        admin = f"127.0.0.1:{free_port()}"
        with Server(directory / "flow.troy", directory, ["--admin", admin]) as server:
            server.start()
            port = int(str(server.wait_for("listening")["address"]).rsplit(":", 1)[1])
            client = Client(
                Endpoint("127.0.0.1", port), WireKey.of_token((directory / "state" / "token").read_text().strip())
            )
            for _ in range(ROUNDS):
                started = time.perf_counter()
                size = sum(
                    len(found[1])
                    for found in client.read(1, end, "spark")
                    if not isinstance(found, LostPositions | FilePart)
                )
                seconds = time.perf_counter() - started
                print(f"{size / 1e6:.0f} MB in {seconds:.3f} s: {size / 1e6 / seconds:.0f} MB/s")
            client.close()
            scrape = urlopen(f"http://{admin}/metrics").read().decode()
            print(*[line for line in scrape.splitlines() if line.startswith("walflow_loop_lag_seconds")])
            print(f"{peak_rss_mb(server.pid):.0f} MB at the peak")
            server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 64 << 10)
