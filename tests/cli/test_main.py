"""The program around the commands: what it prints on, and what comes of that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.daemon import ROOT
from walflow import __version__
from walflow.cli import COMMANDS, GROUPS

FLOW = ROOT / "flows" / "echo" / "server.troy"
FULL = Path("/dev/full")

# What a terminal's Ctrl-C is, at the moment at which a module is looked for.
INTERRUPTED_AT = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

module = sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, CtrlC())
from walflow_command import main
main()
"""


def walflow(*arguments: str | Path, stdout: int | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "walflow", *map(str, arguments)]
    return subprocess.run(
        command,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | env,
        timeout=100,
        check=False,
    )


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [("check", FLOW), ("graph", FLOW), ("schema",), ("--version",)])
def test_a_full_disk_is_no_bug(command: tuple[str | Path, ...]) -> None:
    with FULL.open("wb") as full:
        ended = walflow(*command, stdout=full.fileno())
    assert ended.stderr == b"walflow: cannot write the output: No space left on device\n"
    assert ended.returncode == 74


VERSION = """
import sys
import walflow_command

before = set(sys.modules)
sys.argv[1:] = ["--version"]
walflow_command.main()
print(sorted(set(sys.modules) - before))
"""


def test_the_version_needs_no_import() -> None:
    """Red before: 515 modules, pydantic and pygments among them, for one line."""
    command = [sys.executable, "-c", VERSION]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    assert printed == f"walflow {__version__}\n[]\n"


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_the_version_on_a_full_disk_is_no_bug() -> None:
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [Path(sys.executable).with_name("walflow"), "--version"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (ended.returncode, ended.stderr) == (
        74,
        b"walflow: cannot write the output: No space left on device\n",
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_the_terminal_cannot_show_is_escaped(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff.troy")
    file.write_text("const a = \N{SNOWMAN};", encoding="utf-8")
    ended = walflow("check", file, PYTHONIOENCODING=encoding)
    assert b".troy:1:11: error: unexpected character `\\u2603`\n" in ended.stdout
    assert (ended.returncode, ended.stderr) == (78, b"")


def test_a_name_that_is_no_text_is_told_once_it_is_made(tmp_path: Path) -> None:
    ended = walflow("new", tmp_path / os.fsdecode(b"a \xff"), PYTHONIOENCODING="utf-8:strict")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert f"cd '{tmp_path}/a \\udcff'".encode() in ended.stdout


@pytest.mark.parametrize(
    "module", ["walflow", "msgspec", "typer", "walflow.cli.check", "lark", "walflow.runtime.daemon"]
)
def test_an_interrupt_while_it_imports_is_silent(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT, module, "run" if "runtime" in module else "check", str(FLOW)]
    ended = subprocess.run(command, capture_output=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


AT_ONCE = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, CtrlC())
"""


@pytest.mark.parametrize("module", ["walflow.backoff", "msgspec", "walflow.cli"])
def test_an_interrupt_of_the_module_while_it_imports_is_silent(module: str, tmp_path: Path) -> None:
    """`python -m walflow` imports the package before any code of the command runs."""
    (tmp_path / "sitecustomize.py").write_text(AT_ONCE)
    ended = walflow("check", FLOW, PYTHONPATH=str(tmp_path), INTERRUPT_AT=module)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


WAL_COMMANDS = "there is stats, check, dump, repair, skip, rename, retain, consumers, forget, export, import"


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (["help"], "write `walflow --help`"),
        (["version"], "write `walflow --version`"),
        (
            ["zzz"],
            (
                "there is run, check, fmt, graph, lsp, new, test, repl, doc, doctor, schema, status, reload, replay, "
                "top, tap, connectors, wal, letters, frontier"
            ),
        ),
        (["wal", "inspect"], WAL_COMMANDS),
        (["connectors", "tcp_server"], "write `walflow connectors show tcp_server`, or `walflow connectors list`"),
        (["connectors", "sqlite"], "write `walflow connectors show sqlite`, or `walflow connectors list`"),
        (["wal", "help"], WAL_COMMANDS),
    ],
)
def test_a_command_that_there_is_not(arguments: list[str], known: str) -> None:
    done = walflow(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"walflow: no command `{arguments[-1]}`: {known}\n"


def test_a_command_that_is_mistyped() -> None:
    assert b"Did you mean" in walflow("chek").stderr


def test_a_command_imports_no_other_and_no_library_that_it_does_not_need() -> None:
    """An import that is not needed costs tenths of a second at each call of the command."""
    told = (
        "import sys; from walflow.cli import main; import atexit; "
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", told, "fmt", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "walflow.cli.fmt" in loaded
    assert loaded.isdisjoint({"walflow.cli.run", "walflow.cli.doctor", "structlog", "aiohttp", "http.client"})


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_the_help_names_all_commands(words: tuple[str, ...]) -> None:
    shown = walflow(*words).stdout.decode()
    for name in (*COMMANDS, *GROUPS):
        assert f" {name} " in shown
