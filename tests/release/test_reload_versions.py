"""`pip install` of another version below a running daemon, and `walflow reload`: no client at any door notices, but
that of a WebSocket, which is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from release import tree, wheels
from tests.system.daemon import Daemon
from tests.system.test_reload import Reloaded, more
from tests.system.test_reload_kills import Doors, ended_well
from tests.waiting import PATIENCE

CHANGES = 4  # 20 were made by hand
VERSIONS = ("7.8.9", "7.9.0")

pytestmark = pytest.mark.nightly


def built(folder: Path, version: str) -> Path:
    into = folder / version
    into.mkdir()
    return next(
        path for path in wheels.build(tree.export(folder / f"tree-{version}", version), into) if path.suffix == ".whl"
    )


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", *arguments], check=True, timeout=1200)


def ask(walflow: Path, command: str, socket_file: Path, *options: str) -> str:
    asked = [str(walflow), command, "--admin", f"unix:{socket_file}", *options]
    return subprocess.run(asked, check=True, timeout=PATIENCE, capture_output=True, text=True).stdout


def test_clients_do_not_notice_that_the_version_changes(tmp_path: Path) -> None:
    made = [built(tmp_path, version) for version in VERSIONS]
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=300)
    python, walflow = environment / "bin/python", environment / "bin/walflow"
    pip(python, str(made[0]))
    clients, flow, socket_file = Doors(tmp_path), tmp_path / "main.troy", tmp_path / "admin.sock"
    flow.write_text(clients.flow())
    there = {"PYTHONPATH": ""}  # not this checkout
    daemon = Daemon(flow, tmp_path, command=[str(walflow), "run"], admin=f"unix:{socket_file}", environment=there)
    try:
        reloaded = Reloaded(daemon, flow, socket_file)
        daemon.wait_for("ready")
        clients.begin()
        for number in range(1, CHANGES + 1):
            more(clients.counts)
            pip(python, "--force-reinstall", "--no-deps", str(made[number % 2]))
            pid = reloaded.pid()
            ask(walflow, "reload", socket_file, "--watch", "100ms")
            status = json.loads(ask(walflow, "status", socket_file, "--json"))
            assert (status["version"], status["pid"] == pid) == (VERSIONS[number % 2], False)
        ended_well(clients, reloaded, tmp_path, CHANGES)
    finally:
        clients.enough.set()
        daemon.kill()
