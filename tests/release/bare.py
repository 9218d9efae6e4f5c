"""A Debian on which there is nothing yet: walflow is installed, used, killed, upgraded under load, removed and
purged.

    python -m tests.release.bare             # prints the page
    python -m tests.release.bare --write     # writes docs/howto/bare-debian.md

tests/release/test_bare.py compares the page.

Both packages are built on the way: of this commit, and of an older one.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Final

from release import debian, tree, wheels
from tests.release.machine import Machine
from tests.system.daemon import ROOT
from tests.waiting import wait_until

PAGE: Final = ROOT / "docs" / "howto" / "bare-debian.md"
NEW: Final = "0.1.0"
OLD: Final = "0.0.9"
SECONDS: Final = 60  # from `apt-get install` to an echo

HEAD: Final = """\
# On a bare Debian

What an administrator types on a Debian 12 on which there is nothing yet, and what comes back: install the package,
send to the echo service, kill it, upgrade it under load, remove it. `python -m tests.release.bare` typed it, into a
Debian of its own that debootstrap made and systemd-nspawn booted, with loopback as its only network. A nightly test
compares this page with a new run.

Each time is noon of one day, and processes are 4242.

"""

RULES: Final = (
    (r"\\x1b\[[0-9;?]*[a-zA-Z]", ""),
    (r"(?<=pid=)\d+", "4242"),
    (r"PID: \d+", "PID: 4242"),
    (r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z| UTC)", "2026-01-01T12:00:00Z"),
)

SEND: Final = '''\
"""Sends numbers, each until it is echoed; the next run goes on where this one ends."""
import pathlib, socket, time

last, stop = pathlib.Path("last"), pathlib.Path("stop")
number = int(last.read_text()) if last.exists() else 0
sent = pathlib.Path("sent").open("a")
while not stop.exists():
    try:
        with socket.create_connection(("127.0.0.1", 65535)) as server:
            answers = server.makefile()
            while not stop.exists():
                sent.write(f"{number + 1}\\n")
                sent.flush()
                server.sendall(b'{"n": %d}\\n' % (number + 1))
                if not answers.readline():
                    break  # the next connection sends this number again
                number += 1
                last.write_text(str(number))
    except OSError:
        time.sleep(0.1)
'''

COUNT: Final = """\
import collections, json, pathlib, time

