"""`python -m pyspark_walflow.run flow.troy NAME --read json:in/ --write parquet:out/`: a pipeline over files, on
Spark.

Exit codes: 0 done; 2 an option is wrong; 65 the pipeline cannot run there; 66 there is nothing to read; 73 the output
is there already; 78 Spark, Java or a Python package is missing; 1 anything else. What is wrong is one line.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from pyspark_walflow.condense import JobRefusal, condense
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.over_data import load, run
from pyspark_walflow.reuse import QUICK_TASKS
from walflow_kernel.shipped import ShippedPipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EX_USAGE: Final = 2
EX_DATAERR: Final = 65
EX_NOINPUT: Final = 66
EX_CANTCREAT: Final = 73
EX_CONFIG: Final = 78
READS: Final = ("json", "text", "parquet", "orc")
WRITES: Final = ("json", "text", "parquet", "orc", "noop")
MODES: Final = ("error", "append", "overwrite")
TICK: Final = 1.0  # seconds between two lines of progress


class Place(NamedTuple):
    """`parquet:out/`"""

    format: str
    path: str

    def __str__(self) -> str:
        return f"{self.format}:{self.path}"


class _Ended(Exception):
    def __init__(self, line: str, code: int) -> None:
        super().__init__(line)
        self.code = code


def main(words: Sequence[str] | None = None) -> int:
    try:
        return _main(_parser().parse_args(words))
    except _Ended as ended:
        sys.stderr.write(f"pyspark_walflow.run: {ended}\n")
        return ended.code
    except KeyboardInterrupt:
        sys.stderr.write("pyspark_walflow.run: interrupted; what was not written completely is left out\n")
        return 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Ended(f"{message}; --help lists the options", EX_USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m pyspark_walflow.run",
        description="Run a pipeline of a flow file over files, on Spark.",
        epilog=(
            "What is written: port, position, nth, ingest_ns, meta, value, error. With `text`, "
            "only the values of --port."
        ),
    )
    parser.add_argument("flow", help="the flow file")
    parser.add_argument("name", help="the pipeline in it")
    parser.add_argument(
        "--read", required=True, type=_place(READS), metavar="FORMAT:PATH", help=f"the events: {', '.join(READS)}"
    )
    parser.add_argument(
        "--write", required=True, type=_place(WRITES), metavar="FORMAT:PATH", help=f"where to: {', '.join(WRITES)}"
    )
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=JSON", help="an arg of the pipeline")
    parser.add_argument("--column", help="the column with the events; `json` and `text` have one only")
    parser.add_argument("--port", help="write only what leaves by this port")
    parser.add_argument("--mode", choices=MODES, default="error", help="if the output is there; default: error")
    parser.add_argument("--master", help="Spark's master URL; default: local[*]")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="of Spark's configuration")
    parser.add_argument(
        "--flush", action="store_true", help="close the windows that are open at the end, instead of leaving them out"
    )
    parser.add_argument("--buckets", type=int, help="into how many parts the groups of windows are dealt; default: 8")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def _place(formats: Sequence[str]) -> Any:
    def place(text: str) -> Place:
        format, _, path = text.partition(":")
        if format not in formats:
            raise argparse.ArgumentTypeError(
                f"{text!r} begins with none of {', '.join(formats)}, as `{formats[0]}:dir/` does"
            )
        if not path and format != "noop":
            raise argparse.ArgumentTypeError(f"{text!r} names no path: `{format}:dir/`")
        return Place(format, path)

    return place


def _main(given: argparse.Namespace) -> int:
    from pyspark_walflow.driver import versions

    args = dict(_arg(text) for text in given.arg)
    conf = dict(_pair("--conf", text) for text in given.conf)
    if given.buckets is not None and given.buckets < 1:
        raise _Ended(f"--buckets {given.buckets}: there is at least one", EX_USAGE)
    try:
        shipped = load(given.flow, given.name, args, given.buckets)
    except WalflowError as error:
        raise _Ended(str(error), EX_DATAERR) from None
    if given.port is not None and given.port not in {*shipped.outputs, "err"}:
        raise _Ended(f"--port {given.port}: the pipeline's outputs are {', '.join(shipped.outputs)}", EX_USAGE)
    _look(given, conf)
    begin = time.monotonic()
    try:
        versions()
        if not given.quiet:
            sys.stderr.write("Spark starts\n")
        with tempfile.TemporaryDirectory(prefix="walflow-") as scratch:
            spark = _session(given, conf, scratch)
            try:
                with _progress(spark, quiet=given.quiet):
                    made = _run(shipped, spark, given)
                    counts = _write(made, {*shipped.outputs, "err"}, given)
            finally:
                spark.stop()
    except _Ended:
        raise
    except WalflowError as error:
        raise _Ended(str(error), EX_DATAERR) from None
    except JobRefusal as error:
        raise _Ended(f"{error}{f': {error.hint}' if error.hint else ''}", EX_CONFIG) from None
    except Exception as error:  # noqa: BLE001 - any error is one line
        trouble = condense(error, "")
        raise _Ended(trouble.message, _code(trouble.message)) from None
    seconds = time.monotonic() - begin
    told = ", ".join(f"{count:,} {port}" for port, count in sorted(counts.items())) or "no row"
    sys.stderr.write(f"{given.write}: {told}; {seconds:.1f} s\n")
    return 0


def _look(given: argparse.Namespace, conf: Mapping[str, str]) -> None:
    """What is wrong with the paths and can be seen before Spark starts. Paths of other file systems, and Hadoop's
    patterns, are left to Spark."""
    master = given.master or conf.get("spark.master") or "local[*]"
    if not master.startswith("local") or "HADOOP_CONF_DIR" in os.environ or "spark.hadoop.fs.defaultFS" in conf:
        return
    read, write = _local(given.read), _local(given.write)
    if read is not None and not read.exists():
        raise _Ended(f"--read {given.read}: there is no {str(read)!r}", EX_NOINPUT)
    if write is not None and given.mode == "error" and write.exists():
        raise _Ended(
            f"--write {given.write}: {str(write)!r} is there already: --mode append or overwrite, or another path",
            EX_CANTCREAT,
        )


def _local(place: Place) -> Path | None:
    path = place.path.removeprefix("file://").removeprefix("file:")
    return None if not path or ":" in path or any(sign in path for sign in "*?[{\\") else Path(path)


def _code(message: str) -> int:
    if "PATH_NOT_FOUND" in message:
        return EX_NOINPUT
    return EX_CANTCREAT if "PATH_ALREADY_EXISTS" in message else 1


def _arg(text: str) -> tuple[str, object]:
    name, value = _pair("--arg", text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise _Ended(f"{option} {text!r}: write NAME=VALUE", EX_USAGE)
    return name, value


def _session(given: argparse.Namespace, conf: Mapping[str, str], scratch: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    master = given.master or conf.get("spark.master") or "local[*]"
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif "spark.pyspark.python" in conf:  # which spark-submit alone would read
        os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]
    settings = {
        "spark.app.name": f"walflow {given.name}",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(Path(scratch, "warehouse")),
        **QUICK_TASKS,
        **({"spark.driver.host": "127.0.0.1"} if master.startswith("local") else {}),
    }
    builder = SparkSession.builder.master(master)
    for name, value in {**settings, **conf}.items():
        if name != "spark.master":
            builder = builder.config(name, value)
    with _quiet_java(Path(scratch, "java.log")):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


@contextmanager
def _quiet_java(log: Path) -> Generator[None]:
    """A JVM that starts within writes to a file what it would write to stderr."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _run(shipped: ShippedPipeline, spark: "SparkSession", given: argparse.Namespace) -> "DataFrame":
    column = given.column or _column(given.read)
    return run(shipped, _read(spark, given.read), column=column, flush=given.flush)


