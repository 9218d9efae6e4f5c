"""The first session of a new user, typed into terminals: install, new, check, run, tap, top, break it, mend it,
upgrade it.

    python -m demo.newcomer              # prints the page
    python -m demo.newcomer --write      # writes docs/howto/first-session.md

tests/docs/test_first_session.py compares the page.

The wheel is built from this checkout. The new environment sees the packages of the present one, without walflow: so
the session needs no network. What differs from run to run is masked, by RULES; nothing else is changed.
"""

import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Final

import pexpect
import typer

from demo.server import ROOT, free_port
from walflow import __version__

PAGE: Final = ROOT / "docs" / "howto" / "first-session.md"
PROMPT: Final = "@@> "
PATIENCE: Final = 120  # seconds; a machine may be busy
ROWS_AND_COLUMNS: Final = (50, 100)

RULES: Final = (
    (r"\x1b\[[0-9;?]*[a-zA-Z]", "", "colours are left out"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "2026-01-01T12:00:00Z", "each time is noon of one day"),
    (r"\bpid([ =])\d+", r"pid\g<1>4242", "each process is 4242"),
    (r", up [^:]+:", ", up 9 s:", "the daemon is up for 9 seconds"),
    (r'"port":\d+', '"port":50000', "the port of a client is 50000"),
    (r"(?<=[ ])\d+M\b", "16M", "a log takes 16 MiB of disk"),
    (r"_total=\d+", "_total=9", "totals of the log line `stopped` are 9"),
    (r"durable=\d{3,}", "durable=100", "a log that has more than 100 events has 100"),
    (
        r"\bwalflow([ -])(?!1\.0\.1\b)\d+\.\d+\.\d+",
        r"walflow\g<1>1.0.0",
        "the version is 1.0.0, and the newer one 1.0.1",
    ),
)
RATES: Final = ("read/s", "acked/s")

BUILT_FROM: Final = ("walflow", "walflow_kernel", "connectors", "pyspark_walflow", "packaging", "editors")
FILES_BUILT_FROM: Final = ("pyproject.toml", "walflow_command.py", "README.md", "LICENSE")
OURS: Final = {"walflow", "walflow_kernel", "connectors", "pyspark_walflow", "walflow_command.py"}

SEND: Final = """\
import socket, sys

with socket.create_connection(("127.0.0.1", 65535)) as server:
    answers = server.makefile()
    for number in sys.argv[1:]:
        server.sendall(b'{"n": %s}\\n' % number.encode())
        print("echoed:", answers.readline(), end="")
"""

SEND_ON: Final = """\
import socket, time

number = 3
after = 0  # echoes since the connection was lost
lost = False
while after < 100:
    try:
        with socket.create_connection(("127.0.0.1", 65535)) as server:
            answers = server.makefile()
            while after < 100:
                server.sendall(b'{"n": %d}\\n' % (number + 1))
                if not answers.readline():
                    break  # no echo: the next connection sends this number again
                number += 1
                after += lost
                if number == 103:
                    print("100 echoed", flush=True)
                time.sleep(0.005)
    except OSError:
        time.sleep(0.1)
    lost = True
print("100 more echoed, after the connection was lost")
open("last", "w").write(str(number))
"""

COUNT: Final = """\
import collections, json

found = collections.Counter(json.loads(line)["n"] for line in open("out.log"))
sent = range(1, int(open("last").read()) + 1)
print("missing:", [n for n in sent if n not in found], "twice:", [n for n in found if found[n] > 1])
"""

HEAD: Final = """\
# A first session

What a new user types, and what comes back. A program typed it into terminals, from an empty directory.
`make transcript` writes this page anew, and a test compares it. The wheel is that of
[Install walflow](install.md): `python -m build --wheel` in the checkout.

What differs from run to run is masked:

{rules}
- each rate is 1.0, and the log lines of a start are sorted;
- the ports are those of the flow file, and `--set url=…` and `--admin …` are left out, by which \
the program takes free ones.

"""


class Page:
    """What the session shows, step by step."""

    def __init__(self, real: Mapping[str, str]) -> None:
        self._real = real
        self.parts: list[str] = []

    def say(self, words: str) -> None:
        self.parts.append(f"{words}\n")

    def show(self, terminal: str, typed: str, output: str, *, in_order: bool = True) -> None:
        lines = [f"# {terminal}", f"$ {typed}"] if typed else [f"# {terminal}"]
        printed = self.masked(output)
        self.parts.append("\n".join(["```text", *lines, *(printed if in_order else sorted(printed)), "```"]) + "\n")

    def masked(self, output: str) -> list[str]:
        for real, instead in self._real.items():
            output = re.sub(rf"\b{re.escape(real)}\b", instead, output)
        for pattern, instead, _ in RULES:
            output = re.sub(pattern, instead, output.replace("\r", ""))
        return [line.rstrip() for line in _rates_masked(output.strip("\n").splitlines())]

    def text(self) -> str:
        rules = "\n".join(f"- {words};" for _, _, words in RULES)
        return HEAD.format(rules=rules) + "\n".join(self.parts)


