"""Paths that can never work: said by `check` where it can be known,
and by the start with the reason and the remedy."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.namespace import SmallDisk, needs_namespace
from tests.flows.builder import flow_of
from tests.system.daemon import WALFLOW, Daemon
from tests.system.warm import ran

pytestmark = pytest.mark.test

LOG = flow_of(
    "ticks -> log -> null",
    ticks='metronome with config = {"interval": 1000000} end',
    log='wal with config = {"path": "log"} end',
    null="null",
)


def socket_flow(type: str, path: str) -> str:
    sock = f'{type} with codec = "json",\n    config = {{\n      "path": "{path}"\n    }}\n  end'
    return flow_of("sock -> null", sock=sock, null="null")


@pytest.mark.parametrize("type", ["unix_socket_server", "unix_socket_client"])
@pytest.mark.parametrize(("path", "size"), [("/" + "x" * 107, 108), ("/" + "ä" * 54, 109)])
def test_a_socket_path_that_is_too_long_is_an_error_with_its_place(
    tmp_path: Path, type: str, path: str, size: int
) -> None:
    flow = tmp_path / "flow.troy"
    flow.write_text(socket_flow(type, path))
    done = ran([*WALFLOW, "check", "flow.troy"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    message, line, caret, _ = done.stdout.split("\n", 3)
    assert message == f"flow.troy:6:15: error: `path`: a socket's path has 107 bytes at most, and this one has {size}"
    assert line.endswith(f'"path": "{path}"')
    assert "^^^" in caret


def test_the_longest_path_works(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    path += "x" * (107 - len(path.encode()))
    flow = tmp_path / "flow.troy"
    flow.write_text(socket_flow("unix_socket_server", path))
    daemon = Daemon(flow, tmp_path)
    try:
        assert daemon.wait_for("listening")["address"] == path
    finally:
        assert daemon.terminate() == 0


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare here")
def test_a_log_in_a_directory_of_another_user(tmp_path: Path) -> None:
    """In a user namespace without root, rights count even where the tests run as root."""
    flow = tmp_path / "flow.troy"
    flow.write_text(LOG)
    log = tmp_path / "log"
    log.mkdir()
    log.chmod(0o500)
    daemon = Daemon(flow, tmp_path, prefix=["unshare", "--user"])
    said = str(daemon.wait_for("fatal")["error"])
    assert daemon.wait() == 74
    assert said.startswith("log/LOCK: cannot be opened: Permission denied; walflow runs as user ")
    assert "chown -R" in said
    assert "repair" not in said


@needs_namespace
def test_a_log_on_a_file_system_that_is_read_only(tmp_path: Path) -> None:
    flow = tmp_path / "flow.troy"
    flow.write_text(LOG)
    with SmallDisk(tmp_path / "log", "size=1m") as disk:
        subprocess.run([*disk.prefix, "mount", "-o", "remount,ro", str(tmp_path / "log")], check=True)
        daemon = Daemon(flow, tmp_path, prefix=disk.prefix)
        said = str(daemon.wait_for("fatal")["error"])
        assert daemon.wait() == 74
    assert said.startswith(
        "log/LOCK: cannot be opened: Read-only file system; the file system is read-only: mount it"
    )
    assert "repair" not in said


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare here")
def test_looking_at_a_log_that_may_not_be_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    log.chmod(0)
    done = subprocess.run(
        ["unshare", "--user", *WALFLOW, "wal", "stats", str(log)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 74
    assert "cannot be read: Permission denied" in done.stderr
    assert "repair" not in done.stderr
