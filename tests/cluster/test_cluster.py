import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.cluster.cluster import PATIENCE, Cluster, cluster_in
from tests.exactly_once.points import Files
from tests.pyspark_walflow.lake import Lake, numbered
from tests.pyspark_walflow.logs import Given
from tests.system.certificates import Authority

JOB = Path(__file__).with_name("job.py")
EVENTS = 400_000
ROWS = 50_000  # a batch
PAGES = ("/jobs/", "/stages/", "/environment/", "/executors/", "/SQL/", "/StreamingQuery/")
HREF = re.compile(rb'href="(/[^"#]*)"')


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_cluster_reads_in_parallel_over_tls_and_loses_an_executor_but_no_event(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.issue("server", "127.0.0.1")
    given = [Given(tuple(line.encode() for line in numbered(1000, first))) for first in range(0, EVENTS, 1000)]
    config = f'"tls": {{"cert": "{tls["cert"]}", "key": "{tls["key"]}"}}'
    with Lake(tmp_path, given, config) as lake, cluster_in(tmp_path / "spark") as cluster:
        token_file = lake.state / "token"
        arguments = [str(lake.port), authority.file, str(tmp_path), str(ROWS)]
        driver = cluster.submit(JOB, *arguments, WALFLOW_TOKEN_FILE=str(token_file))
        kill_one_that_works(cluster, Files(tmp_path), driver)
        wait_for(tmp_path / "look", driver, cluster)

        rows, distinct, first, last, positions, parts = json.loads((tmp_path / "found.json").read_text())
        assert (rows, distinct, first, last, positions) == (EVENTS, EVENTS, 0, EVENTS - 1, EVENTS)
        assert parts == 4
        executors = cluster.executors()
        assert sum(not one["isActive"] for one in executors) == 1
        assert sum(one["completedTasks"] > 0 for one in executors) >= 2
        look_for(token_file.read_text().strip(), cluster, tmp_path)
        (tmp_path / "looked").touch()
        assert driver.wait(PATIENCE) == 0


def kill_one_that_works(cluster: Cluster, files: Files, driver: "subprocess.Popen[bytes]") -> None:
    """An executor that has a task of a batch that is planned and not finished."""
    deadline = time.monotonic() + PATIENCE
    while True:
        assert driver.poll() is None, (cluster.logs / "driver.err").read_text()[-4000:]
        assert time.monotonic() < deadline, "no executor was ever at work"
        if files.planned > max(files.finished, 0):
            working = [one["id"] for one in cluster.executors() if one["activeTasks"]]
            if working:
                cluster.kill_executor(working[0])
                return
        time.sleep(0.01)


def wait_for(path: Path, driver: "subprocess.Popen[bytes]", cluster: Cluster) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert driver.poll() is None, (cluster.logs / "driver.err").read_text()[-4000:]
        assert time.monotonic() < deadline, f"{path.name} did not come"
        time.sleep(0.05)


def look_for(token: str, cluster: Cluster, here: Path) -> None:
    """In whatever Spark wrote or shows."""
    secret = token.encode()
    assert len(secret) >= 32
    files = [path for top in (cluster.here, here / "checkpoint", here / "plan.txt") for path in every_file(top)]
    assert {"driver.err", "master.err", "plan.txt", "stderr"} <= {path.name for path in files}
    assert "walflow" in (here / "plan.txt").read_text()
    for file in files:
        assert secret not in file.read_bytes(), file
    (app,) = cluster.api("")
    told = f"/api/v1/applications/{app['id']}"
    seen = {path: cluster.page(told + path) for path in ("/sql?details=true&planDescription=true", "/environment")}
    assert b"walflow" in seen["/sql?details=true&planDescription=true"]
    waiting = [*PAGES, *(f"/SQL/execution/?id={number}" for number in range(3))]
    while waiting:
        path = waiting.pop()
        if path not in seen and len(seen) < 60 and "/static/" not in path and "kill" not in path:
            seen[path] = cluster.page(path)
            waiting += [link.decode().replace("&amp;", "&") for link in HREF.findall(seen[path])]
    assert all(b"cluster" in seen[path] for path in PAGES)  # the name of the application
    for path, page in seen.items():
        assert secret not in page, path


def every_file(top: Path) -> list[Path]:
    return [top] if top.is_file() else [path for path in top.rglob("*") if path.is_file()]
