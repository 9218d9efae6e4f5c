"""`walflow doctor`: what this machine is, and what of it is a problem for walflow."""

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from statistics import median
from typing import Annotated, Final, NamedTuple

import typer

from walflow.admin.text import printable
from walflow.cli.figures import size
from walflow.disk import RealDisk
from walflow.exit_codes import EX_FINDINGS
from walflow.extras import packages_of
from walflow.wal.opening.recovery import ODD_FILESYSTEMS

PYTHONS: Final = ((3, 11), (3, 14))  # the oldest that runs it, the newest that its tests know
KERNEL: Final = (4, 14)  # the first whose preadv2 says what the page cache has
DESCRIPTORS: Final = 4096  # each connection is one
ROOM: Final = 1 << 28  # bytes of a log with the keys of the examples
MEMORY: Final = 256 << 20
SYNCS: Final = 8
SLOW_SYNC: Final = 0.05  # seconds


class Symptom(NamedTuple):
    """`problem`: what is wrong and what to do; None where it is fine."""

    of: str
    found: str
    problem: str | None = None


def doctor(
    directory: Annotated[
        Path, typer.Argument(help="Where the logs will be: its file system is tried, with one file that has no name.")
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")] = False,
) -> None:
    """Say which Python, kernel, file system and limits there are, and what of it is a problem. Exit code 1 if
    something is. `walflow check --environment` says the same of what a flow needs."""
    found = list(findings(directory))
    problems = sum(one.problem is not None for one in found)
    if as_json:
        typer.echo(json.dumps([one._asdict() for one in found], indent=2))
    else:
        for one in found:
            typer.echo(printable(f"{one.of}: {one.found}: {one.problem or 'ok'}"))
        typer.echo(f"{problems} of {len(found)} are a problem" if problems else "no problem")
    if problems:
        raise typer.Exit(EX_FINDINGS)


def findings(directory: Path) -> Iterator[Symptom]:
    yield _python()
    yield _kernel()
    yield _packages()
    yield _extras()
    yield _loop()
    yield _descriptors()
    yield _memory()
    yield from _disk(directory)


def _python() -> Symptom:
    here = sys.version_info[:2]
    found = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    oldest, newest = (".".join(map(str, one)) for one in PYTHONS)
    if sys.implementation.name != "cpython":
        return Symptom("Python", found, "walflow runs on CPython only")
    if here > PYTHONS[1]:
        return Symptom("Python", found, f"newer than {newest}, which is the newest that walflow was tried with")
    return Symptom("Python", found, None if here >= PYTHONS[0] else f"walflow needs {oldest} or newer")


def _kernel() -> Symptom:
    system, release, machine = platform.system(), platform.release(), platform.machine()
    found = f"{system} {release}, {machine}, {os.cpu_count()} processors"
    if system != "Linux":
        return Symptom("kernel", found, "for development only: walflow is made for Linux")
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return Symptom("kernel", found, "walflow needs a processor of 64 bits, little-endian")
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdecimal())
    needed = ".".join(map(str, KERNEL))
    return Symptom(
        "kernel", found, None if numbers >= KERNEL else f"older than {needed}: reads of a log hold up others"
    )


def _packages() -> Symptom:
    """That they are there. Whether their versions fit is pip's affair: `pip check`."""
    needed = [line for line in metadata("walflow").get_all("Requires-Dist") or [] if "extra ==" not in line]
    missing = [name for line in needed if _here(line) and not _installed(name := _name(line))]
    problem = f"{', '.join(missing)} missing: install walflow anew" if missing else None
    return Symptom("packages", f"walflow {version('walflow')}", problem)


def _here(requirement: str) -> bool:
    """Of the two markers that our metadata has, one is of Windows."""
    return "python_version" not in requirement or sys.version_info < (3, 14)


def _extras() -> Symptom:
    extras = sorted(metadata("walflow").get_all("Provides-Extra") or [])
    there = [extra for extra in extras if all(_installed(_name(package)) for package in packages_of(extra))]
    lacking = [extra for extra in extras if extra not in there]
    found = f"{', '.join(there) or 'none'}; not installed: {', '.join(lacking) or 'none'}"
    if "spark" not in there:
        return Symptom("extras", found)
    java = subprocess.run([sys.executable, "-m", "pyspark_walflow.java"], capture_output=True, text=True, check=False)
    said = " ".join((java.stdout + java.stderr).split())
    return Symptom("extras", found if java.returncode else f"{found}; {said}", said if java.returncode else None)


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _loop() -> Symptom:
    try:
        import_module("uvloop")
    except ImportError as error:
        return Symptom("event loop", "asyncio", f"uvloop cannot be loaded: {error}; `--loop asyncio` is slower")
    return Symptom("event loop", f"uvloop {version('uvloop')}")


def _descriptors() -> Symptom:
    """walflow raises the soft limit to the hard one at its start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= DESCRIPTORS
    problem = (
        None if enough else f"each connection is one: raise the hard limit to {DESCRIPTORS} or more (LimitNOFILE=)"
    )
    return Symptom("open files", f"limit {soft}, hard limit {hard}", problem)


def _memory() -> Symptom:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = min([pages, *_limits()])
    problem = None if limit >= MEMORY else f"a dozen connectors with a log take up to {size(MEMORY)}"
    return Symptom("memory", f"{size(pages)}, limit {size(limit)}", problem)


def _limits() -> Iterator[int]:
    """Of the control group: version 2 where a container sees itself as the root, or version 1."""
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            yield int(Path(file).read_text())
        except (OSError, ValueError):
            continue  # another version, or `max`


def _disk(directory: Path) -> Iterator[Symptom]:
    of = f"directory {directory.resolve()}"
    kind = RealDisk().filesystem(str(directory.resolve())) or "unknown file system"
    try:
        room = shutil.disk_usage(directory).free
        seconds = _sync_seconds(directory)
    except OSError as error:
        yield Symptom(of, kind, f"{os.strerror(error.errno or 0)}: no log can be there for user {os.geteuid()}")
        return
    found = f"{kind}, {size(room)} free, a sync takes {1000 * seconds:.1f} ms"
    if kind.startswith(ODD_FILESYSTEMS):
        yield Symptom(
            of, found, "a sync may promise less than on a local disk: after a power cut, acked events may be gone"
        )
    elif kind == "overlay":
        yield Symptom(of, found, "the container's own layer, which goes with the container: put a volume there")
    elif room < ROOM:
        yield Symptom(of, found, f"a log of the examples takes {size(ROOM)}: make room, or set max_chunks")
    elif seconds > SLOW_SYNC:
        yield Symptom(of, found, "slow: each ack of a log waits for a sync; many events share one")
    else:
        yield Symptom(of, found)


def _sync_seconds(directory: Path) -> float:
    """The median of a few small appends, each synced, to a file that has no name."""
    took: list[float] = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(SYNCS):
            begin = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file)
            took.append(time.perf_counter() - begin)
    return median(took)
