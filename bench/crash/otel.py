"""The OpenTelemetry Collector with a persistent sending queue. `python -m bench.crash.otel` builds one, of the three
parts that it needs, with its own builder: that takes Go, and minutes."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.crash.ends import Client, HttpClient, QuotedHttpReceiver, Receiver
from bench.crash.events import event
from bench.crash.ledger import Ledger
from bench.crash.systems import MOST_MB, Ready, System
from bench.unpacked import PLACE

VERSION: Final = "0.139.0"
HOME: Final = PLACE / "otelcol"
PROGRAM: Final = HOME / "dist/otelcol"
BUILDER: Final = f"go.opentelemetry.io/collector/cmd/builder@v{VERSION}"
CONTRIB: Final = "github.com/open-telemetry/opentelemetry-collector-contrib"
PARTS: Final = f"""
dist: {{name: otelcol, output_path: {HOME}/dist, version: {VERSION}}}
receivers: [{{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v{VERSION}}}]
exporters: [{{gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter v{VERSION}}}]
extensions: [{{gomod: {CONTRIB}/extension/storage/filestorage v{VERSION}}}]
providers:
  - {{gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.45.0}}
  - {{gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v1.45.0}}
"""
CONFIG: Final = """
extensions:
  file_storage: {{directory: {directory}, fsync: true}}
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}
exporters:
  otlphttp:
    logs_endpoint: http://127.0.0.1:{receiver}/v1/logs
    encoding: json
    compression: none
    timeout: 5s
    retry_on_failure: {{enabled: true, initial_interval: 1s, max_interval: 1s, max_elapsed_time: 0}}
    sending_queue: {{enabled: true, storage: file_storage, sizer: bytes, queue_size: {most}000000}}
service:
  telemetry: {{metrics: {{level: none}}}}
  extensions: [file_storage]
  pipelines: {{logs: {{receivers: [otlp], exporters: [otlphttp]}}}}
"""


class OtlpClient(HttpClient):
    path = "/v1/logs"

    def body(self, first: int, count: int) -> bytes:
        records = [{"body": {"stringValue": event(number).decode()}} for number in range(first, first + count)]
        return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


class Otel(System):
    name = "OpenTelemetry Collector, file storage, fsync"
    promise = "fsync: when set, will force the database to perform an fsync after each write"
    notes: Mapping[str, str] = {
        "500 to everything for 5 s": "OTLP tries 429, 502, 503 and 504 again; a 500 is for ever",
        "poison event": "the request with the bad event is dropped, with 19 good ones",
    }
    page = f"https://{CONTRIB}/blob/main/extension/storage/filestorage/README.md"

    def absent(self) -> str | None:
        return None if PROGRAM.exists() else "no collector: python -m bench.crash.otel"

    def version(self) -> str:
        return f"otelcol {VERSION}"

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        config = directory / "otel.yaml"
        config.write_text(CONFIG.format(directory=directory, port=port, receiver=receiver, most=MOST_MB))
        return Ready([str(PROGRAM), "--config", str(config)], {})

    def client(self, port: int) -> Client:
        return OtlpClient(port)

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        return QuotedHttpReceiver(ledger, port)


def build() -> None:
    if shutil.which("go") is None:
        raise SystemExit("no go: the Collector is built with it")
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "parts.yaml").write_text(PARTS)
    subprocess.run(["go", "install", BUILDER], env=os.environ | {"GOBIN": str(HOME)}, check=True)
    subprocess.run([HOME / "builder", "--config", HOME / "parts.yaml"], check=True)


if __name__ == "__main__":
    build()
