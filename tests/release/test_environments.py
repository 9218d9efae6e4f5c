"""The wheel in environments of its own: with one extra and nothing else, with other Pythons,
with the oldest dependencies."""

import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from release import tree, wheels
from tests.release import pythons, sizes
from tests.system.daemon import ROOT, running

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: Final[list[str]] = sorted(PROJECT["optional-dependencies"])
IN_CI: Final = pytest.mark.skipif(os.environ.get("CI") == "true", reason="it takes minutes, and a build has none")

FLOW: Final = """
define flow main
flow
  use tremor::pipelines;
  define connector ticks from metronome with config = {"interval": 100000000} end;
  define connector nothing from null;
  %s
  create pipeline way from pipelines::passthrough;
  %s
end;
deploy flow main;
"""
TO: Final = """create connector ticks; create connector there;
  connect /connector/ticks to /pipeline/way; connect /pipeline/way to /connector/there;"""
FROM: Final = """create connector here; create connector nothing;
  connect /connector/here to /pipeline/way; connect /pipeline/way to /connector/nothing;"""
OUT: Final = 'define connector there from file with codec = %s, %s config = {"path": "out", "mode": "append"} end;'
AWAY: Final = "127.0.0.1:1"

# What of walflow needs the extra, and starts although no peer is there.
USES: Final = {
    "avro": [
        (OUT % ('{"name": "avro", "config": {"schema": "long"}}', ""), TO),
        (
            (
                f'define connector there from schema_registry with config = {{"url": "http://{AWAY}", "mode": '
                f'"decode"}} end;'
            ),
            TO,
        ),
    ],
    "brotli": [(OUT % ('"json"', 'postprocessors = [{"name": "compress", "config": {"algorithm": "br"}}],'), TO)],
    "snappy": [(OUT % ('"json"', 'postprocessors = [{"name": "compress", "config": {"algorithm": "snappy"}}],'), TO)],
    "dns": [("define connector there from dns_client;", TO)],
    "kafka": [
        (
            (
                f'define connector there from kafka_producer with codec = "json", config = {{"brokers": '
                f'["{AWAY}"], "topic": "t"}} end;'
            ),
            TO,
        ),
        (
            (
                f'define connector here from kafka_consumer with codec = "json", config = {{"brokers": '
                f'["{AWAY}"], "topics": ["t"], "group_id": "g"}} end;'
            ),
            FROM,
        ),
    ],
    "mqtt": [
        (
            (
                f'define connector there from mqtt_publisher with codec = "json", config = {{"url": '
                f'"mqtt://{AWAY}", "topic": "t"}} end;'
            ),
            TO,
        ),
        (
            (
                f'define connector here from mqtt_subscriber with codec = "json", config = {{"url": '
                f'"mqtt://{AWAY}", "topics": ["t"], "client_id": "c"}} end;'
            ),
            FROM,
        ),
    ],
    "postgres": [
        (
            (
                f'define connector there from postgres with config = {{"dsn": "postgresql://u@{AWAY}/d", '
                '"table": "t"} end;'
            ),
            TO,
        )
    ],
    "yaml": [(OUT % ('"yaml"', ""), TO)],
    "hdr": [('define connector here from bench with codec = "json", config = {"path": "events"} end;', FROM)],
    "spark": [('define connector there from spark with config = {"path": "log"} end;', TO)],
}
ELSE: Final = {  # no connector
    "arrow": "import pyarrow, walflow.cli.wal.arrow",
    "legacy": "import ruamel.yaml, walflow.lang.legacy",
    "lsp": "import pygls, walflow.cli.lsp.server",
    "protobuf": "import google.protobuf, walflow.codecs.protobuf",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    made = wheels.build(tree.export(folder / "tree", "0.1.0"), folder)
    return next(path for path in made if path.suffix == ".whl")


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("core") / "venv"
    yield sizes.installed(wheel, place)
    shutil.rmtree(place)


@pytest.fixture
def environment(core: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy: Python finds its packages from where it stands."""
    place = Path(shutil.copytree(core, tmp_path / "venv", symlinks=True))
    yield place
    shutil.rmtree(place)


def _install(place: Path, *what: str) -> None:
    subprocess.run(
        [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *what], check=True, timeout=1200
    )


def test_each_extra_is_used() -> None:
    assert sorted([*USES, *ELSE]) == EXTRAS


def test_without_extras_it_is_small(core: Path, tmp_path: Path) -> None:
    """docs/howto/install.md has both numbers."""
    assert sizes.taken(core, bytecode=False) < 60_000_000
    copy = Path(shutil.copytree(core, tmp_path / "venv", symlinks=True))
    sizes.compiled(copy)
    assert 60_000_000 < sizes.taken(copy, bytecode=True) < 85_000_000
    shutil.rmtree(copy)


@IN_CI
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone(extra: str, environment: Path, wheel: Path, tmp_path: Path) -> None:
    _install(environment, "--no-compile", f"{wheel}[{extra}]")
    python = str(environment / "bin" / "python")
    if extra in ELSE:
        subprocess.run([python, "-c", ELSE[extra]], cwd=tmp_path, check=True, timeout=100)
    for number, (defined, linked) in enumerate(USES.get(extra, [])):
        workdir = tmp_path / str(number)
        workdir.mkdir()
        (workdir / "events").write_text('{"a": 1}\n')
        (workdir / "main.troy").write_text(FLOW % (defined, linked))
        with running(workdir / "main.troy", workdir, command=[python, "-m", "walflow", "run"]) as daemon:
            daemon.wait_for("running")
            assert daemon.terminate() == 0
        assert [line for line in daemon.raw if "needs" in line or "internal error" in line] == []


# hdrhistogram, on Python 3.14
WARNINGS: Final = ("-W", "ignore:Due to '_pack_':DeprecationWarning")
WITHOUT_SPARK: Final = ("tests", "--ignore=tests/cluster", "--ignore=tests/pyspark_walflow")


@IN_CI
@pytest.mark.parametrize(
    ("version", "versions"),
    [("3.11", "lowest-direct"), ("3.11", "highest"), ("3.12", "highest"), ("3.13", "highest"), ("3.14", "highest")],
)
def test_other_versions(version: str, versions: str, tmp_path: Path) -> None:
    """All quick tests with each Python, and with the oldest dependencies that pyproject.toml permits,
    or the newest."""
    short = Path(tempfile.mkdtemp(dir="/var/tmp"))  # the name of a socket has at most 107 characters
    found = pythons.find(version, ROOT, short, tmp_path)
    if found is None:
        pytest.skip(f"there is no Python {version} here")
    place = tmp_path / "venv"
    try:
        found.run(found.python, "-m", "venv", str(place))
        python = str(place / "bin" / "python")
        found.run(python, "-m", "pip", "install", "--quiet", "uv")
        extras = ",".join(extra for extra in EXTRAS if extra != "spark")
        install = [python, "-m", "uv", "pip", "install", "--quiet", "--python", python]
        found.run(*install, "--resolution", versions, f"{ROOT}[{extras}]")
        found.run(*install, "--group", "test")
        options = ["--quiet", "-n", "2", "-p", "no:cacheprovider", *WARNINGS, "--tier", "quick"]
        basetemp = f"--basetemp={short}/t"  # pytest removes it first, and what it stands in is a mount
        found.run(python, "-m", "pytest", *options, basetemp, *WITHOUT_SPARK)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(short, ignore_errors=True)
