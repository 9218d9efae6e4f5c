"""flows/spark/hosts.troy as it ships: lines in by TCP, counts per host and window in a file, whatever is killed."""

import json
import os
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.flows.builder import ANY_PORT, flow_of, lines_in, lines_out, plain
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import Client, running
from tests.system.hosts import (
    BATCH,
    batches,
    driver_of,
    expected,
    flow,
    gone,
    lines,
    logged,
    ready,
    said,
    send,
    until,
    wait_gone,
    written,
)
from tests.system.process import session_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

JOB = """
from beside import FACTOR
from pyspark.sql import functions as F


def pipeline(spark, stream):
    @F.udf("long")
    def scaled(number):
        return number * FACTOR

    print("job at work")
    numbers = stream.select(F.from_json("value", "n long").alias("e")).select("e.n")
    return numbers.select("n", scaled("n").alias("scaled"))
"""
JOB_FLOW = flow_of(
    "lines -> spark -> file",
    lines=lines_in("tcp_server", url=ANY_PORT),
    spark=plain("spark", path="state", url=ANY_PORT, job="job.py"),
    file=lines_out("file", path="out", mode="append"),
)


def test_a_job_with_functions_of_its_own_and_a_module_beside_it(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "beside.py").write_text("FACTOR = 3\n")
    file = tmp_path / "main.troy"
    file.write_text(JOB_FLOW)
    out = tmp_path / "out"
    with running(file, tmp_path) as daemon:
        client = Client(ready(daemon))
        client.send(b"".join(b'{"n": %d}\n' % number for number in range(100)))
        until(lambda: out.exists() and out.read_bytes().count(b"\n") == 100, daemon)
        (session,) = said(daemon, "spark session")
        assert str(session["page"]).startswith("http://127.0.0.1:")
        assert b"Spark Jobs" in urllib.request.urlopen(f"{session['page']}/jobs/", timeout=100).read()
        client.send(b'{"n": null}\n')
        client.close()
        until(lambda: said(daemon, "spark failed"), daemon)
        assert str(said(daemon, "spark failed")[0]["error"]).startswith("TypeError at job.py:9; ")
        assert "job at work" in [line.get("line") for line in daemon.lines]
        assert daemon.terminate() == 0
    rows = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert {row["n"]: row["scaled"] for row in rows} == {number: number * 3 for number in range(100)}


def test_each_window_once_and_right_across_kills_of_spark_and_of_the_daemon(tmp_path: Path) -> None:
    file = flow(tmp_path)
    all_lines = lines(0, 2_400)
    with running(file, tmp_path, "--log-level", "debug", admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        port = ready(daemon)
        send(port, all_lines[:1_200])
        until(lambda: batches(daemon), daemon)

        first = driver_of(daemon)
        (java,) = [pid for pid, name in session_of(first).items() if name == "java"]
        os.kill(java, signal.SIGKILL)
        until(lambda: said(daemon, "spark failed"), daemon)
        assert gone(first)
        assert admin.metrics()["walflow_component_spark_restarts_total", "counts"] == 1

        send(port, all_lines[1_200:])
        until(lambda: logged(admin) == len(all_lines), daemon)
        before = batches(daemon)
        until(lambda: batches(daemon) > before, daemon)
        second = driver_of(daemon)
        daemon.kill()
        wait_gone(second)
    assert len(said(daemon, "spark batch")) < len(all_lines) // BATCH, "the kill came too late to be in the middle"

    with running(file, tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        port = ready(daemon)
        until(lambda: len(written(tmp_path)) >= len(expected(all_lines[:2_000])), daemon)
        send(port, [("h0", 3), ("h1", 4), ("h0", 3_600)])  # two late ones, and one that closes all windows
        until(lambda: len(written(tmp_path)) >= len(expected(all_lines)), daemon)
        until(lambda: admin.metrics()["walflow_component_spark_late_rows_total", "counts"] >= 1, daemon)
        until(lambda: admin.metrics()["walflow_component_spark_lag_events", "counts"] == 0, daemon)
        until(lambda: admin.metrics()["walflow_component_spark_state_rows", "counts"] == 1, daemon)

        driver = driver_of(daemon)
        assert daemon.terminate() == 0
        assert gone(driver)
    assert not any("Traceback" in line or "\tat " in line for line in daemon.raw)

    rows = written(tmp_path)
    assert len(rows) == len(dict(rows)), "a window came twice"
    assert dict(rows) == expected(all_lines)
