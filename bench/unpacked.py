"""Programs of the system's packages, unpacked beside our own: installed, they would take over the system's log, or
run as services ever after. `python -m bench.unpacked NAME` fetches one, as the Makefile does."""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from demo.server import ROOT

NUMBER: Final = re.compile(r"\d+(\.\d+)+")
PLACE: Final = ROOT / ".venv"  # where .venv goes, it goes


class Package(NamedTuple):
    """`needs`: of what it wants, what a small system lacks."""

    name: str
    program: str
    needs: tuple[str, ...]
    version: str  # the option that prints it and does no more
    go: str = ""  # where Debian's is too old: its module for `go install`
    client: str = ""  # of Python, on PyPI

    @property
    def place(self) -> Path:
        return PLACE / self.name


RSYSLOG: Final = Package(
    "rsyslog",
    "rsyslogd",
    ("rsyslog", "rsyslog-openssl", "rsyslog-relp", "librelp0", "libestr0", "libfastjson4", "liblognorm5"),
    "-v",
)
SYSLOG_NG: Final = Package(
    "syslog-ng",
    "syslog-ng",
    (
        "syslog-ng-core",
        "syslog-ng-mod-http",
        "libcurl4",
        "libivykis0",
        "libnet1",
        "libpcre3",
        "libwrap0",
        "libjson-c5",
        "libglib2.0-0",
        "libcap2",
    ),
    "--version",
)
REDIS: Final = Package(
    "redis",
    "redis-server",
    ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1"),
    "--version",
)
PROMETHEUS: Final = Package("prometheus", "promtool", ("prometheus",), "--version")
NATS: Final = Package(
    "nats-server", "nats-server", (), "--version", go="github.com/nats-io/nats-server/v2@v2.12.1", client="nats-py"
)  # Debian's 2.9 has no `sync_interval: always`


@functools.cache
def program(package: Package) -> Path | None:
    """The system's, or the one that was unpacked."""
    installed = shutil.which(package.program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if installed is not None:
        return Path(installed)
    places = (package.place / "usr" / folder / package.program for folder in ("sbin", "bin"))
    return next((place for place in places if place.exists() and _version(package, place) is not None), None)


def absent(package: Package) -> str | None:
    if program(package) is not None:
        return None
    other = f"go install {package.go}" if package.go else f"sudo apt-get install {package.needs[0]}"
    return f"no {package.program}: `make {package.name}`, or {other}"


def version(package: Package) -> str | None:
    """Its name and number, of what it says of itself."""
    found = program(package)
    said = None if found is None else _version(package, found)
    number = NUMBER.search(said or "")
    return f"{package.name} {number[0]}" if number is not None else said


def environment(package: Package) -> Mapping[str, str]:
    return os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, libraries(package)))}


def libraries(package: Package) -> list[Path]:
    places = ("usr/lib/*-linux-gnu", "lib/*-linux-gnu", f"usr/lib/{package.name}")
    return [path for place in places for path in package.place.glob(place)]


def fetch(package: Package) -> None:
    """As root the package lists too, where there are none that know it."""
    if not package.go and (shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None):
        return
    package.place.mkdir(parents=True, exist_ok=True)
    if package.go:
        _build(package)
        return
    if not _download(package) and os.geteuid() == 0:
        _quietly(["apt-get", "update"], package.place)
        _download(package)
    for archive in package.place.glob("*.deb"):
        _quietly(["dpkg-deb", "--extract", str(archive), str(package.place)], package.place)
        archive.unlink()


def _build(package: Package) -> None:
    places = os.environ | {"GOBIN": str(package.place / "usr/bin")}
    if shutil.which("go") is not None:
        subprocess.run(["go", "install", package.go], env=places, capture_output=True, check=False)
    if package.client:
        _quietly([sys.executable, "-m", "pip", "install", "--quiet", package.client], package.place)


def _download(package: Package) -> bool:
    done = [_quietly(["apt-get", "download", name], package.place) for name in package.needs]
    return all(done)


def _quietly(command: list[str], directory: Path) -> bool:
    return subprocess.run(command, cwd=directory, capture_output=True, check=False).returncode == 0


def _version(package: Package, found: Path) -> str | None:
    done = subprocess.run(
        [found, package.version], env=environment(package), capture_output=True, text=True, check=False
    )
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else None


def main(name: str, said: Callable[[str], object] = print) -> None:
    package = {one.name: one for one in (RSYSLOG, SYSLOG_NG, REDIS, PROMETHEUS, NATS)}[name]
    if program(package) is None:
        said(f"fetching {package.program}")
        fetch(package)
        program.cache_clear()
        if (reason := absent(package)) is not None:
            said(f"what wants it goes without: {reason}")


if __name__ == "__main__":
    main(sys.argv[1])
