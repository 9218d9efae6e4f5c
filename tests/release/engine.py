"""podman, with a store of its own: it builds the image from a Debian that debootstrap made, for no registry is asked,
and runs it. `python -m tests.release.engine` shows what tests/release/test_image.py judges."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from release import image, tree
from tests.release import machine, pythons
from tests.waiting import PATIENCE, wait_until

ECHO: Final = """
import socket
with socket.create_connection(("127.0.0.1", 65535)) as server:
    server.sendall(b'{"hello": "world"}\\n')
    print(server.makefile().readline(), end="")
"""


def absent() -> str | None:
    missing = [name for name in ("podman", "conmon", "crun") if shutil.which(name) is None]
    return machine.absent() or (f"there is no {missing[0]}: `make podman`" if missing else None)


class Engine:
    """`with Engine(folder) as engine:` has the image `walflow`, and leaves nothing of it behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = folder / "store"
        self._runroot = tempfile.mkdtemp()  # podman takes one of at most 50 characters

    def __enter__(self) -> Self:
        # crun knows cgroups of version 1 and of version 2, not both at once: it runs where only the first are
        # mounted.
        begin = "! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified; echo; exec sleep infinity"
        self._space = subprocess.Popen(["unshare", "--mount", "sh", "-c", begin], stdout=subprocess.PIPE)
        assert self._space.stdout is not None
        self._space.stdout.readline()
        self._base()
        made = image.build(tree.export(self._folder / "tree", "0.1.0"), self._folder)
        context = self._folder / "context"
        context.mkdir()
        subprocess.run(["tar", "-xzf", str(made), "-C", str(context)], check=True)
        options = ["--quiet", "--isolation", "chroot", "--format", "docker", "--network", "host", "--layers=false"]
        self.run("build", *options, "--build-arg", "BASE=localhost/base", "--tag", "walflow", str(context))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._try("rm", "--all", "--force", "--time", "0")
        self._try("rmi", "--all", "--force")
        self._space.terminate()
        shutil.rmtree(self._runroot, ignore_errors=True)
        self._space.wait(PATIENCE)
        assert self._space.stdout is not None
        self._space.stdout.close()
        shutil.rmtree(self._store, ignore_errors=True)

    def _base(self) -> None:
        """A Debian that has `python`, instead of the image that the Dockerfile names."""
        root = pythons.debian("3.11")
        command = root / "usr" / "local" / "bin" / "python"
        if not command.is_symlink():
            command.symlink_to("/usr/bin/python3.11")
        packed = self._folder / "base.tar"
        without = [
            f"--exclude=./{place}/*" for place in ("proc", "sys", "dev", "run", "tmp", "var/cache", "var/lib/apt")
        ]
        subprocess.run(["tar", "-C", str(root), *without, "-cf", str(packed), "."], check=True)
        self.run(
            "import", "--quiet", "--change", f"ENV=PIP_CERT={machine.CERTIFICATES}", str(packed), "localhost/base"
        )
        packed.unlink()

    def run(self, *command: str) -> str:
        """What podman prints. Raises AssertionError with what it says."""
        done = self._try(*command)
        assert done.returncode == 0, f"podman {' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def _try(self, *command: str) -> subprocess.CompletedProcess[str]:
        own = ["--root", str(self._store / "root"), "--runroot", self._runroot]
        own += ["--cgroup-manager=cgroupfs", "--events-backend=file"]
        inside = ["nsenter", "--mount", "--target", str(self._space.pid), "podman", *own, *command]
        # The health check runs when it is asked for; podman would have systemd ask.
        environment = os.environ | {"DISABLE_HC_SYSTEMD": "true"}
        return subprocess.run(inside, env=environment, capture_output=True, text=True, check=False, timeout=1200)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The container `one`: read-only, without a single tmpfs, without a network, with a volume for the log."""
        options = ["--detach", "--name", "one", "--read-only", "--read-only-tmpfs=false", "--network", "none"]
        options += ["--volume", "log:/var/lib/walflow", "--cgroups=disabled", "--log-driver", "k8s-file"]
        options += ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--cap-drop", "all"]
        self.run("run", *options, "walflow")
        try:
            yield
        finally:
            self._try("rm", "--force", "--time", "0", "one")

    def health(self) -> str:
        """Of one more check: starting, healthy or unhealthy."""
        self._try("healthcheck", "run", "one")
        return self.run("inspect", "--format", "{{.State.Health.Status}}", "one").strip()

    def until(self, health: str) -> None:
        wait_until(
            lambda: self.health() == health, lambda: f"it does not become {health}: {self._try('logs', 'one')}"
        )

    def inside(self, *command: str) -> tuple[int, str]:
        """The exit code of a command in the container, and what it prints."""
        done = self._try("exec", "one", *command)
        return done.returncode, done.stdout + done.stderr


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder)) as engine:
        size = int(engine.run("image", "inspect", "--format", "{{.Size}}", "walflow"))
        base = int(engine.run("image", "inspect", "--format", "{{.Size}}", "localhost/base"))
        print(f"the image: {size / 1e6:.0f} MB, of which {base / 1e6:.0f} MB are its Debian")  # noqa: T201
        with engine.running():
            engine.until("healthy")
            for line in ("id", "touch /x", "touch /tmp/x", "ls -A /var/lib/walflow"):
                print(f"$ {line}\n{engine.inside(*line.split())[1]}", end="")  # noqa: T201
            print(f"an echo: {engine.inside('python', '-c', ECHO)[1]}", end="")  # noqa: T201
            print("health:", engine.health())  # noqa: T201
            engine.run("kill", "--signal", "STOP", "one")
            engine.until("unhealthy")
            print("health after SIGSTOP:", engine.health())  # noqa: T201
            engine.run("kill", "--signal", "CONT", "one")
            engine.until("healthy")
            print("health after SIGCONT:", engine.health())  # noqa: T201
            engine.run("stop", "--time", "60", "one")
            print("exit code:", engine.run("inspect", "--format", "{{.State.ExitCode}}", "one"), end="")  # noqa: T201


if __name__ == "__main__":
    main()