def _rates_masked(lines: Sequence[str]) -> Iterator[str]:
    """Under the heads of their columns."""
    columns: list[tuple[int, int]] = []
    for line in lines:
        found = [line.find(head) for head in RATES]
        if min(found) >= 0:
            columns = [(at, at + len(head)) for at, head in zip(found, RATES, strict=True)]
        elif columns:
            for begin, end in columns:
                if any(char.isdigit() for char in line[begin:end]):
                    line = f"{line[:begin]}{'1.0':>{end - begin}}{line[end:]}"
        yield line


class Terminal:
    """bash in a terminal of its own."""

    def __init__(self, page: Page, name: str, folder: Path) -> None:
        self._page = page
        self._name = name
        kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        env = {
            **kept,
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PATH": f"{folder}/venv/bin:{Path(sys.executable).resolve().parent}:/usr/bin:/bin",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INDEX": "1",  # all that it needs is there
            "PIP_ROOT_USER_ACTION": "ignore",
            "PS1": PROMPT,
            "TERM": "xterm-256color",
        }
        self._child: pexpect.spawn[str] = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile", "--noediting"],
            env=env,
            cwd=str(folder),
            encoding="utf-8",
            timeout=PATIENCE,
            dimensions=ROWS_AND_COLUMNS,
        )
        self._child.expect_exact(PROMPT)
        self.quietly("stty -echo")

    def close(self) -> None:
        """After an error something may still run: the daemon ends at the second Ctrl-C,
        a hangup it takes for a reload."""
        self._child.sendcontrol("c")
        self._child.sendcontrol("c")
        with suppress(pexpect.TIMEOUT, pexpect.EOF):
            self._child.expect_exact(PROMPT, timeout=10)
        self._child.close(force=True)

    def quietly(self, command: str) -> str:
        """Not for the page."""
        self._child.sendline(command)
        self._child.expect_exact(PROMPT)
        return str(self._child.before)

    def type(self, command: str, real: str = "") -> None:
        """`real`: what is typed in fact, as with a port that is free."""
        self._page.show(self._name, command, self.quietly(real or command))

    def start(self, command: str, real: str, until: str = "") -> None:
        """What then goes on in this terminal. `until`: what it prints when it is there."""
        self._child.sendline(real)
        if until:
            self._child.expect(rf"{until}[^\n]*\n")
            self._page.show(self._name, command, f"{self._child.before}{self._child.after}", in_order=False)
        else:
            self._page.show(self._name, command, "")

    def ended(self, key: str = "") -> None:
        """What was started ends, by Ctrl-C if `key` says so."""
        if key:
            self._child.sendcontrol("c")
        self._child.expect_exact(PROMPT)
        self._page.show(self._name, key, str(self._child.before))


