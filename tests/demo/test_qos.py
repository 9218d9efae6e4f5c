"""The scenes for people, ten times as fast."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.server import ROOT
from tests.demo.test_run import processes


def start(directory: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "demo.qos", *options],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.nightly
def test_both_ends_of_the_log_on_disk_are_killed(tmp_path: Path) -> None:
    with start(tmp_path, "walflow-dies", "listener-dies", "--pace", "0.1") as demo:
        output, _ = demo.communicate()
    assert demo.returncode == 0, output
    assert "kill -9 walflow" in output
    assert "run 2 of walflow: events 0 to" in output
    assert output.count("missing: none") == 3
    assert output.endswith("\nNothing lost.\n\n")
    assert not processes(tmp_path)
    assert not list(tmp_path.glob("walflow-demo-*"))


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, "walflow-dies", "--pace", "0.1") as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if '"id":' in line:
                break
        demo.send_signal(number)
        rest, _ = demo.communicate()
    assert demo.returncode == 130, rest
    assert rest.endswith("stopped\n")
    assert not processes(tmp_path)
    assert not list(tmp_path.glob("walflow-demo-*"))
