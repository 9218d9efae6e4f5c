"""Whatever is wrong: one clear line, which the user sees before anything else, and an end to it."""

import http.server
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import Options
from pyspark_walflow.reader import BatchReader
from pyspark_walflow.requirement import require
from tests.pyspark_walflow.conftest import ROOT, NewLake
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.logs import Given
from tests.pyspark_walflow.queries import batch, failure, first_line, into_memory, into_nothing, stream
from tests.system.daemon import free_port


@contextmanager
def http_server() -> Iterator[int]:
    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def hanging_up() -> Iterator[int]:
    """Whoever comes is sent away at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                server.accept()[0].close()

        thread = threading.Thread(target=serve)
        thread.start()
        port = int(server.getsockname()[1])
        try:
            yield port
        finally:
            ended.set()
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


@pytest.mark.spark
def test_a_stream_says_what_is_wrong(spark: SparkSession, new_lake: NewLake, tmp_path: Path) -> None:
    """One query after the other, for a daemon and a Spark cost most of the time."""
    lake, other = new_lake(), new_lake()
    wrong = tmp_path / "wrong"
    wrong.write_text("nobody's token")
    lake.send(*numbered(10))
    other.send(*numbered(10))
    nobody = str(free_port())
    lake.commit(5, "spark", "other")
    with http_server() as web:
        for options, line in (
            (
                {},
                (
                    f"127.0.0.1:{lake.port}: consumer 'spark' belongs to another checkpoint, "
                    "which committed all below 5 at "
                ),
            ),
            (
                {"port": nobody, "retrySeconds": "1"},
                f"no walflow listens at 127.0.0.1:{nobody}: is the daemon running",
            ),
            ({"port": str(web)}, f"127.0.0.1:{web} is no walflow bridge: it answered "),
            ({"tokenFile": str(wrong)}, f"127.0.0.1:{lake.port} does not accept the token: "),
            ({"tokenFile": "/no/such"}, "the token file /no/such (option tokenFile) cannot be read: No such file"),
            (
                {"consumer": "nobody"},
                f"127.0.0.1:{lake.port}: no consumer 'nobody' is declared in the flow; declared: spark",
            ),
            ({"startingPosition": "3", "newCheckpoint": "accept"}, f"127.0.0.1:{lake.port}: position 3 is gone"),
        ):
            with into_memory(stream(spark, lake, **options)) as query:
                said = failure(query)
            assert said.startswith(line), said
    assert "other" in said, "who committed it"
    accepting = stream(spark, lake, newCheckpoint="accept")
    with into_nothing(accepting, tmp_path / "checkpoint") as query:
        query.processAllAvailable()
        with into_memory(accepting) as second:
            said = failure(second)
    process = r"127.0.0.1:\d+ \(process \d+ of driver (\d+) on \S+\)"
    both = re.match(
        rf"127.0.0.1:{lake.port}: consumer 'spark' is read by {process} since \S+, and {process} asks", said
    )
    assert both is not None, said
    assert both[1] == both[2], "two queries of one driver"
    with into_nothing(stream(spark, other), tmp_path / "checkpoint") as query:
        said = failure(query)
    assert said.startswith("this query reads log ")
    assert f"at 127.0.0.1:{other.port} there is log " in said


@pytest.mark.spark
def test_an_event_that_is_not_text_is_named_by_spark(spark: SparkSession, new_lake: NewLake) -> None:
    lake = new_lake([Given([b"fine", b"\xff"])])
    with into_memory(stream(spark, lake)) as query:
        assert failure(query).startswith(
            "the event at position 2 is not UTF-8, from its byte 0 on: read such a log with"
        )
    assert [bytes(row.value) for row in batch(spark, lake, value="binary").collect()] == [b"fine", b"\xff"]


@pytest.mark.spark
def test_options_are_refused_before_anything_is_read(spark: SparkSession, lake: Lake) -> None:
    for options, line in (
        ({"maxRowPerBatch": "1"}, "there is no option maxrowperbatch: do you mean maxRowsPerBatch?"),
        (
            {"startingPosition": "first"},
            "option startingPosition is 'first': it takes committed, earliest, latest or a position",
        ),
        ({"token": "hunter2"}, "a token is never a plain option"),
    ):
        for load in (batch, stream):
            with pytest.raises(PySparkException) as raised:
                load(spark, lake, **options)
            assert first_line(raised.value).startswith(line)
    with pytest.raises(PySparkException) as raised:
        spark.read.format("walflow").schema("id INT").options(**lake.options).load().count()
    assert first_line(raised.value).startswith("the schema is always (position long, ")


@pytest.mark.test
def test_what_hangs_up_is_not_asked_for_ever(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a token")
    with hanging_up() as port:
        options = Options.of({"port": str(port), "retrySeconds": "1", "tokenFile": str(token)})
        with pytest.raises(WalflowError, match=r"closed the connection before it said who it is; does it want TLS\?"):
            BatchReader(options).partitions()


@pytest.mark.parametrize("version", ["3.4.4", "3.5.1", "3.5.0.dev0"])
def test_a_spark_that_is_too_old(version: str) -> None:
    with pytest.raises(WalflowError, match=rf"^Spark {version} is too old: Spark 4.0 or newer is needed$"):
        require(version)


@pytest.mark.test
@pytest.mark.parametrize("version", ["3.4.4", "3.5.6"])
def test_a_pipeline_over_data_of_a_spark_that_is_too_old(tmp_path: Path, version: str) -> None:
    """It is refused where it is called. Spark itself would end in a traceback on an executor."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    script = "from pyspark_walflow import pipeline\npipeline('flow.troy', 'main')\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        f"walflow.WalflowError: Spark {version} is too old: Spark 4.0 or newer is needed"
    )


@pytest.mark.parametrize("version", ["4.0.0", "4.1.0.dev0", "4.3.0", "5.0.0", "4.10.0rc1"])
def test_a_spark_that_will_do(version: str) -> None:
    require(version)


@pytest.mark.spark
def test_a_python_without_pyarrow(tmp_path: Path) -> None:
    package = tmp_path / "pyarrow"
    package.mkdir()
    (package / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'pyarrow'\", name='pyarrow')\n")
    script = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "try: spark.read.format('walflow').load()\n"
        "except Exception as error: print(str(error).splitlines()[0])\n"
        "spark.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert "walflow.error: Spark's Python has no pyarrow (No module named 'pyarrow'): install it there" in done.stdout
