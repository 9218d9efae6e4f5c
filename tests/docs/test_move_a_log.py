"""docs/howto/move-a-log.md, typed as it stands: with other directories, and with a daemon in the place of the
service."""

import re
import subprocess
import sys
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from typer.testing import CliRunner

from tests.system.daemon import ROOT, free_port, running
from tests.waiting import wait_until
from walflow.cli import app

PAGE = ROOT / "docs" / "howto" / "move-a-log.md"
NOT_YET_THERE = '"out.jsonl"', '"gone/out.jsonl"'  # so the log keeps what comes


def test_the_log_goes_on_where_it_stands_now(tmp_path: Path) -> None:
    assert CliRunner().invoke(app(), ["new", str(tmp_path), "-t", "http"]).exit_code == 0
    port = free_port()
    flow = tmp_path / "main.troy"
    text = flow.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    flow.write_text(text.replace(*NOT_YET_THERE))
    (tmp_path / "fast").mkdir()
    with running(flow, tmp_path, "--drain-seconds", "0.1") as daemon:
        daemon.wait_for("listening")
        for number in range(3):
            post(port, number)
        assert daemon.terminate() == 0

    flow.write_text(text.replace('dir = "state"', f'dir = "{tmp_path}/fast/state"'))
    typed = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    stop, *commands, start, delete = typed
    assert (stop, start) == ("systemctl stop walflow", "systemctl start walflow")
    for command in commands:
        type_in(command, tmp_path)
    assert not (tmp_path / "state").exists()
    for numbers in ([0, 1, 2], [0, 1, 2, 3]):
        with running(flow, tmp_path) as daemon:
            daemon.wait_for("ready")
            if len(numbers) == 4:
                post(port, 3)
            wait_until(partial(is_written, tmp_path, [b"%d" % number for number in numbers]))
            assert daemon.terminate() == 0
    type_in(delete, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["fast"]


def post(port: int, number: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=100)
    connection.request("POST", "/", b"%d" % number)
    assert connection.getresponse().status == 200, "it is in the log, on disk"
    connection.close()


def is_written(folder: Path, lines: list[bytes]) -> bool:
    out = folder / "out.jsonl"
    return out.exists() and out.read_bytes().split() == lines


def type_in(command: str, folder: Path) -> None:
    command = command.replace("/var/lib/walflow", str(folder)).replace("/mnt", str(folder))
    command = re.sub(r"^walflow ", f"{sys.executable} -m walflow ", command)
    ran = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
