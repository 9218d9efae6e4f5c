"""The demo itself, short: a real daemon, real kills, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from demo.server import FLOWS, ROOT
from tests.waiting import wait_until


def start(tmp_path: Path, options: Sequence[object], **more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "demo", *map(str, options)]
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONUTF8": "1"} | more
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )


def run(tmp_path: Path, *options: object, **more: str) -> tuple[int, str]:
    with start(tmp_path, options, **more) as demo:
        output, _ = demo.communicate()
    return demo.returncode, output


def processes(workdir: Path) -> list[str]:
    """Of all processes, those started with this directory among their arguments or in their environment,
    or that work in it."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (
                (path / name).read_bytes().replace(b"\0", b" ").decode(errors="replace")
                for name in ("cmdline", "environ")
            )
            where = os.readlink(path / "cwd")
        except OSError:
            continue
        if str(workdir) in f"{command} {where} {environment}":
            found.append(command)
    return found


def wait_until_gone(workdir: Path) -> None:
    """A Python worker of Spark ends by itself, a moment after its JVM."""
    wait_until(lambda: not processes(workdir), lambda: processes(workdir))


def test_two_kills_and_nothing_is_missing(tmp_path: Path) -> None:
    code, output = run(tmp_path, "--seconds", 8, "--kills", 2, "--connections", 4, "--seed", 1, "--no-spark")

    assert code == 0, output
    assert output.count("kill -9") == 2
    assert "again after" in output
    assert "Nothing lost, nothing torn, nothing doubled. 2 kills" in output
    assert "\x1b" not in output, "no colours where there is no terminal"
    assert not processes(tmp_path)
    assert not list(tmp_path.glob("walflow-demo-*"))


@pytest.mark.nightly
def test_a_flow_that_loses_lines_is_found_out(tmp_path: Path) -> None:
    flow = tmp_path / "forgetful.troy"
    text = (FLOWS / "server.troy").read_text()
    flow.write_text(
        text.replace("/pipeline/after_gd to /connector/server_out", "/pipeline/debug to /connector/server_out")
    )

    code, output = run(tmp_path, "--seconds", 3, "--kills", 1, "--connections", 2, "--seed", 1, "--flow", flow)

    assert code == 1, output
    assert "The promise is broken." in output
    assert not processes(tmp_path)
    assert [kept.name for kept in tmp_path.glob("walflow-demo-*/server_out.log")] == ["server_out.log"]


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    flow = tmp_path / "broken.troy"
    flow.write_text((FLOWS / "server.troy").read_text().replace("from tcp_server\n", "from tcp_sever\n"))

    code, output = run(tmp_path, "--seconds", 5, "--kills", 0, "--flow", flow)

    assert code == 2, output
    assert "It did not get to the ledger: the server ended by itself with exit code 78" in output
    assert not processes(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, ["--seconds", 50, "--kills", 0, "--no-spark"]) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "the server is up" in line:
                break
        time.sleep(0.3)  # somewhere under load
        demo.send_signal(number)
        rest, _ = demo.communicate()

    assert demo.returncode == 130, rest
    assert "Traceback" not in rest
    assert not processes(tmp_path)
    assert not list(tmp_path.glob("walflow-demo-*"))


SHORT = ("--seconds", 4, "--kills", 0, "--connections", 2, "--rate", 2000)


@pytest.mark.spark
def test_the_pipeline_on_spark_and_the_ledger_agree(tmp_path: Path) -> None:
    code, output = run(tmp_path, *SHORT)

    assert code == 0, output
    added_up = re.search(r"windows add up to ([\d,]+) lines: \1 different ones, 0 sent again; ([\d,]+) have", output)
    assert added_up, output
    assert added_up[2] != "0"
    assert "The pipeline on Spark and the ledger agree." in output
    wait_until_gone(tmp_path)
    assert not list(tmp_path.glob("walflow-demo-*"))


def test_without_java_it_says_so_and_succeeds(tmp_path: Path) -> None:
    code, output = run(tmp_path, *SHORT, JAVA_HOME=str(tmp_path))

    assert code == 0, output
    assert f"Spark needs Java 17 or newer and there is no {tmp_path}/bin/java" in output


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_spark_runs_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, SHORT) as demo:
        wait_until(lambda: any("clients.troy" in command for command in processes(tmp_path)))
        time.sleep(1)  # somewhere in the start of a JVM
        demo.send_signal(number)
        rest, _ = demo.communicate()

    assert demo.returncode == 130, rest
    assert "Traceback" not in rest
    wait_until_gone(tmp_path)
    assert not list(tmp_path.glob("walflow-demo-*"))


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_eighty_kills(tmp_path: Path) -> None:
    code, output = run(tmp_path, "--seconds", 240, "--kills", 80, "--connections", 8, "--rate", 40_000, "--no-spark")

    assert code == 0, output
