"""`walflow status` where no daemon answers. With a daemon: tests/system/test_service.py."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from walflow.cli import app


@pytest.mark.parametrize("more", [[], ["--ready"]])
def test_no_daemon_there(more: list[str], tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and it does not listen
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        said = CliRunner().invoke(app(), ["status", "--admin", address, *more])
    where = "name a daemon's own --admin, or set WALFLOW_ADMIN"
    assert said.stderr == f"walflow: no daemon answers at {address}: Connection refused; {where}\n"
    assert said.exit_code == 69
    path = tmp_path / "admin"
    said = CliRunner().invoke(app(), ["status", "--admin", f"unix:{path}", *more])
    assert said.stderr == f"walflow: no daemon answers at unix:{path}: No such file or directory; {where}\n"
