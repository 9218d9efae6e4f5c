"""What is in the wheel and in the sdist, beside the Python modules."""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.system.daemon import ROOT
from walflow.lang.legacy.schema import schema
from walflow.registry import connectors

IN_THE_WHEEL = {
    "walflow/lang/troy.lark",
    "walflow/modules/std/string.tremor",
    "walflow/share/completions/walflow.bash",
    "walflow/share/completions/walflow.fish",
    "walflow/share/completions/walflow.zsh",
    "walflow/share/kubernetes.yaml",
    "walflow/share/tremor-0.11.schema.json",
    "walflow/share/walflow.service",
    "walflow/share/nvim/walflow.lua",
    "walflow/share/vscode/extension.js",
    "walflow/share/vscode/package.json",
    "walflow/share/vscode/syntaxes/troy.tmLanguage.json",
}
IN_THE_SDIST = {
    "packaging/completions/walflow.bash",
    "packaging/kubernetes.yaml",
    "packaging/tremor-0.11.schema.json",
    "packaging/walflow.service",
    "editors/vscode/package.json",
    "flows/echo/server.troy",
    "README.md",
}


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


@pytest.mark.nightly
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completions_are_those_of_the_command(shell: str) -> None:
    """`make generated` writes them anew."""
    env = os.environ | {"_WALFLOW_COMPLETE": f"source_{shell}"}
    command = [Path(sys.executable).with_name("walflow")]
    printed = subprocess.run(command, env=env, capture_output=True, timeout=100, check=True).stdout
    assert printed == (ROOT / "packaging" / "completions" / f"walflow.{shell}").read_bytes()


def test_the_schema_is_that_of_the_command() -> None:
    shipped = json.loads((ROOT / "packaging" / "tremor-0.11.schema.json").read_text("utf-8"))
    assert shipped == json.loads(json.dumps(schema(connectors().of("walflow"))))


def test_the_image_copies_what_the_wheel_includes() -> None:
    """Red before: a build of the wheel fails where a file that it includes is missing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {source.partition("/")[0] for source in [*wheel["packages"], *wheel["force-include"]]}
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copied = {
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:]
    }
    assert needed <= copied
    assert {f"!{name}" for name in needed} <= set((ROOT / ".dockerignore").read_text("utf-8").split())
