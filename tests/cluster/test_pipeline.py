"""flows/spark/hosts.troy with a cluster as its `master`: nothing else of it changes."""

import json
import sys
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, cluster_in
from tests.exactly_once.points import Files
from tests.jvm import EXECUTORS
from tests.system.admin import LOOPBACK, Admin
from tests.system.certificates import Authority
from tests.system.daemon import running
from tests.system.hosts import expected, flow, lines, logged, ready, send, until, written

LINES = 4_000


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_same_flow_on_a_cluster_that_loses_an_executor(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with cluster_in(tmp_path / "spark") as cluster:
        file = flow(tmp_path, on(cluster, authority))
        state = tmp_path / "hosts_state"
        given = lines(0, LINES)
        with running(file, tmp_path, admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            port = ready(daemon)
            send(port, given)
            until(lambda: logged(admin) == LINES, daemon)
            files = Files(tmp_path, state / "checkpoint")
            until(lambda: files.planned > max(files.finished, 0), daemon)
            cluster.kill_executor("0")
            send(port, [("h0", 3_600)])
            until(lambda: len(written(tmp_path)) >= len(expected(given)), daemon)
            assert daemon.terminate() == 0
        token = (state / "token").read_bytes().strip()
        assert not [path for path in cluster.here.rglob("*") if path.is_file() and token in path.read_bytes()]
    rows = written(tmp_path)
    assert len(rows) == len(dict(rows)), "a window came twice"
    assert dict(rows) == expected(given)


def on(cluster: Cluster, authority: Authority) -> str:
    tls = authority.issue("server", "127.0.0.1")
    config = {
        "master": cluster.url,
        "tls": tls,
        "options": {"cafile": authority.file, "numPartitions": "2"},
        "conf": {
            **EXECUTORS,
            "spark.pyspark.python": sys.executable,
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(cluster.app_ui),
        },
    }
    return "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in config.items())
