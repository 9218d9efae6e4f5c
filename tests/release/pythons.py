"""Other Pythons than the one that runs the tests: an installed one, or Debian's, in a root that debootstrap makes."""

import os
import resource
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.release import machine
from tests.system.daemon import ROOT

DEBIAN: Final = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}


class Python(NamedTuple):
    """`enter`: the command that runs others in the Debian that has it; empty for one that is installed here."""

    python: str
    enter: Sequence[str]

    def run(self, *command: str) -> None:
        done = subprocess.run(
            [*self.enter, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-5000:]}"


def find(version: str, *shared: Path) -> Python | None:
    """`shared`: the directories that a Debian sees too, at the same place."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = [shutil.which(f"python{version}"), *map(str, versions.glob(f"{version}.*/bin/python{version}"))]
    for path in filter(None, installed):
        if subprocess.run([path, "-m", "venv", "--help"], capture_output=True, check=False).returncode == 0:
            return Python(path, ())  # a shim of pyenv is there for versions too that it does not run
    if version not in DEBIAN or machine.absent() is not None:
        return None
    root = debian(version)
    enter = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--directory", str(root), "--pipe"]
    enter += [f"--bind={path}" for path in shared]
    enter += [f"--setenv={name}={machine.CERTIFICATES}" for name in ("PIP_CERT", "SSL_CERT_FILE")]
    enter += [f"--rlimit=RLIMIT_NOFILE={resource.getrlimit(resource.RLIMIT_NOFILE)[1]}"]
    enter += [f"--setenv=TMPDIR={shared[-1]}"]  # its own is a tmpfs, of which walflow warns
    enter += ["--setenv=NOTIFY_SOCKET="]  # of systemd-nspawn's own; what is tested would write to it
    return Python(f"/usr/bin/python{version}", [*enter, f"--chdir={shared[0]}"])


def debian(version: str) -> Path:
    """The root of the Debian that has this Python."""
    packages = (f"python{version}", f"python{version}-venv")
    return machine.made(f"python{version}", DEBIAN[version], "ca-certificates", installed=packages)
