"""A Debian of its own, made by debootstrap, booted by systemd-nspawn: its own processes and network, this kernel."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from release import debian
from tests.system.daemon import ROOT
from tests.waiting import wait_until

ROOTS: Final = ROOT / ".venv" / "bare"  # where .venv goes, they go
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
HAS: Final = "ca-certificates,dbus,logrotate,man-db,systemd,systemd-sysv"  # beside what each Debian has
LATER: Final = (
    "python3-pip-whl",
    "libstdc++6",
    "init-system-helpers",
)  # in apt's cache
ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


def absent() -> str | None:
    """Why there can be no such machine here."""
    if os.environ.get("CI") == "true":
        return "it takes minutes, and a build has none"
    if os.geteuid() != 0:
        return "only root may boot one"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [
        name for name in ("debootstrap", "systemd-nspawn", "dpkg-deb") if shutil.which(name, path=path) is None
    ]
    return f"there is no {missing[0]}: `make debootstrap`" if missing else None


def base(suite: str) -> Path:
    """What packages of ours depend on is in apt's cache and not installed: a machine has no network."""
    python = next(one.python for one in debian.SUITES if one.name == suite)
    return made(suite, suite, HAS, later=(f"python{python}", f"python{python}-venv", *LATER))


def made(name: str, suite: str, packages: str, installed: Sequence[str] = (), later: Sequence[str] = ()) -> Path:
    """The root of a Debian, in the directory `name`: made once, with `installed` and what that depends on.
    `later` is in apt's cache."""
    root = ROOTS / name
    if root.exists():
        return root
    making = ROOTS / f".{name}.making"
    shutil.rmtree(making, ignore_errors=True)
    making.parent.mkdir(parents=True, exist_ok=True)
    # The newest suites have the script of sid; an older debootstrap does not know their names.
    scripts = Path("/usr/share/debootstrap/scripts")
    script = [] if (scripts / suite).exists() else [str(scripts / "sid")]
    mirror = "http://deb.debian.org/debian"
    _run("debootstrap", "--variant=minbase", f"--include={packages}", suite, str(making), mirror, *script)
    shutil.copy("/etc/resolv.conf", making / "etc/resolv.conf")
    if CERTIFICATES.exists():  # a proxy's may be among them
        shutil.copy(CERTIFICATES, making / CERTIFICATES.relative_to("/"))
    # A mirror may be a snapshot, and a testing suite's signature is good for a week.
    options = 'APT::Keep-Downloaded-Packages "true";\nAcquire::Check-Valid-Until "false";\n'
    (making / "etc/apt/apt.conf.d/keep").write_text(options)
    get = ("chroot", str(making), "apt-get")
    _run(*get, "update")
    for option, names in (("--yes", installed), ("--download-only", later)):
        if names:
            _run(*get, "install", "--yes", option, "--no-install-recommends", *names)
    making.rename(root)
    return root


def unpacked(architecture: str, suite: str, packages: str) -> Path:
    """The files of a Debian for another processor. Nothing in it was set up: it does not run here. Made once."""
    root = ROOTS / f"{suite}-{architecture}"
    if root.exists():
        return root
    making = ROOTS / f".{root.name}.making"
    shutil.rmtree(making, ignore_errors=True)
    making.parent.mkdir(parents=True, exist_ok=True)
    kind = ["--foreign", f"--arch={architecture}", "--variant=minbase", f"--include={packages}"]
    _run("debootstrap", *kind, suite, str(making), "http://deb.debian.org/debian")
    for package in (making / "var/cache/apt/archives").glob("*.deb"):
        _run("dpkg-deb", "-x", str(package), str(making))
        package.unlink()
    making.rename(root)
    return root


def _run(*command: str) -> None:
    subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, check=True, timeout=1200)


class Machine:
    """`with Machine(folder) as machine:` boots one, and halts it at the end."""

    def __init__(self, folder: Path, suite: str = "bookworm") -> None:
        self.root = folder / "root"
        self._base = base(suite)
        self._console = folder / "console"
        self._nspawn: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        _run("cp", "--archive", str(self._base), str(self.root))
        (self.root / "etc/hostname").write_text("bare\n")
        command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--machine=bare"]
        with self._console.open("wb") as console:
            self._nspawn = subprocess.Popen(
                [*command, "--directory", str(self.root), "--boot"],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        wait_until(lambda: self.run("systemctl is-system-running --wait").strip() in ("running", "degraded"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._nspawn is not None
        self._nspawn.terminate()
        self._nspawn.wait(100)

    def run(self, line: str) -> str:
        """What the line prints, in the shell of root."""
        done = subprocess.run(
            self._inside(line), env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return (done.stdout + done.stderr).decode()

    def start(self, line: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._inside(line),
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def _inside(self, line: str) -> Sequence[str]:
        assert self._nspawn is not None
        pid = self._nspawn.pid
        leader = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        target = leader[0] if leader else "none"  # it has not forked yet
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid")
        return ["nsenter", "--target", target, *spaces, "--root", "--wd", "bash", "-c", f"cd /root; {line}"]
