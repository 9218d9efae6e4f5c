"""A Spark cluster as its operators start one: a master, two workers, each a process of its own, on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pyspark

from tests.jvm import EXECUTORS
from tests.system.daemon import ROOT, free_port
from tests.system.process import Process

SPARK_HOME: Final = Path(pyspark.__file__).parent
PATIENCE: Final = 120.0  # seconds; Spark takes fifteen on a quiet machine
LOG4J: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n%ex
"""


class Cluster:
    """`here` gets everything that Spark writes: `logs`, `work`, `events`.
    `python_path`: what executors find by it."""

    def __init__(self, here: Path, python_path: str = str(ROOT)) -> None:
        self.here = here
        self._python_path = python_path
        self.logs, self.work, self.events = here / "logs", here / "work", here / "events"
        for directory in (self.logs, self.work, self.events):
            directory.mkdir(parents=True)
        self._conf = here / "conf"
        self._conf.mkdir()
        (self._conf / "log4j2.properties").write_text(LOG4J)
        self.port, self.ui, self.app_ui = free_port(), free_port(), free_port()
        self._processes: list[Process] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, workers: int = 2) -> None:
        deploy = "org.apache.spark.deploy"
        ports = ["--port", str(self.port), "--webui-port", str(self.ui)]
        self._run("master", f"{deploy}.master.Master", "--host", "127.0.0.1", *ports)
        self._wait(lambda: self._alive() == 0)
        for number in range(workers):
            size = ["--cores", "1", "--memory", "1g", "--webui-port", str(free_port())]
            self._run(
                f"worker{number}",
                f"{deploy}.worker.Worker",
                *("--host", "127.0.0.1", *size, "--work-dir", str(self.work / str(number)), self.url),
            )
        self._wait(lambda: self._alive() == workers)

    def submit(self, job: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        settings = {
            "spark.ui.port": str(self.app_ui),
            "spark.driver.host": "127.0.0.1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.executor.memory": "512m",
            **EXECUTORS,
            "spark.sql.shuffle.partitions": "2",
        }
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, *conf, str(job), *arguments]
        return self._popen("driver", command, environment).process

    def executors(self) -> list[dict[str, Any]]:
        """As the running application's own pages have them; the driver is none."""
        (app,) = self.api("")
        return [one for one in self.api(f"/{app['id']}/allexecutors") if one["id"] != "driver"]

    def api(self, path: str) -> Any:
        return json.loads(self.page(f"/api/v1/applications{path}"))

    def page(self, path: str) -> bytes:
        with urlopen(f"http://127.0.0.1:{self.app_ui}{path}", timeout=PATIENCE) as answer:
            return bytes(answer.read())

    def kill_executor(self, number: str) -> None:
        """The JVM; its Python workers end with it."""
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                ours = str(self.work) in os.readlink(entry / "cwd")
                if ours and "--executor-id" in words and words[words.index("--executor-id") + 1] == number:
                    os.kill(int(entry.name), signal.SIGKILL)
                    return
        raise AssertionError(f"no process of executor {number}")

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()

    def _alive(self) -> int:
        with urlopen(f"http://127.0.0.1:{self.ui}/json/", timeout=PATIENCE) as answer:
            return int(json.load(answer)["aliveworkers"])

    def _wait(self, there: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError, ValueError):  # not there, or there and not ready to say so
                if there():
                    return
            assert time.monotonic() < deadline, f"Spark did not start: see {self.logs}"
            time.sleep(0.1)

    def _run(self, name: str, *words: str) -> None:
        self._popen(name, [str(SPARK_HOME / "bin" / "spark-class"), *words], {})

    def _popen(self, name: str, command: list[str], environment: dict[str, str]) -> Process:
        spark = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(self._conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": self._python_path,
        }
        with (self.logs / f"{name}.out").open("wb") as out, (self.logs / f"{name}.err").open("wb") as err:
            process = Process(command, cwd=self.here, environment=spark | environment, stdout=out, stderr=err)
        self._processes.append(process)
        return process


@contextmanager
def cluster_in(here: Path, python_path: str = str(ROOT)) -> Iterator[Cluster]:
    cluster = Cluster(here, python_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
