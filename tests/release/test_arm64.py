"""Debian's package for arm64 runs: each instruction by qemu, on this kernel. Its interpreter is Debian 12's."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from release import debian, tree, wheels
from tests.release import machine
from tests.system.daemon import running

QEMU = shutil.which("qemu-aarch64-static")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(machine.absent() is not None, reason=str(machine.absent())),
    pytest.mark.skipif(QEMU is None, reason="there is no qemu-aarch64-static: `make debootstrap`"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a Debian for arm64, which nothing has set up, and of our package."""
    copy = tmp_path / "root"
    kept = machine.unpacked("arm64", "bookworm", "python3.11,libstdc++6")
    subprocess.run(["cp", "--archive", str(kept), str(copy)], check=True)  # copytree reads /dev/full to its end
    of = tree.export(tmp_path / "tree", "0.1.0")
    *_, wheel = sorted(wheels.build(of, tmp_path), key=lambda path: path.suffix)
    package = debian.build(of, wheel, tmp_path, debian.SUITES[0], "arm64")
    subprocess.run(["dpkg-deb", "-x", str(package), str(copy)], check=True)
    return copy


def test_it_echoes(root: Path, tmp_path: Path) -> None:
    seen = {"PYTHONHOME": root / "usr", "PYTHONPATH": root / "opt/walflow/lib/python3.11/site-packages"}
    qemu = [str(QEMU), "-L", str(root), *(word for name, path in seen.items() for word in ("-E", f"{name}={path}"))]
    command = [*qemu, str(root / "usr/bin/python3.11"), "-m", "walflow"]
    doctor = subprocess.run([*command, "doctor"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "aarch64" in doctor.stdout, doctor.stderr
    assert doctor.stdout.endswith("no problem\n"), doctor.stdout
    workdir = tmp_path / "work"
    workdir.mkdir()
    (workdir / "main.troy").write_text((root / "etc/walflow/main.troy").read_text().replace("65535", "0"))
    with running(workdir / "main.troy", workdir, command=[*command, "run"]) as daemon:
        with socket.create_connection(("127.0.0.1", daemon.port())) as client:
            client.sendall(b'{"hello": "world"}\n')
            assert client.makefile("rb").readline() == b'{"hello": "world"}\n'
        assert daemon.terminate() == 0
    assert (workdir / "server_out.log").read_text() == '{"hello": "world"}\n'
