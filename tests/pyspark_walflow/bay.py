"""A daemon whose results go into a file, as a user would run it: tcp_server -> spark -> file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pyspark_walflow.client import Client
from pyspark_walflow.wire import FrameKind
from tests.flows.builder import lines_out
from tests.pyspark_walflow.lake import Lake
from tests.system.daemon import Daemon
from tests.waiting import wait_until


class Bay(Lake):
    """`open_file`: before it the file cannot be written, and results stay where they are."""

    ways: ClassVar[tuple[str, ...]] = ("tcp -> lake -> out",)
    behind: ClassVar[Mapping[str, str]] = {"out": lines_out("file", path="results/rows.json", mode="append")}

    def __init__(self, directory: Path, config: str = "") -> None:
        super().__init__(directory, (), config)
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
        wait_until(lambda: len(file.read_text().splitlines()) >= count, lambda: self.daemon.raw[-20:])
        return file.read_text().splitlines()

    def values(self, count: int) -> list[object]:
        return [json.loads(line) for line in self.lines(count)]

    def said(self, event: str, count: int = 0) -> list[dict[str, object]]:
        """What its log says of that since its last start; waits for so many lines."""

        def found() -> list[dict[str, object]]:
            return [line for line in self.daemon.lines if line.get("event") == event]

        wait_until(lambda: len(found()) >= count, lambda: (event, self.daemon.raw[-20:]))
        return found()

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
