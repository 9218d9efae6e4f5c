"""A pipeline on Spark, kept running: a driver process of its own, started again when it dies.

The daemon never holds a JVM. What the process is told and what it tells is `pyspark_walflow.driver`'s; here its
lines become log lines and metrics, and its end becomes a restart, or the end of the daemon where its flow file is
what is wrong.
"""

import asyncio
import os
import sys
import zipfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple, cast

from connectors.spark.config import SparkConfig
from connectors.spark.job.driver_log import DriverLine, DriverLog
from connectors.spark.job.process import Process, spawn
from walflow import Half, Misconfigured
from walflow.net import Address, Retry
from walflow.world import monotonic

RETRY: Final = Retry(interval_ms=1_000, growth_rate=2)
LAST_LINES: Final = 1.0  # seconds for what it printed before it ended
BATCH_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
NO_JVM: Final = "JAVA_GATEWAY_EXITED"
MODULE: Final = "pyspark_walflow"
KERNEL: Final = "walflow_kernel"  # what compiled pipelines call
# What Spark, Java, Hadoop and Python read for themselves; secrets of the daemon's have other names, and stay with it.
PASSED: Final = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "LD_LIBRARY_PATH",
    "HOSTNAME",
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "SPARK_*",
    "PYSPARK_*",
    "HADOOP_*",
    "YARN_*",
    "HIVE_*",
    "KRB5*",
    "PYTHON*",
    "ARROW_*",
    "VIRTUAL_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
]


class DriverEnd(NamedTuple):
    """How a driver ended. `lasting`: another driver would end the same way."""

    message: str
    hint: str = ""
    excerpt: tuple[str, ...] = ()
    lasting: bool = False


class Driver:
    """`out`: the outlet for results, if it is linked. `address`: the bridge's address."""

    def __init__(self, config: SparkConfig, out: Half, address: Address, token_file: str, log: str) -> None:
        self._config = config
        self._out = out
        self._address = address
        self._token_file = token_file
        self._scratch = Path(config.path, "spark").absolute()
        self._log = out.log.bind(pipeline=config.job or ("query" if config.query else "compiled"))
        self._backoff = RETRY.backoff()
        self._measures = Measures(out)
        self._began = monotonic()
        self._end = ""  # how the driver before ended
        self._ran = False  # a batch was done: the flow file is sound

    async def run(self) -> None:
        """Runs until it is cancelled. Then the running batch may end within its grace time."""
        if self._config.query is not None and not self._out.linked:
            self._out.fatal(
                Misconfigured(
                    f"{self._out.name}: its `query` gives rows and nothing is linked to its `out`: link it, or use a "
                    "`job` that writes them itself"
                )
            )
        self._out.explain(self._starting)
        while True:
            self._began = monotonic()
            outcome = await self._once()
            self._measures.running = 0
            self._tell(outcome)
            self._end = outcome.message
            wait = self._backoff.next()
            self._log.info("spark starts again", seconds=round(wait, 2))
            self._measures.restarts.value += 1
            await asyncio.sleep(wait)

    def _starting(self) -> str:
        if self._measures.running:
            return ""
        again = f" again: {self._end}" if self._end else ""
        return f"Spark starts, {monotonic() - self._began:.0f} s{again}"

    async def _once(self) -> DriverEnd:
        try:
            plan = make_plan(self._config, self._out, self._address, self._scratch)
            environment = {**environment_of(self._config, plan), "WALFLOW_TOKEN_FILE": self._find_token()}
            process = await spawn(command(self._config), plan, environment, self._config.stop_grace / 1e9)
        except OSError as error:
            return unstartable(self._config, error)
        self._log.info("spark starting", pid=process.pid)
        driver_log = DriverLog()
        # a task group would be cancelled with the block, and the lines of a stop are worth reading
        readers = [
            asyncio.ensure_future(process.lines("stderr", lambda line: self._print(driver_log.feed(line)))),
            asyncio.ensure_future(process.lines("stdout", lambda line: self._print(DriverLine("info", line)))),
        ]
        try:
            async with process:
                try:
                    outcome = await self._follow(process)
                except asyncio.CancelledError:
                    driver_log.stopping = True
                    raise
        finally:
            await asyncio.wait(readers, timeout=LAST_LINES)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        return explained(outcome, driver_log) or DriverEnd(_death(await process.wait(), driver_log.decisive))

    def _find_token(self) -> str:
        """Finds the token's file, which the driver reads: no environment and no command line contains the token
        itself."""
        if self._token_file or self._config.token is None:
            return os.path.abspath(self._token_file)
        copy = self._scratch / "token"
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self._config.token.read().get_secret_value())
        return str(copy)

    async def _follow(self, process: Process) -> DriverEnd | None:
        """How the driver reported its end; None: it did not."""
        outcome = None
        async for report in process.reports():
            match report.pop("event", None):
                case "session":
                    self._log.info("spark session", **report)
                case "running":
                    self._measures.begin()
                    self._log.info("spark running", **report)
                case "batch":
                    self._ran = True
                    self._backoff.reset()
                    self._measures.batch(report)
                    self._log.debug("spark batch", **report)
                case "ended":
                    outcome = DriverEnd("the pipeline ended by itself")
                case "failed" | "refused" as event:
                    self._log.debug("spark says", text=report["text"])
                    outcome = outcome_of(report, lasting=event == "refused")
                case _:
                    pass
        return outcome

    def _print(self, line: DriverLine) -> None:
        getattr(self._log, line.level)("spark", line=line.text)

    def _tell(self, outcome: DriverEnd) -> None:
        """Handles the end of a driver. If its pipeline never ran, the flow file has a mistake; if it has run, it may
        run again."""
        for line in outcome.excerpt:
            self._log.error(f"| {line}")
        if outcome.lasting and not self._ran:
            self._out.fatal(Misconfigured(f"{self._out.name}: {said(outcome)}"))
        self._log.error("spark failed", error=outcome.message, **({"hint": outcome.hint} if outcome.hint else {}))