echoed = range(1, int(pathlib.Path("last").read_text()) + 1)
sent = collections.Counter(map(int, pathlib.Path("sent").open()))
found = collections.Counter()
until = time.monotonic() + 60
while echoed[-1] not in found and time.monotonic() < until:
    files = pathlib.Path("/var/lib/walflow").glob("server_out.log*")
    found = collections.Counter(json.loads(line).get("n") for file in files for line in file.open() \
if line.endswith("\\n"))
del found[None]
print("missing:", [n for n in echoed if not found[n]], "oftener than sent:", [n for n in found if found[n] > sent[n]])
"""

ECHO: Final = """exec 3<>/dev/tcp/127.0.0.1/65535; echo '{"hello": "world"}' >&3; head -n 1 <&3"""

NOT_OURS: Final = (
    "/dev",
    "/proc",
    "/run",
    "/sys",
    "/tmp",
    "/root",
    "/var/cache",
    "/var/log",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/logrotate",
)
"""What apt, systemd and this session write, whatever is installed."""


class Transcript:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.parts: list[str] = []

    def say(self, words: str) -> None:
        self.parts.append("\n\n".join(map(_wrapped, words.split("\n\n"))) + "\n")

    def type(self, line: str, shown: Callable[[str], str] = lambda text: text) -> str:
        """`shown`: what of the output the page has."""
        printed = shown(self._machine.run(line))
        for pattern, instead in RULES:
            printed = re.sub(pattern, instead, printed)
        lines = [row.rstrip() for row in printed.strip("\n").splitlines()]
        self.parts.append("\n".join(["```text", f"# {line}", *lines, "```"]) + "\n")
        return printed


def _wrapped(paragraph: str) -> str:
    return paragraph if "```" in paragraph or "\n" in paragraph else fill(paragraph, 116, break_on_hyphens=False)


def session(folder: Path) -> str:
    return typed(folder, *(_package(folder / name, version, revision) for name, version, revision in _both()))


def typed(folder: Path, old: Path, new: Path) -> str:
    """Two packages, the second one the newer."""
    with Machine(folder) as machine:
        for package in (old, new):
            (machine.root / "root" / package.name).write_bytes(package.read_bytes())
        (machine.root / "root" / "send.py").write_text(SEND)
        (machine.root / "root" / "count.py").write_text(COUNT)
        page = Transcript(machine)
        before = _files(machine)
        _install(page, old)
        _use(page)
        _kill(page, machine)
        _upgrade(page, machine, new)
        _rotate(page, machine)
        _remove(page)
        gone = sorted(_files(machine) - before)
        page.say(
            "What is in the file system now and was not before `apt-get install`, "
            "without what apt and systemd note for themselves:"
        )
        page.parts.append("\n".join(["```text", *_short(gone), "```"]) + "\n")
        page.type("getent passwd walflow", lambda text: re.sub(r":\d+:\d+:", ":999:999:", text))
        page.say(
            "The log and what was delivered stay, and the user to whom they belong. "
            "`rm -r /var/lib/walflow` removes them."
        )
        return HEAD + "\n".join(page.parts)


def _both() -> Iterator[tuple[str, str, str]]:
    """An older commit that could be packed: the last one, as a rule."""
    known = subprocess.run(
        ["git", "rev-list", "--skip=1", "HEAD", "--", "packaging/debian/control", "walflow"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    has = (commit for commit in known if _has(commit, "packaging/debian/requirements.lock"))
    yield "old", OLD, next(has, "HEAD")
    yield "new", NEW, "HEAD"


def _has(commit: str, path: str) -> bool:
    command = ["git", "cat-file", "-e", f"{commit}:{path}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def _package(folder: Path, version: str, revision: str) -> Path:
    of = tree.export(folder / "tree", version, revision)
    *_, wheel = sorted(wheels.build(of, folder), key=lambda path: path.suffix)
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout
    return debian.build(of, wheel, folder, debian.SUITES[0], architecture.strip())


def _install(page: Transcript, package: Path) -> None:
    page.say("## Install\n\nThe package is a file here. What it needs of Debian comes with it.")
    page.type(
        "systemctl is-system-running; cat /etc/debian_version | cut -d . -f 1; command -v python3 python3.11 walflow"
    )
    begin = time.monotonic()
    page.type(f"apt-get install --yes --no-install-recommends ./{package.name}", _set_up)
    page.type(ECHO)
    took = time.monotonic() - begin
    assert took < SECONDS, f"it took {took:.0f} s"
    page.say(f"The echo came within {SECONDS} seconds of `apt-get install`.")


def _set_up(text: str) -> str:
    return "".join(re.findall(r"^Setting up walflow.*\n|^walflow:.*\n|^E:.*\n|.*[Ee]rror.*\n", text, re.MULTILINE))


def _use(page: Transcript) -> None:
    page.say("## Look at it")
    page.type("walflow --version; systemctl is-enabled walflow; systemctl is-active walflow; walflow status --ready")
    page.type("stat --format %U /proc/$(systemctl show --property MainPID --value walflow)")
    page.type("ls /var/lib/walflow; stat --format '%U %a %n' /var/lib/walflow /etc/walflow/main.troy")
    page.type("man walflow-run | head -n 8")
    page.type(
        "COMP_WORDS='walflow w' COMP_CWORD=1 _WALFLOW_COMPLETE=complete_bash walflow; ls "
        "/usr/share/*/*completions*/*walflow*"
    )
    page.type(
        "systemd-analyze verify walflow.service; logrotate --debug /etc/logrotate.d/walflow 2>&1 | grep -i error"
    )


def _kill(page: Transcript, machine: Machine) -> None:
    page.say(
        "## Kill it while a client sends\n\n```text\n# cat send.py\n"
        + SEND
        + "```\n\n```text\n# cat count.py\n"
        + COUNT
        + "```"
    )
    with _sending(machine):
        page.type("systemctl kill --signal=KILL walflow")
    page.say("systemd starts it again. The client connects again, goes on for 200 numbers, and ends. Then:")
    page.type("python3.11 count.py")


def _upgrade(page: Transcript, machine: Machine, package: Path) -> None:
    page.say("## Upgrade it while a client sends")
    with _sending(machine):
        page.type(f"apt-get install --yes ./{package.name}", _set_up)
    page.type("walflow --version; python3.11 count.py")


class _sending:
    """`send.py` runs, before and behind what is done meanwhile for 200 numbers each."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._last = machine.root / "root" / "last"

    def __enter__(self) -> None:
        self._sender = self._machine.start("python3.11 send.py")
        self._two_hundred()

    def __exit__(self, *_: object) -> None:
        self._two_hundred()
        (self._machine.root / "root" / "stop").touch()
        said = self._sender.communicate(timeout=100)[0]
        assert self._sender.returncode == 0, said
        (self._machine.root / "root" / "stop").unlink()

    def _two_hundred(self) -> None:
        begin = self._number()
        wait_until(lambda: self._number() >= begin + 200)

    def _number(self) -> int:
        try:
            return int(self._last.read_text() or "0")
        except (OSError, ValueError):
            return 0


def _rotate(page: Transcript, machine: Machine) -> None:
    page.say("## Rotate what it writes")
    page.type("logrotate --force /etc/logrotate.d/walflow; " + ECHO + "; ls /var/lib/walflow")
    page.type("python3.11 count.py")


def _remove(page: Transcript) -> None:
    page.say("## Remove it")
    page.type(
        "apt-get remove --yes walflow", lambda text: "".join(re.findall(r"^Removing walflow.*\n", text, re.MULTILINE))
    )
    page.type("ls -d /opt/walflow /usr/bin/walflow; systemctl is-active walflow; ls /etc/walflow")
    page.type(
        "apt-get purge --yes walflow",
        lambda text: "".join(re.findall(r"^(?:Purging|walflow:).*\n", text, re.MULTILINE)),
    )
    page.type("apt-get autoremove --purge --yes | grep -c ^Removing", lambda text: "" if int(text) else "0")


def _files(machine: Machine) -> set[str]:
    return {
        name
        for path in machine.root.rglob("*")
        if not (name := f"/{path.relative_to(machine.root)}").startswith(NOT_OURS)
    }


def _short(names: Sequence[str]) -> list[str]:
    """Chunks of the log and rotated files have numbers that differ."""
    return sorted({re.sub(r"\d{5,}|(?<=spare\.)\d+", "…", name) for name in names})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = session(Path(folder))
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)  # noqa: T201


if __name__ == "__main__":
    main()
