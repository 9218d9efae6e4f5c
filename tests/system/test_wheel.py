"""What is in the wheel and in the sdist, beside the Python modules."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.system.daemon import ROOT

IN_THE_WHEEL = {
    "walflow/lang/troy.lark",
    "walflow/modules/std/string.tremor",
    "walflow/share/walflow.service",
    "walflow/share/vscode/extension.js",
    "walflow/share/vscode/package.json",
    "walflow/share/vscode/syntaxes/troy.tmLanguage.json",
}
IN_THE_SDIST = {"packaging/walflow.service", "editors/vscode/package.json", "flows/echo/server.troy", "README.md"}


@pytest.mark.nightly
def test_the_wheel_and_the_sdist(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=240)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        assert set(packed.namelist()) >= IN_THE_WHEEL
        assert packed.read("walflow/share/walflow.service") == (ROOT / "packaging" / "walflow.service").read_bytes()
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert names >= IN_THE_SDIST