def _read(spark: "SparkSession", place: Place) -> "DataFrame":
    if place.format in {"json", "text"}:  # a line is an event: Spark's reader of JSON would make columns of it
        return spark.read.text(place.path)
    return spark.read.format(place.format).load(place.path)


def _column(place: Place) -> str | None:
    return "value" if place.format in {"json", "text"} else None


def _write(made: "DataFrame", ports: AbstractSet[str], given: argparse.Namespace) -> Mapping[str, int]:
    """How many rows left by each port."""
    from pyspark.sql import Observation, functions as sql

    observed = Observation("walflow")
    counted = made.observe(observed, *(sql.count_if(made["port"] == port).alias(port) for port in ports))
    if given.port is not None:
        counted = counted.where(counted["port"] == given.port)
    if given.write.format == "text":
        counted = counted.select("value")
    writer = counted.write.format(given.write.format).mode(
        "overwrite" if given.write.format == "noop" else given.mode
    )
    if given.write.format == "noop":
        writer.save()
    else:
        writer.save(given.write.path)
    found: Mapping[str, int] = observed.get
    return {port: count for port, count in found.items() if count}


@contextmanager
def _progress(spark: "SparkSession", *, quiet: bool) -> Generator[None]:
    """How many tasks of what runs are done, a line when that has changed."""
    ended = threading.Event()
    watcher = threading.Thread(target=_tell, args=(spark.sparkContext.statusTracker(), ended), daemon=True)
    if not quiet:
        watcher.start()
    try:
        yield
    finally:
        ended.set()
        if not quiet:
            watcher.join()


def _tell(tracker: Any, ended: threading.Event) -> None:
    last = ""
    while not ended.wait(TICK):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage)
        total = sum(stage.numTasks for stage in stages if stage)
        line = f"{done} of {total} tasks done"
        if total and line != last:
            sys.stderr.write(f"{line}\n")
            last = line


if __name__ == "__main__":
    sys.exit(main())
