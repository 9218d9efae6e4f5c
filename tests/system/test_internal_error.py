"""A bug costs what it belongs to, and is said: a connector is run anew and gets its events again; the runtime's own ends
the process."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.builder import lines_out
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import ROOT, Client, echo_flow, running
from tests.waiting import PATIENCE, wait_until


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("where", ["accept", "later", "reopen"])
def test_a_connector_that_raises_is_run_anew(tmp_path: Path, where: str, loop: str) -> None:
    file = tmp_path / "buggy.log"
    flow = echo_flow(tmp_path, buggy=lines_out("tests.system.buggy:Buggy", path=str(file), raises=where))
    with running(flow, tmp_path, "--loop", loop, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        client = Client(daemon.port())
        client.send(b'1\n"boom"\n2\n')
        if where == "reopen":
            wait_until(file.exists)
            daemon.process.send_signal(signal.SIGHUP)
        said = daemon.wait_for("internal error")
        assert (said["component"], said["error"]) == ("buggy", "ValueError: a bug")
        assert str(said["at"]).startswith("raise_once, buggy.py:")
        assert daemon.wait_for("connector failed")["error"] == "ValueError: a bug"
        wait_until(lambda: file.exists() and file.read_bytes().startswith(b'1\n"boom"\n2\n'))
        assert client.lines(3) == [b"1", b'"boom"', b"2"]
        admin.until(lambda asked: asked.get("/readyz")[0] == 200)
        client.close()
        daemon.drained()


SCRIPT = """
import sys
from contextlib import asynccontextmanager
from walflow.plan import Assembly
from walflow.cli.logs import configure
from walflow.runtime.daemon import Settings, run
from walflow.runtime.loop import LoopScheduler

@asynccontextmanager
async def beside(daemon):
    LoopScheduler("an operator").call_later(0.01, lambda: 1 / 0)
    yield

configure("json")
sys.exit(run(Assembly((), (), ()), Settings(loop=sys.argv[1]), beside))
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_the_runtimes_own_ends_the_process(loop: str) -> None:
    command = [sys.executable, "-c", SCRIPT, loop]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 70
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].count("internal error: ZeroDivisionError") == 1
