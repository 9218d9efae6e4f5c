"""The tutorial, typed as it stands."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, free_port

DOCS = ROOT / "docs"
STEPS = re.compile(r"```sh\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
MARK = "--- next step ---"


@pytest.mark.nightly
def test_the_tutorial(tmp_path: Path) -> None:
    steps = STEPS.findall((DOCS / "tutorial.md").read_text("utf-8"))
    port = str(free_port())
    program = tmp_path / "walflow"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m walflow "$@"\n')
    program.chmod(0o755)
    # a flow file of the tutorial's own port: tests run side by side
    change = f"sed -i s/65535/{port}/ main.troy"
    script = "set -e\n" + f"\necho '{MARK}'\n".join(command for command, _ in steps)
    script = script.replace("/65535", f"/{port}").replace("cd echo\n", f"cd echo\n{change}\n")
    script = script.replace("walflow run", "walflow run --log-format json")
    printed = typed(script, tmp_path).split(f"{MARK}\n")
    for (command, wanted), got in zip(steps, printed, strict=True):
        assert got == wanted, command


def typed(script: str, folder: Path) -> str:
    """What bash prints. Nothing that it started is left."""
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "WALFLOW_ADMIN": f"unix:{folder}/admin",
    }
    # into files: a daemon that a failed script leaves behind would hold a pipe open
    out, err = folder / "printed", folder / "errors"
    with (
        out.open("w") as stdout,
        err.open("w") as stderr,
        subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        ) as bash,
    ):
        try:
            bash.wait(timeout=120)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
    assert bash.returncode == 0, err.read_text()
    return out.read_text()
