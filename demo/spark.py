"""The ending: what the server wrote goes into a log that Spark reads, and Spark has to come to the ledger's numbers."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import orjson
from rich.console import Console
from rich.markup import escape

from demo.ledger import Ledger
from demo.server import ROOT, Server, ServerFailed, free_port, write_flow
from pyspark_walflow.client import Client, Endpoint
from pyspark_walflow.java import NoJava, find_java
from pyspark_walflow.wire import FrameKind, WireKey
from walflow.extras import install_line

FLOW: Final = ROOT / "flows" / "spark" / "file.troy"
CHUNK: Final = 64 << 20  # the flow's
LOGGED_WITHIN: Final = 120.0  # seconds
COUNTED_WITHIN: Final = 300.0
LOOK: Final = 0.05
SAID: Final = "spark.log"


class Count(NamedTuple):
    lines: int
    distinct: int  # byte for byte sent once
    events: int  # with those that were sent again counted once


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
    """Whether Spark found what the ledger has; also if there is no Spark. Raises ServerFailed."""
    reason = missing()
    if reason is not None:
        console.print(f"Spark was to count them too. {escape(reason)}\n")
        return True
    flow = FLOW.relative_to(ROOT)
    began = time.monotonic()
    with console.status(f"walflow run {flow}: {file.name} goes into a log, and Spark counts what is in it"):
        count = _count(file, ledger.in_file)
    seconds = time.monotonic() - began
    expected = Count(ledger.in_file, ledger.in_file - ledger.faults.duplicated, ledger.distinct)
    all_of_them = "all" if count.distinct == count.lines else f"{count.distinct:,}"
    console.print(
        f"[bold]walflow run {flow}[/]: {file.name} goes into a log that Spark reads. Spark counted {count.lines:,} lines, "
        f"{all_of_them} distinct: {count.events:,} different ones, {count.distinct - count.events:,} sent again. "
        f"({seconds:.0f} s)"
    )
    if count != expected:
        console.print(f"[bold red]The ledger has {expected.lines:,} and {expected.events:,}.[/]\n")
        return False
    console.print("[bold green]Spark and the ledger agree.[/]\n")
    return True


def _count(file: Path, lines: int) -> Count:
    workdir = file.parent / "spark"
    workdir.mkdir()
    port = free_port()
    args = {
        "bridge": f"127.0.0.1:{port}",
        "file": str(file),
        "max_chunks": 2 * file.stat().st_size // CHUNK + 4,
    }
    token = workdir / "lake_state" / "token"
    with _terminable(), Server(write_flow(workdir, FLOW, args), workdir) as server:
        server.start()
        server.wait_for("listening")
        with _counting(workdir, port, token) as spark:  # starts while the file goes into the log
            client = Client(Endpoint("127.0.0.1", port), WireKey.of_token(token.read_text().strip()))
            _wait_until_logged(server, client, lines)
            output, _ = spark.communicate(b"now\n", COUNTED_WITHIN)
    if spark.returncode:
        said = (workdir / SAID).read_text(errors="replace").splitlines()[-12:]
        raise ServerFailed(
            "\n".join((f"Spark ended with exit code {spark.returncode}", *(f"  | {line}" for line in said)))
        )
    return Count(**orjson.loads(output.splitlines()[-1]))


def _wait_until_logged(server: Server, client: Client, lines: int) -> None:
    deadline = time.monotonic() + LOGGED_WITHIN
    try:
        while client.call(FrameKind.HEAD, {})["next"] != lines + 1:
            server.events()  # raises if it is gone
            if time.monotonic() > deadline:
                raise ServerFailed(f"the file was not in the log within {LOGGED_WITHIN:.0f} s\n{server.last_words()}")
            time.sleep(LOOK)
    finally:
        client.close()


@contextmanager
def _counting(workdir: Path, port: int, token: Path) -> Iterator["subprocess.Popen[bytes]"]:
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "WALFLOW_TOKEN_FILE": str(token),
    }
    with (workdir / SAID).open("wb") as said:
        spark = subprocess.Popen(
            [sys.executable, "-m", "demo.count", "127.0.0.1", str(port)],
            cwd=workdir,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        )
    with spark:
        try:
            yield spark
        finally:
            _kill_all(spark.pid)


def _kill_all(group: int) -> None:
    """The JVM and its Python workers too."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: with nothing left behind."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
