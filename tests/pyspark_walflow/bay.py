"""A daemon whose results go into a file, as a user would run it: tcp_server -> spark -> file."""

import json
import time
from pathlib import Path

from pyspark_walflow.client import Client
from pyspark_walflow.wire import FrameKind
from tests.pyspark_walflow.lake import FLOW, Lake
from tests.system.daemon import PATIENCE, Daemon

OUT = """\
  define connector out from file
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"path": "results/rows.json", "mode": "append"}
  end;

  create connector out;
  create pipeline back from pipelines::passthrough;
  connect /connector/lake to /pipeline/back;
  connect /pipeline/back to /connector/out;
end;

deploy"""


class Bay(Lake):
    """`open_file`: before it the file cannot be written, and results stay where they are."""

    def __init__(self, directory: Path, config: str = "") -> None:
        super().__init__(directory, (), config)
        self._flow.write_text(self._flow.read_text().replace("end;\n\ndeploy", OUT))
        self._folder = directory / "results"

    def start(self) -> None:
        """It listens; ready it is only with a file."""
        self.daemon = Daemon(self._flow, self.directory, "--log-level", "debug")
        while self.daemon.wait_for("listening")["component"] != "lake":
            pass

    def open_file(self) -> None:
        self._folder.mkdir()

    def lines(self, count: int) -> list[str]:
        """So many at least, as soon as they are there."""
        file = self._folder / "rows.json"
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = file.read_text().splitlines() if file.exists() else []
            if len(found) >= count:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{count} lines were to come, {len(found)} did: {self.daemon.raw[-20:]}")

    def values(self, count: int) -> list[object]:
        return [json.loads(line) for line in self.lines(count)]

    def said(self, event: str, count: int = 0) -> list[dict[str, object]]:
        """What its log says of that since its last start; waits for so many lines."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [line for line in self.daemon.lines if line.get("event") == event]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{event!r} was said {len(found)} times: {self.daemon.raw[-20:]}"
            time.sleep(0.02)

    def batches(self, event: str, count: int) -> list[object]:
        """Of which it says that."""
        return [line["batch"] for line in self.said(event, count)]

    def staged(self) -> list[str]:
        return sorted(path.name for path in (self.state / "staging").iterdir())


def stage(client: Client, name: str, rows: list[bytes]) -> None:
    answer = client.stage(name, iter([b"".join(row + b"\n" for row in rows)]))
    assert answer["rows"] == len(rows)


def publish(client: Client, query: str, batch: int, *names: str) -> tuple[object, object]:
    answer = client.call(FrameKind.PUBLISH, {"query": query, "batch": batch, "names": list(names)})
    return answer["fresh"], answer["rows"]


assert "end;\n\ndeploy" in FLOW
