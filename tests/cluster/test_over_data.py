"""A pipeline over files on a cluster whose executors have pyspark and its packages, and neither walflow nor msgspec.
What needs a C extension is refused there; with an environment that has it, shipped as an archive, it runs."""

import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.cluster import cluster_in
from tests.jvm import EXECUTORS, SHORT_LIVED, VARIABLES
from tests.pyspark_walflow.clean import borrow_spark, clean_python

pytestmark = pytest.mark.spark

FLOW = """\
define pipeline large
into out, err
pipeline
  select {"id": event.id, "text": "#{event.n}"} from in where event.n >= 10 into out;
end;

define pipeline hosts
into out, err
pipeline
  select event from in where match event of case %{text ~= re|^x|} => true case _ => false end into out;
end;
"""
LINES = 20_000


@pytest.mark.timeout(900)
def test_executors_with_nothing_of_walflow(tmp_path: Path) -> None:
    sparks = tmp_path / "sparks"
    sparks.mkdir()
    python = clean_python(tmp_path / "venv", borrow_spark(sparks))
    (tmp_path / "flow.troy").write_text(FLOW)
    given = tmp_path / "given"
    given.mkdir()
    for part in range(4):
        lines = [json.dumps({"id": number, "n": number / 2, "text": "x"}) for number in range(part, LINES, 4)]
        (given / f"{part}.json").write_text("".join(f"{line}\n" for line in [*lines, "broken"]))
    with cluster_in(tmp_path / "spark", python_path="") as cluster:

        def run(name: str, out: str, **more: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "pyspark_walflow.run", "flow.troy", name, "--read", "json:given"]
            command += ["--write", f"json:{tmp_path / out}", "--master", cluster.url, "--quiet"]
            conf = {
                "spark.pyspark.python": str(python),
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "512m",
                **EXECUTORS,
                **more,
            }
            words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
            return subprocess.run(
                [*command, *words],
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
                env={
                    "PATH": "/usr/bin:/bin",
                    "PYTHONPATH": "",
                    "HOME": str(tmp_path),
                    **dict.fromkeys(VARIABLES, SHORT_LIVED),
                },
                timeout=400,
            )

        done = run("large", "out")
        assert done.returncode == 0, done.stderr
        assert f"4 err, {LINES - 20:,} out; " in done.stderr
        made = [
            json.loads(json.loads(line)["value"])
            for file in (tmp_path / "out").glob("part-*")
            for line in file.read_text().splitlines()
            if json.loads(line)["port"] == "out"
        ]
        assert sorted(one["id"] for one in made) == [*range(20, LINES)]
        assert {one["id"]: one["text"] for one in made}[21] == "10.5"

        refused = run("hosts", "none")
        assert refused.returncode == 65
        [line] = refused.stderr.strip().splitlines()
        assert "pipeline flow::hosts needs google-re2, which the executors' Python does not have" in line
        assert not (tmp_path / "none").exists()

        archive = packed(python, ("msgspec", "re2", "google_re2", "_re2"), tmp_path / "wheels.tar.gz")
        shipped = {"spark.archives": f"{archive}#wheels", "spark.pyspark.python": "./wheels/bin/python"}
        done = run("hosts", "hosts", **shipped)
        assert done.returncode == 0, done.stderr
        assert f"4 err, {LINES:,} out; " in done.stderr


def packed(python: Path, wheels: Sequence[str], archive: Path) -> Path:
    """The environment of this Python, with some of ours packages in it,
    as docs/howto/pipeline-over-old-files.md packs one."""
    environment = python.parents[1]
    (packages,) = environment.glob("lib/python*/site-packages")
    (ours,) = Path(sys.prefix).glob("lib/python*/site-packages")
    for found in ours.iterdir():
        if found.name.partition(".")[0].partition("-")[0] in wheels:
            (packages / found.name).symlink_to(found)
    with tarfile.open(archive, "w:gz", dereference=False) as tar:
        for entry in sorted(environment.rglob("*")):
            inside = entry.relative_to(environment)
            here = entry.is_symlink() and entry.is_relative_to(packages)
            tar.add(entry.resolve() if here else entry, inside, recursive=here)
    return archive
