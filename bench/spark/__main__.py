"""`python -m bench.spark`: every case in turn, round after round; then latency, then the socket source."""

import os
import platform
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from bench.report import cpu_model
from bench.spark import kafka, latency, lines, paced, ratios, throughput
from bench.spark.lake import Lake
from bench.spark.processes import peak_rss_mb
from bench.spark.report import Document, markdown, read, write
from bench.spark.session import HEAP, MASTER, SAID, jvm_pid, session
from bench.systems import WrongResult
from demo.server import ROOT, ServerFailed
from demo.spark import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORK: Final = ROOT / "bench" / ".work"  # beside the sources: temporary directories are often in memory
PARTITIONS: Final = (None, 64)  # of the socket source
MB: Final = 1_000_000
PACE: Final = 100  # MB/s: what `--seconds` is taken at
LARGEST: Final = 50  # MB of lines in a micro-batch
FEWEST: Final = 4  # batches that count
LATENCY: Final = "latency"
SOCKET: Final = "socket source"


class Plan:
    def __init__(self, rounds: int, seconds: float, warmup: float, only: str, *, beside_kafka: bool) -> None:
        self.rounds = rounds
        self.warm_rounds = 1 if warmup else 0
        size = seconds * PACE
        self.batches = max(FEWEST, round(size / LARGEST))  # that count, a run
        self.batch_mb = size / self.batches
        self.cases = throughput.selected(only)
        self.ratios = ratios.selected(only, beside_kafka=beside_kafka)
        self.beside_kafka = any(one in kafka.RATIOS for one in self.ratios)
        self.ratio_rows = int(size * MB / ratios.SIZE)
        self.latency = only in LATENCY
        self.socket = only in SOCKET
        self.latency_seconds = 5 * seconds
        self.socket_seconds = 5 * seconds

    @property
    def needed(self) -> int:
        """Bytes free: the lines as text, in the log, and in parquet."""
        return int(4 * len(throughput.SIZES) * (self.batches + 1) * self.batch_mb * MB) + (1 << 30)

    def settings(self) -> dict[str, object]:
        return {
            "rounds": self.rounds,
            "warm_rounds": self.warm_rounds,
            "batches": self.batches,
            "batch_mb": self.batch_mb,
            "ratio_rows": self.ratio_rows,
            "latency_seconds": self.latency_seconds,
            "socket_seconds": self.socket_seconds,
            "grace": paced.GRACE,
            "master": MASTER,
            "heap": HEAP,
        }


