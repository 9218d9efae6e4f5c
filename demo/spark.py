"""The ending: what the server delivered goes through a pipeline on Spark,
whose windows have to add up to the ledger."""

import importlib.util
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM, signal
from subprocess import TimeoutExpired
from typing import Final, NamedTuple

import orjson
from rich.console import Console
from rich.markup import escape

from demo.ledger import LONG, Ledger
from demo.server import ROOT, Server, ServerFailed, write_flow
from pyspark_walflow.java import NoJava, find_java
from walflow.extras import install_line

FLOW: Final = ROOT / "demo" / "clients.troy"
COUNTED_WITHIN: Final = 600.0  # seconds
LOOK: Final = 0.1
QUICK_TO_START: Final = {
    "buckets": 2,
    "conf": {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
    },
}

Row = Mapping[str, int]


class Windows(NamedTuple):
    """What the windows of all clients add up to. `distinct`: the lines that a client sent again are counted once."""

    number: int
    lines: int
    distinct: int
    long: int

    def agree(self, ledger: Ledger) -> bool:
        return (self.lines, self.distinct, self.long) == (ledger.in_file, ledger.distinct, ledger.long)


def added_up(rows: Iterable[Row]) -> Windows:
    """A connection carries a run of ids, and the client's next one begins with those that were not echoed."""
    number = lines = long = 0
    runs: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        number += 1
        long += row.get("long", 0)
        if "lines" in row:
            lines += row["lines"]
            runs[row["client"]].append((int(row["first"]), int(row["last"]) + 1))
    return Windows(number, lines, sum(map(_covered, runs.values())), long)


def _covered(runs: list[tuple[int, int]]) -> int:
    covered = end = 0
    for first, following in sorted(runs):
        covered += max(0, following - max(first, end))
        end = max(end, following)
    return covered


def missing() -> str | None:
    """Why Spark cannot run here, with what to type."""
    if importlib.util.find_spec("pyspark") is None:
        return f"Spark is not installed: {install_line('spark')}"
    try:
        find_java()
    except NoJava as error:
        return str(error)
    return None


def show(console: Console, file: Path, ledger: Ledger) -> bool:
    """Whether the pipeline on Spark found what the ledger has; also if there is no Spark. Raises ServerFailed."""
    flow = FLOW.relative_to(ROOT)
    reason = missing()
    if reason is not None:
        console.print(f"The pipeline of {flow} was to run on Spark. {escape(reason)}\n")
        return True
    began = time.monotonic()
    with console.status(f"walflow run {flow}: the lines of {file.name} go through a pipeline on Spark"):
        windows = _run(file, ledger)
    console.print(
        f"[bold]walflow run {flow}[/]: the lines of {file.name} go through a pipeline on Spark, with a script, a "
        f"`where` and a window of a second for each connection. Its {windows.number:,} windows add up to "
        f"{windows.lines:,} lines: {windows.distinct:,} different ones, {windows.lines - windows.distinct:,} sent "
        f"again; {windows.long:,} have {LONG:,} bytes of text or more. ({time.monotonic() - began:.0f} s)"
    )
    if not windows.agree(ledger):
        console.print(
            f"[bold red]The ledger has {ledger.in_file:,} lines, {ledger.distinct:,} different ones, {ledger.long:,} "
            "long ones.[/]\n"
        )
        return False
    console.print("[bold green]The pipeline on Spark and the ledger agree.[/]\n")
    return True


def _run(file: Path, ledger: Ledger) -> Windows:
    workdir = file.parent / "spark"
    workdir.mkdir()
    counts = workdir / "counts.jsonl"
    settings = workdir / "settings.json"
    settings.write_text(json.dumps(QUICK_TO_START))
    flow = write_flow(workdir, FLOW, {"file": str(file), "counts": counts.name})
    deadline = time.monotonic() + COUNTED_WITHIN
    with _terminable(), Server(flow, workdir, ["--spark-config", str(settings)]) as server:
        server.start()
        try:
            while not _complete(windows := added_up(_rows(counts)), ledger):
                server.events()  # raises if it is gone
                if refused := server.printed():
                    raise ServerFailed(
                        f"the pipeline on Spark could not count: {refused[:300].decode(errors='replace')}"
                    )
                if time.monotonic() > deadline:
                    raise ServerFailed(
                        f"Spark counted {windows.lines:,} of {ledger.in_file:,} lines within {COUNTED_WITHIN:.0f} s\n"
                        f"{server.last_words()}"
                    )
                time.sleep(LOOK)
        finally:
            _stop(server)
    return added_up(_rows(counts))


def _complete(windows: Windows, ledger: Ledger) -> bool:
    return windows.lines >= ledger.in_file and windows.long >= ledger.long


def _rows(counts: Path) -> list[Row]:
    """Without a line that is being written."""
    data = counts.read_bytes() if counts.exists() else b""
    return [orjson.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def _stop(server: Server) -> None:
    """A daemon that is stopped leaves no JVM behind. A driver whose daemon is killed ends, too, a moment later."""
    if server.running:
        try:
            server.stop()
        except TimeoutExpired:
            server.close()


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: with nothing left behind."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal(SIGTERM, interrupt)
    try:
        yield
    finally:
        signal(SIGTERM, before)