class Measures:
    def __init__(self, half: Half) -> None:
        self.running = 0
        self.restarts = half.counter("spark_restarts_total")
        self._rows = half.counter("spark_input_rows_total")
        self._late = half.counter("spark_late_rows_total")
        self._seconds = half.histogram("spark_batch_seconds", BATCH_SECONDS)
        self._last: dict[str, Mapping[str, object]] = {}  # of each query
        half.gauge("spark_running", lambda: self.running)
        half.gauge("spark_state_rows", self._state_rows)
        half.gauge("spark_input_rows_per_second", self._pace)

    def begin(self) -> None:
        self.running = 1
        self._last.clear()

    def batch(self, batch: Mapping[str, object]) -> None:
        self._rows.value += int(_number(batch, "rows"))
        self._late.value += int(_number(batch, "late_rows"))
        self._seconds.observe(_number(batch, "seconds"))
        self._last[str(batch.get("query"))] = batch

    def _state_rows(self) -> float:
        return sum(_number(last, "state_rows") for last in self._last.values())

    def _pace(self) -> float:
        return sum(_number(last, "rows") / max(_number(last, "seconds"), 1e-3) for last in self._last.values())


def make_plan(config: SparkConfig, half: Half | None, address: Address, scratch: Path) -> dict[str, object]:
    """The plan for the driver: `pyspark_walflow.query.Plan`, except the address that it reports to.
    Raises OSError."""
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    options = {
        "host": _reachable(address, config.master),
        "port": str(address.port),
        "consumer": config.declared[0] if config.declared else "spark",
        "maxRowsPerBatch": str(config.max_rows_per_batch),
        "maxBytesPerBatch": str(config.max_bytes_per_batch),
    }
    if config.tls is not None:
        options["tls"] = "true"
    if config.pipeline is not None:
        options["metadata"] = "true"
    if config.job is None:  # its one output knows batches by the checkpoint too; what a job writes to does not
        options["newCheckpoint"] = "accept"
    return {
        "name": half.name if half else "check",
        "query": config.query,
        "job": config.job,
        "pipeline": config.pipeline,
        "output_mode": config.output_mode,
        "master": config.master,
        "conf": config.conf,
        "checkpoint": os.path.abspath(config.checkpoint or Path(config.path, "checkpoint")),
        "trigger_ms": None if config.trigger_interval is None else max(1, config.trigger_interval // 1_000_000),
        "options": options | config.options,
        "results": half is not None and half.linked,
        "scratch": str(scratch),
        "package": str(pack(scratch)),
    }


def pack(directory: Path) -> Path:
    """This package and the kernel as a zip, without others: another interpreter must not find our other libraries."""
    archive = directory / f"{MODULE}.zip"
    new = archive.with_suffix(".new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in (MODULE, KERNEL):
            _pack(packed, files(package), package)
    return new.replace(archive)


def _pack(packed: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            packed.writestr(f"{name}/{entry.name}", entry.read_bytes())
        elif entry.is_dir() and entry.joinpath("__init__.py").is_file():
            _pack(packed, entry, f"{name}/{entry.name}")


def command(config: SparkConfig) -> list[str]:
    return [config.python or sys.executable, "-m", f"{MODULE}.driver"]


def environment_of(config: SparkConfig, plan: Mapping[str, object]) -> dict[str, str]:
    """The driver's environment: the variables that it needs and those that the flow names, never the token, because
    the JVM and its workers can read all of it."""
    already = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(plan["package"]), *([already] if already else [])])
    passed = [*PASSED, *config.environment]
    token = config.token.env if config.token is not None else None
    taken = {
        name: value
        for name, value in os.environ.items()
        if name != token and any(fnmatchcase(name, pattern) for pattern in passed)
    }
    return {**taken, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def said(outcome: DriverEnd) -> str:
    return f"{outcome.message.rstrip('.')}: {outcome.hint}" if outcome.hint else outcome.message


def outcome_of(report: Mapping[str, object], *, lasting: bool) -> DriverEnd:
    excerpt = cast("list[str]", report.get("excerpt") or [])
    return DriverEnd(str(report["message"]), str(report.get("hint") or ""), tuple(excerpt), lasting)


def explained(outcome: DriverEnd | None, driver_log: DriverLog) -> DriverEnd | None:
    """PySpark knows of a JVM that did not start only that it did not; the reason is what it printed."""
    if outcome is None or NO_JVM not in outcome.message or not driver_log.unlaunched:
        return outcome
    hint = "it stands in `conf` or `master` of the connector, or in Spark's own spark-defaults.conf"
    return DriverEnd(f"Spark's JVM does not start: {driver_log.unlaunched}", hint, lasting=True)


def unstartable(config: SparkConfig, error: OSError) -> DriverEnd:
    interpreter = command(config)[0]
    if isinstance(error, FileNotFoundError | PermissionError) and error.filename in (None, interpreter):
        return DriverEnd(f"python = {interpreter!r} cannot be run: {error.strerror}", lasting=True)
    return DriverEnd(f"the driver cannot be started: {error}")


def _death(code: int, decisive: str) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the driver {how}{': ' if decisive else ''}{decisive}"


def _reachable(address: Address, master: str | None) -> str:
    """An address to connect to, in the place of a wildcard."""
    if address.host not in ("0.0.0.0", "::"):
        return address.host
    local = master is None or master.startswith("local")
    return "127.0.0.1" if local else os.uname().nodename


def _number(fields: Mapping[str, object], name: str) -> float:
    value = fields.get(name)
    return value if isinstance(value, int | float) else 0.0