class Bench:
    def __init__(self, plan: Plan, workdir: Path, console: Console) -> None:
        self._plan = plan
        self._workdir = workdir
        self._console = console
        self._began = time.monotonic()

    def run(self) -> Document:
        """Raises WrongResult, ServerFailed."""
        self._say("starting Spark")
        load = f"{os.getloadavg()[0]:.1f}"
        jars = kafka.spark_jars() if self._plan.beside_kafka else ""
        with session(self._workdir, jars) as spark:
            document = Document(_machine(spark) | {"load": load}, self._plan.settings())
            if self._plan.cases:
                self._throughput(spark, document)
            if self._plan.ratios:
                self._ratios(spark, document)
            if self._plan.latency:
                self._latency(spark, document)
            document.memory_mb["the JVM"] = peak_rss_mb(jvm_pid(spark))
            if self._plan.socket:  # last: what it leaves in the heap affects no other case
                self._socket(spark, document)
                document.memory_mb["the JVM after the socket source"] = peak_rss_mb(jvm_pid(spark))
        return document

    def _throughput(self, spark: "SparkSession", document: Document) -> None:
        plan = self._plan
        with ExitStack() as lakes:
            data = {size: self._data(size) for size in sorted({case.size for case in plan.cases})}
            filled = {size: lakes.enter_context(self._lake(one)) for size, one in data.items()}
            runs = throughput.Runs(spark, self._workdir, data, filled)
            found: dict[str, list[dict[str, object]]] = {case.name: [] for case in plan.cases}
            for number in range(1 - plan.warm_rounds, plan.rounds + 1):
                turn = number % len(plan.cases)  # who begins has no advantage
                for case in (*plan.cases[turn:], *plan.cases[:turn]):
                    result = runs.run(case)
                    label = f"round {number} of {plan.rounds}" if number else "warming up"
                    self._say(f"{label}: {case.name}: {result.rows_per_second:,.0f} rows/s")
                    if number:
                        found[case.name].append(asdict(result))
            document.cases = [asdict(case) | {"name": case.name, "rounds": found[case.name]} for case in plan.cases]
            for size, lake in filled.items():
                document.memory_mb[f"the daemon with lines of {throughput.in_words(size)}"] = peak_rss_mb(lake.pid)

    def _ratios(self, spark: "SparkSession", document: Document) -> None:
        plan = self._plan
        measuring = ratios.Ratios(spark, self._workdir / "ratios", plan.ratio_rows, plan.ratios)
        measured = measuring.run(plan.rounds, plan.warm_rounds, self._say)
        document.ratios = [
            asdict(one)
            | {
                f"{side}_{kind}": [getattr(each, field) for each in measured[name]]
                for side, name in (("mine", one.mine), ("other", one.other))
                for kind, field in (("rates", "rows_per_second"), ("cpu", "cpu_s_per_million"))
            }
            for one in plan.ratios
        ]

    def _latency(self, spark: "SparkSession", document: Document) -> None:
        with Lake(self._workdir / "latency-lake", 0, latency.SINKS) as lake:
            measuring = latency.Latency(spark, self._workdir, lake, self._plan.latency_seconds)
            for sink in latency.SINKS:
                result = measuring.measure(sink)
                self._say(f"latency, {sink}: p50 {result.p50:.0f} ms, p99 {result.p99:.0f} ms")
                document.latency.append(asdict(result))

    def _socket(self, spark: "SparkSession", document: Document) -> None:
        sockets = paced.Sockets(spark, self._workdir, self._plan.socket_seconds)
        first = paced.FIRST
        for partitions in PARTITIONS:
            label = "socket source" if partitions is None else f"socket source, numPartitions={partitions}"
            for tried in paced.doubled(partial(sockets.attempt, partitions), first):
                kept = "keeps up" if tried.kept_up else f"{tried.processed:,} of {tried.sent:,} in time"
                self._say(f"{label}: {tried.rate:,} rows/s: {kept}")
                document.socket.append(asdict(tried))
                if tried.kept_up:
                    first = tried.rate  # more partitions bear no less

    def _data(self, size: int) -> lines.Data:
        rows = int(self._plan.batch_mb * MB / size)
        self._say(f"writing {rows * (self._plan.batches + 1):,} lines of {size} bytes")
        return lines.write(self._workdir / f"lines-{size}", size, rows, self._plan.batches + 1)

    @contextmanager
    def _lake(self, data: lines.Data) -> Iterator[Lake]:
        consumers = throughput.consumers(self._plan.rounds + self._plan.warm_rounds)
        with Lake(self._workdir / f"lake-{data.size}", data.total * data.size, consumers) as lake:
            began = time.monotonic()
            lake.fill(data.files, data.total)
            self._say(f"sent them to walflow: {data.total / (time.monotonic() - began):,.0f} a second")
            yield lake

    def _say(self, line: str) -> None:
        self._console.print(f"{time.monotonic() - self._began:4.0f} s  {line}")


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    seconds: Annotated[float, typer.Option(min=0.02, help="A run has what 100 MB/s would take so long for.")] = 1.5,
    warmup: Annotated[float, typer.Option(min=0, help="0: no round before those that count.")] = 1,
    only: Annotated[
        str,
        typer.Option(
            help=(
                f"Cases whose name contains this; {LATENCY!r}, {SOCKET!r}, 'pipeline', 'partitions'; "
                "'kafka' starts a broker, as --kafka does."
            )
        ),
    ] = "",
    beside_kafka: Annotated[
        bool, typer.Option("--kafka", help="Beside Spark's source for Kafka too; it starts a broker.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all results there.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Print such a file, run nothing.")] = None,
) -> None:
    """Rows a second from walflow into Spark, beside text files and Spark's socket source; latency; memory."""
    console = Console(highlight=False, soft_wrap=True)
    if markdown_file is not None:
        _print(console, markdown_file)
        return
    if (reason := missing()) is not None:
        console.print(f"no Spark rows. {escape(reason)}")
        return
    plan = Plan(rounds, seconds, warmup, only, beside_kafka=beside_kafka)
    if not (plan.cases or plan.ratios or plan.latency or plan.socket):
        console.print(f"no Spark rows: none has {escape(only)!r} in its name")
        return
    if plan.beside_kafka and (reason := kafka.absent()) is not None:
        console.print(f"no Kafka rows: {escape(reason)}")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing is left behind
    document = _run(plan, console)
    console.print(f"\n{escape(markdown(document))}")
    if json_file is not None:
        write(json_file, document)


def _run(plan: Plan, console: Console) -> Document:
    """Raises typer.Exit."""
    from pyspark.errors import PySparkException

    WORK.mkdir(exist_ok=True)
    if shutil.disk_usage(WORK).free < plan.needed:
        console.print(f"{WORK} needs {plan.needed / 1e9:.0f} GB of free disk")
        raise typer.Exit(2)
    workdir = Path(tempfile.mkdtemp(dir=WORK))
    try:
        return Bench(plan, workdir, console).run()
    except (WrongResult, ServerFailed) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(1) from None
    except PySparkException as error:
        said = "\n".join(str(error).splitlines()[:20])
        console.print(f"[bold red]{escape(said)}[/]\n{escape(_last_words(workdir / SAID))}")
        raise typer.Exit(1) from None
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _print(console: Console, file: Path) -> None:
    try:
        console.print(escape(markdown(read(file))), end="")
    except (OSError, ValueError) as error:
        console.print(escape(str(error)))
        raise typer.Exit(2) from None


def _machine(spark: "SparkSession") -> dict[str, object]:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return {
        "cpus": os.cpu_count(),
        "cpu": cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "spark": spark.version,
        "java": jvm.java.lang.System.getProperty("java.version"),
    }


def _last_words(file: Path) -> str:
    said: Sequence[str] = file.read_text(errors="replace").splitlines()[-12:] if file.exists() else ()
    return "\n".join(f"  | {line}" for line in said)


if __name__ == "__main__":
    typer.run(main)
