"""`walflow repl`: with a file on stdin, and at a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from walflow.cli import app


def repl(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(app(), ["repl", *arguments], input=text)


def test_lines_on_stdin() -> None:
    result = repl("event.a + 1\nlet x = 2\nx * 3\n", "--event", '{"a": 1}')
    assert (result.exit_code, result.stdout) == (0, "2\n6\n")


def test_what_is_not_complete_at_the_end() -> None:
    result = repl("1\nmatch event of\n")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[:2] == [
        "1",
        "repl:1:15: error: expected `case` or `default`, found the end of the file",
    ]


def test_a_mistake_stops_no_line_behind_it() -> None:
    result = repl("event.a\n1\n:quit\n2\n")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "1"


def test_an_event_that_is_none() -> None:
    result = repl("", "--event", "{")
    assert result.exit_code == 2
    assert result.stderr.startswith("walflow: --event: not JSON: ")


class Terminal:
    """A process at a terminal of its own."""

    def __init__(self, state: Path) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "dumb", "INPUTRC": "/dev/null"}
        command = [sys.executable, "-m", "walflow", "repl"]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def shows(self, pattern: str) -> None:
        """Waits for it, and forgets what stood before."""
        while not (found := re.search(pattern, self._shown)):
            assert select.select([self._master], [], [], 60)[0], f"no {pattern!r} in {self._shown!r}"
            self._shown += os.read(self._master, 4096).decode()
        self._shown = self._shown[found.end() :]

    def interrupt(self, pattern: str) -> None:
        """Ctrl-C until it shows: Python's readline does not notice one that comes before it waits for a key."""
        self.process.send_signal(signal.SIGINT)
        while not re.search(pattern, self._shown):
            if select.select([self._master], [], [], 1)[0]:
                self._shown += os.read(self._master, 4096).decode()
            else:
                self.process.send_signal(signal.SIGINT)
        self.shows(pattern)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_at_a_terminal(tmp_path: Path) -> None:
    """Prompts, what tab makes of a word, Ctrl-C for a line, Ctrl-D for the end; and the lines are there next time."""
    terminal = Terminal(tmp_path)
    try:
        terminal.shows("Ctrl-D ends")
        terminal.shows("> ")
        terminal.type("40 + 2\r")
        terminal.shows(r"\n42\r\n> ")
        terminal.type('string::is_e\t"")\r')
        terminal.shows(r"string::is_empty\(\"\"\)")
        terminal.shows(r"\ntrue\r\n> ")
        terminal.type("match event of\r")
        terminal.shows(r"\n\. ")
        terminal.interrupt("> ")
        terminal.type("event.a\r")
        terminal.shows("repl:2:1: error: ")
        terminal.shows("> ")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()
    assert (tmp_path / "walflow" / "repl-history").read_text().splitlines()[0] == "40 + 2"


def test_a_history_that_cannot_be_kept_is_none(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("a file, no folder")
    terminal = Terminal(state)
    try:
        terminal.shows("> ")
        terminal.type("1 + 1\r")
        terminal.shows(r"\n2\r\n> ")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()
