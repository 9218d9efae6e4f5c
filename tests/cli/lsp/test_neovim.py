"""Neovim, with the file of editors/nvim and nothing else, shows mistakes, help and completions, and formats."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.daemon import ROOT
from tests.waiting import PATIENCE

NVIM = shutil.which("nvim")
FLOW = """\
define flow main
flow
  define connector door from file
  with
    codec = "json", config = {"path": "in", "mode": "read"}
  end;
    create connector door;
  create connector gate;
end;
deploy flow main;
"""


@pytest.mark.nightly
@pytest.mark.skipif(NVIM is None, reason="Neovim is not installed: sudo apt-get install neovim")
def test_neovim_has_what_the_server_gives(tmp_path: Path) -> None:
    assert NVIM is not None
    (tmp_path / "main.troy").write_text(FLOW)
    program = tmp_path / "walflow"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m walflow "$@"\n')
    program.chmod(0o755)
    homes = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    }
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PATIENCE": str(PATIENCE)}
    command = [NVIM, "--headless", "-u", str(ROOT / "editors/nvim/walflow.lua")]
    done = subprocess.run(
        [*command, "-c", f"luafile {Path(__file__).parent / 'neovim.lua'}"],
        cwd=tmp_path,
        env={**os.environ, **homes, **path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert (tmp_path / "found.json").exists(), done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["problem"] == ""
    assert found["mistakes"] == [[8, "unknown connector definition `gate`"]]
    assert found["hover"]["value"].startswith("**file** (connector)")
    assert "tcp_server" in found["completion"]
    indented = FLOW.replace("    create connector door", "  create connector door")
    assert found["formatted"] == [line for line in indented.splitlines() if "gate" not in line]
