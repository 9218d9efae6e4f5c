"""Telegraf with a buffer on disk. `python -m bench.crash.telegraf` builds one, with the two plugins that it needs:
that takes Go, and minutes."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench.crash.ends import Client, HttpClient, QuotedHttpReceiver, Receiver
from bench.crash.events import event
from bench.crash.ledger import Ledger
from bench.crash.systems import Ready, System
from bench.unpacked import PLACE

VERSION: Final = "1.37.2"
MODULE: Final = f"github.com/influxdata/telegraf@v{VERSION}"
HOME: Final = PLACE / "telegraf"
PROGRAM: Final = HOME / "telegraf"
TAGS: Final = "custom,inputs.http_listener_v2,outputs.http,parsers.influx,serializers.json"
CONFIG: Final = """
[agent]
  interval = "1s"
  flush_interval = "1s"
  metric_batch_size = 1000
  metric_buffer_limit = 100000
  buffer_strategy = "disk_write_through"
  buffer_directory = "{directory}/buffer"
  omit_hostname = true
[[inputs.http_listener_v2]]
  service_address = "tcp://127.0.0.1:{port}"
  paths = ["/"]
  data_format = "influx"
[[outputs.http]]
  url = "http://127.0.0.1:{receiver}/"
  timeout = "5s"
  data_format = "json"
"""


class LineProtocolClient(HttpClient):
    """InfluxDB's line protocol: a measurement with the event as its one field."""

    def body(self, first: int, count: int) -> bytes:
        return b"".join(b"e v=%b\n" % json.dumps(event(n).decode()).encode() for n in range(first, first + count))


class Telegraf(System):
    name = "Telegraf, buffer on disk"
    promise = "an experimental disk-backed buffer, to improve data durability and reduce the chance for data loss"
    page = "https://github.com/influxdata/telegraf/blob/v1.37.2/docs/CONFIGURATION.md"

    def absent(self) -> str | None:
        return None if PROGRAM.exists() else "no Telegraf: python -m bench.crash.telegraf"

    def version(self) -> str:
        return f"telegraf {VERSION}"

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        config = directory / "telegraf.conf"
        config.write_text(CONFIG.format(directory=directory, port=port, receiver=receiver))
        return Ready([str(PROGRAM), "--config", str(config)], {})

    def client(self, port: int) -> Client:
        return LineProtocolClient(port)

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        return QuotedHttpReceiver(ledger, port)


def build() -> None:
    if shutil.which("go") is None:
        raise SystemExit("no go: Telegraf is built with it")
    HOME.mkdir(parents=True, exist_ok=True)
    told = subprocess.run(["go", "mod", "download", "-json", MODULE], cwd=HOME, capture_output=True, check=True)
    source = HOME / "source"  # what was downloaded cannot be written to
    shutil.copytree(json.loads(told.stdout)["Dir"], source, copy_function=shutil.copyfile, dirs_exist_ok=True)
    source.chmod(0o755)
    command = ["go", "build", "-mod=mod", "-tags", TAGS, "-o", str(PROGRAM), "./cmd/telegraf"]
    subprocess.run(command, cwd=source, env=os.environ | {"CGO_ENABLED": "0"}, check=True)


if __name__ == "__main__":
    build()