def session() -> str:
    """The page."""
    port, admin = free_port(), free_port()
    newer = _newer(__version__)
    page = Page(
        {
            str(port): "65535",
            str(admin): "9898",
            f"walflow {newer}": "walflow 1.0.1",
            f"walflow-{newer}": "walflow-1.0.1",
        }
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="walflow-first-session-")))
        _build(ROOT, folder)
        first, second, third = (_terminal(stack, page, f"terminal {number}", folder) for number in (1, 2, 3))
        page.say("## Install")
        first.quietly("umask 022")
        first.type("ls")
        first.quietly("python3 -m venv venv")
        page.show("terminal 1", "python3 -m venv venv", "")
        _lend_packages(folder)
        installed = first.quietly("venv/bin/pip install ./walflow-*.whl | tail -n 1")
        page.show("terminal 1", "venv/bin/pip install ./walflow-*.whl | tail -n 1", installed)
        first.type("export PATH=$PWD/venv/bin:$PATH; walflow --version")
        page.say("## Make a flow, and check it")
        first.type("walflow new echo")
        first.type("cd echo; walflow check main.troy | tail -n 3")
        page.say("## Run it")
        run = f"walflow run main.troy --tap --set url=127.0.0.1:{port} --admin 127.0.0.1:{admin}"
        at = f"--admin 127.0.0.1:{admin}"
        first.start("walflow run main.troy --tap", run, until="ready")
        for other in (second, third):
            other.quietly("cd echo; export PATH=$PWD/../venv/bin:$PATH")
        page.say("## Watch events, and send some")
        third.start("walflow tap echo/log/in --count 2", f"walflow tap echo/log/in --count 2 {at}")
        _until(lambda: b"walflow_open_taps 1" in _metrics(admin))
        (folder / "echo" / "send.py").write_text(SEND.replace("65535", str(port)))
        second.type("cat send.py")
        second.type("python3 send.py 1 2")
        third.ended()
        second.type("cat out.log")
        page.say("## How much, and where it waits")
        _until(lambda: re.search(r"(?m)^log .* 0 +\d+M\s*$", _plain(second.quietly(f"walflow top --once {at}"))))
        second.type("walflow top --once --sort name", f"walflow top --once --sort name {at}")
        page.say("## Break it")
        second.type("sed -i s/append/appand/ main.troy; walflow check main.troy; echo $?")
        page.say(
            "The daemon still runs with what it read at its start. Stopped, it does not start again with this file:"
        )
        first.ended("^C")
        first.type("walflow run main.troy; echo $?")
        page.say("## Mend it, and start again")
        second.type("sed -i s/appand/append/ main.troy; walflow check main.troy | tail -n 1")
        first.start("walflow run main.troy --tap", run, until="ready")
        second.type("python3 send.py 3")
        second.type("cat out.log")
        page.say("## Upgrade it while a sender goes on")
        checkout = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="walflow-newer-")))
        _build(_copied(checkout, newer), folder)
        (folder / "echo" / "send_on.py").write_text(SEND_ON.replace("65535", str(port)))
        (folder / "echo" / "count.py").write_text(COUNT)
        second.type("ls ..")
        second.type("cat send_on.py")
        third.start("python3 send_on.py", "python3 send_on.py", until="100 echoed")
        second.type("walflow --version")
        first.ended("^C")
        wheel = f"../walflow-{newer}-*.whl"
        second.type(
            "../venv/bin/pip install --upgrade ../walflow-1.0.1-*.whl | tail -n 1",
            f"../venv/bin/pip install --upgrade {wheel} | tail -n 1",
        )
        second.type("walflow --version")
        first.start("walflow run main.troy --tap", run, until="ready")
        third.ended()
        second.type("walflow status | head -n 1", f"walflow status {at} | head -n 1")
        first.ended("^C")
        page.say("Each number that was echoed is in the file, once:")
        second.type("cat count.py; python3 count.py")
    return page.text()


def _build(checkout: Path, folder: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(checkout)]
    subprocess.run(build, check=True, capture_output=True, timeout=PATIENCE)


def _newer(version: str) -> str:
    major, minor, patch = version.split(".")
    return f"{major}.{minor}.{int(patch) + 1}"


def _copied(folder: Path, version: str) -> Path:
    """What a wheel is built from, with this version."""
    for name in BUILT_FROM:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES_BUILT_FROM:
        shutil.copy(ROOT / name, folder / name)
    file = folder / "walflow_kernel" / "version.py"
    text = file.read_text("utf-8")
    assert text.count(f'"{__version__}"') == 1
    file.write_text(text.replace(f'"{__version__}"', f'"{version}"'), "utf-8")
    return folder


def _terminal(stack: ExitStack, page: Page, name: str, folder: Path) -> Terminal:
    terminal = Terminal(page, name, folder)
    stack.callback(terminal.close)
    return terminal


def _lend_packages(folder: Path) -> None:
    """To the new environment those of this one, and not walflow."""
    lent = folder / "venv" / "lent"
    lent.mkdir()
    for packages in map(Path, site.getsitepackages()):
        for entry in packages.iterdir():
            ours = entry.name.partition("-")[0] in OURS or entry.suffix == ".pth"
            if not ours and not (lent / entry.name).exists():
                (lent / entry.name).symlink_to(entry)
    (own,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    for older in own.glob("setuptools*") if any(lent.glob("setuptools*")) else ():
        shutil.rmtree(older)  # Python 3.11 brings one with pip, which would count
    (own / "lent.pth").write_text(f"{lent}\n")


def _metrics(admin: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=PATIENCE) as answer:
        metrics: bytes = answer.read()
    return metrics


def _until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("the daemon did not get there")
        time.sleep(0.05)


def _plain(output: str) -> str:
    return re.sub(RULES[0][0], "", output).replace("\r", "")


def main(write: Annotated[bool, typer.Option("--write", help="Write the page into docs/.")] = False) -> None:
    text = session()
    if write:
        PAGE.write_text(text, "utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    typer.run(main)
