"""Packages for Debian, by `dpkg-deb`. Each has an environment of its own in /opt/walflow: Debian's Python, and what
packaging/debian/requirements.lock names, as wheels from PyPI. Nothing is compiled, so one machine makes them for each
processor; the modules' bytecode is made where the package is installed."""

import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final, NamedTuple

from release.tree import ROOT, Tree


class Suite(NamedTuple):
    """A release of Debian, and the Python that it has."""

    name: str
    number: int
    python: str


SUITES: Final = (Suite("bookworm", 12, "3.11"), Suite("trixie", 13, "3.13"))
PROCESSORS: Final = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBCS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")  # newest first; bookworm has 2.36

CHANGES: Final = """\
walflow ({version}) {suite}; urgency=medium

  * Version {upstream}: changelog.gz says what is new.

 -- {maintainer}  {date}
"""

COMMAND: Final = """\
#!/opt/walflow/bin/python3
import sys

from walflow_command import main

sys.exit(main())
"""


def build(tree: Tree, wheel: Path, into: Path, suite: Suite, architecture: str) -> Path:
    version = f"{tree.version}-1~deb{suite.number}"
    deb = into / f"walflow_{version}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        _environment(tree, wheel, root / "opt" / "walflow", suite, PROCESSORS[architecture])
        _system(tree, root)
        _changes(tree, root, version, suite)
        _control(tree, root, version, suite, architecture)
        for path in [root, *root.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or _is_program(path) else 0o644)
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z2", "--threads-max=1", "--build", str(root), str(deb)]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(tree.epoch)}
        for path in root.rglob("*"):
            os.utime(path, (tree.epoch, tree.epoch), follow_symlinks=False)
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return deb


def _environment(tree: Tree, wheel: Path, place: Path, suite: Suite, processor: str) -> None:
    """What `python -m venv` and `pip install` would make with Debian's Python, on Debian."""
    packages = place / "lib" / f"python{suite.python}" / "site-packages"
    platforms = [option for glibc in GLIBCS for option in ("--platform", f"{glibc}_{processor}")]
    lock = tree.path / "packaging" / "debian" / "requirements.lock"
    command = [
        *(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"),
        *("--no-compile", "--only-binary=:all:", "--require-hashes", "--requirement", str(lock)),
        *("--python-version", suite.python, "--implementation", "cp", *platforms, "--target", str(packages)),
    ]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    for program in (packages / "bin").iterdir():
        program.unlink()  # of those packages; walflow calls none
    (packages / "bin").rmdir()
    for record in packages.glob("*.dist-info/RECORD"):
        # Of those programs it has a hash, and in their first line is the path of the Python that runs this.
        lines = record.read_text("utf-8").splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../../bin/")), "utf-8")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(packages)
    programs = place / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(f"/usr/bin/python{suite.python}")
    (programs / "walflow").write_text(COMMAND, "utf-8")
    (place / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n", "utf-8")


def _changes(tree: Tree, root: Path, version: str, suite: Suite) -> None:
    control = (tree.path / "packaging" / "debian" / "control").read_text("utf-8")
    (maintainer,) = re.findall("^Maintainer: (.*)", control, re.MULTILINE)
    date = format_datetime(datetime.fromtimestamp(tree.epoch, UTC))
    text = CHANGES.format(version=version, suite=suite.name, upstream=tree.version, maintainer=maintainer, date=date)
    _gzip(root / "usr/share/doc/walflow/changelog.Debian.gz", text.encode())
    _gzip(root / "usr/share/doc/walflow/changelog.gz", (tree.path / "CHANGELOG.md").read_bytes())


def _system(tree: Tree, root: Path) -> None:
    """What is outside /opt/walflow."""
    packaging, ours = tree.path / "packaging", tree.path / "packaging" / "debian"
    unit = (packaging / "walflow.service").read_text("utf-8")
    assert unit.count("DynamicUser=yes\n") == 1
    files = {
        "usr/lib/systemd/system/walflow.service": unit.replace("DynamicUser=yes\n", "User=walflow\nGroup=walflow\n"),
        "usr/lib/sysusers.d/walflow.conf": (ours / "sysusers").read_text("utf-8"),
        "usr/lib/tmpfiles.d/walflow.conf": (ours / "tmpfiles").read_text("utf-8"),
        "etc/logrotate.d/walflow": (ours / "logrotate").read_text("utf-8"),
        "etc/walflow/main.troy": (tree.path / "flows" / "echo" / "server.troy").read_text("utf-8"),
        "usr/share/bash-completion/completions/walflow": (packaging / "completions/walflow.bash").read_text("utf-8"),
        "usr/share/zsh/vendor-completions/_walflow": (packaging / "completions/walflow.zsh")
        .read_text("utf-8")
        .lstrip(),
        "usr/share/fish/vendor_completions.d/walflow.fish": (packaging / "completions/walflow.fish").read_text(
            "utf-8"
        ),
        "usr/share/doc/walflow/copyright": (ours / "copyright").read_text("utf-8"),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    for name, page in _manual(tree):
        _gzip(root / "usr/share/man/man1" / f"{name}.gz", page)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/walflow").symlink_to("/opt/walflow/bin/walflow")


def _manual(tree: Tree) -> Iterator[tuple[str, bytes]]:
    """Of the commands that the tree has, not the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tree.path), str(ROOT)))}
        command = [sys.executable, "-P", "-m", "release.manual", folder]
        subprocess.run(command, env=environment, cwd=folder, check=True)
        for page in sorted(Path(folder).iterdir()):
            yield page.name, page.read_bytes()


def _gzip(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(data, mtime=0))


def _control(tree: Tree, root: Path, version: str, suite: Suite, architecture: str) -> None:
    ours, control = tree.path / "packaging" / "debian", root / "DEBIAN"
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    control.mkdir()
    fields = {
        "version": version,
        "architecture": architecture,
        "python": suite.python,
        "installed_size": sum(-(-path.stat().st_size // 1024) for path in files),
    }
    text = (ours / "control").read_text("utf-8").format_map(fields)
    (control / "control").write_text(text, "utf-8")
    sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)
    (control / "md5sums").write_text("".join(sums), "utf-8")
    for name in ("conffiles", "postinst", "prerm", "postrm"):
        (control / name).write_bytes((ours / name).read_bytes())


def _is_program(path: Path) -> bool:
    return path.name in ("postinst", "prerm", "postrm") or path.parent.name == "bin"
