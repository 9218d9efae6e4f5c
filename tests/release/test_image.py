"""The image, built by buildah. Its base is Debian's own Python, under the name that the Dockerfile has: no registry is asked."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from release import image, tree
from tests.release import machine
from tests.system.daemon import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
ABSENT = machine.absent() or (None if shutil.which("buildah") else "there is no buildah: `make buildah`")
RUN = """
touch /x /opt/walflow/x 2>/dev/null && echo writes
walflow --version
walflow run /etc/walflow/server.troy --set url=127.0.0.1:0 --admin unix:admin.sock 2>/dev/null & daemon=$!
walflow status --ready --wait 90s --admin unix:admin.sock
kill $daemon; wait $daemon; echo "ended $?"
walflow status --ready --admin unix:admin.sock 2>/dev/null || echo "unhealthy $?"
"""


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[list[str]]:
    command = [
        "buildah",
        "--root",
        str(tmp_path / "storage"),
        "--runroot",
        str(tmp_path / "run"),
        "--storage-driver",
        "vfs",
    ]
    yield command
    subprocess.run([*command, "rm", "--all"], capture_output=True, check=False)


@pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))
def test_it_is_built_and_runs_as_nobody(buildah: list[str], tmp_path: Path) -> None:
    def call(*arguments: str) -> str:
        environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run([*buildah, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    (base,) = {
        line.split()[1] for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines() if line.startswith("FROM")
    }
    files = Path(shutil.copytree(machine.base(), tmp_path / "base", symlinks=True))
    shutil.copy("/etc/resolv.conf", files / "etc" / "resolv.conf")
    python = ["apt-get", "install", "--yes", "--no-install-recommends", "python3.11", "python3.11-venv"]
    environment = os.environ | machine.ENVIRONMENT
    subprocess.run(["chroot", str(files), *python], env=environment, capture_output=True, check=True)
    (files / "usr/local/bin/python").symlink_to("/usr/bin/python3.11")
    made = call("from", "scratch").strip()
    call("add", "--quiet", made, str(files), "/")
    call("commit", "--quiet", made, f"docker.io/library/{base}")

    context = tmp_path / "context"
    shutil.unpack_archive(image.build(tree.export(tmp_path / "tree", "0.1.0"), tmp_path), context)
    mounts = [f"--volume={path}:{path}:ro" for path in ("/etc/ssl/certs", "/etc/resolv.conf")]
    call(
        "build", "--pull-never", "--format", "docker", "--network", "host", *mounts, "--tag", "walflow", str(context)
    )
    inspected = call("inspect", "--type", "image", "walflow")
    assert '"walflow",\n' in inspected
    assert "--ready" in inspected
    container = call("from", "--pull-never", "localhost/walflow").strip()
    assert call("run", container, "--", "id", "-u").strip() == "9898"
    assert call("run", container, "--", "sh", "-c", RUN).splitlines() == [
        "walflow 0.1.0",
        "ready",
        "ended 0",
        "unhealthy 69",
    ]
