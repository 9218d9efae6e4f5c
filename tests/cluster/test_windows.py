"""flows/spark/windows.troy with a cluster as its `master`: an executor is killed while windows are open."""

import json
import sys
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, cluster_in
from tests.exactly_once.points import Files
from tests.jvm import EXECUTORS
from tests.system.daemon import running
from tests.system.hosts import until
from tests.system.test_spark_engine import send
from tests.system.test_spark_windows import (
    FLOW,
    ON_SPARK,
    errors,
    flow,
    in_the_daemon,
    lines,
    port,
    requests,
    windows,
)

EVENTS = 2_500


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_windows_come_once_and_right_when_an_executor_is_killed(tmp_path: Path) -> None:
    given = requests(0, EVENTS)
    expected, broken = in_the_daemon(tmp_path / "daemon", given)
    there = tmp_path / "there"
    files = Files(there, there / "spark" / "requests.by_host" / "checkpoint")
    with cluster_in(tmp_path / "spark") as cluster, running(on(cluster, there), there) as daemon:
        send(port(daemon), given)
        until(lambda: files.planned > files.finished >= 0, daemon)  # the state of a batch is in the checkpoint
        cluster.kill_executor("0")
        until(lambda: sum(map(len, windows(there).values())) >= sum(map(len, expected.values())), daemon)
        until(lambda: len(errors(there)) >= len(broken), daemon)
        assert daemon.terminate() == 0
    written = lines(there / "counts.jsonl")
    assert len(written) == len(set(written)), "a window came twice"
    assert windows(there) == expected
    assert errors(there) == broken


def on(cluster: Cluster, directory: Path) -> Path:
    settings = {
        "master": cluster.url,
        "partitions": 2,
        "buckets": 3,
        "max_rows_per_batch": 500,
        "conf": {
            **EXECUTORS,
            "spark.pyspark.python": sys.executable,
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
        },
    }
    first, engine, _ = ON_SPARK.splitlines()
    moved = "\n".join((first, engine, f"    #!config spark = {json.dumps(settings)}", ""))
    return flow(directory, moved=False, text=FLOW.replace(f"{first}\n", moved))
