"""`walflow repl`: expressions and scripts over an event, at a prompt."""

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from walflow.admin.text import printable
from walflow.exit_codes import EX_FINDINGS, EX_USAGE

if TYPE_CHECKING:
    from walflow.repl import ReplSession

PROMPT: Final = "> "
MORE: Final = ". "
HISTORY: Final = 1_000  # lines
_BREAKS: Final = " \t\n\"'(){}[],;=+-*/%<>!&|^#"  # what stands between words; a path is one


def repl(
    event: Annotated[
        str | None, typer.Option("--event", "-e", metavar="JSON", help="The event. Default: an empty record.")
    ] = None,
    history: Annotated[
        bool, typer.Option(help="Keep the lines that were typed in $XDG_STATE_HOME/walflow/repl-history.")
    ] = True,
) -> None:
    """Try expressions and scripts on an event, line by line. :help lists the commands.

    What stands on stdin is run if that is no terminal; then the exit code is 1 if a line was wrong.
    """
    from walflow.repl import ReplSession

    session = ReplSession()
    if event is not None and (wrong := session.feed(f":event {event}")).failed:
        typer.echo(f"walflow: --event: {printable(wrong.lines[0])}", err=True)
        raise typer.Exit(EX_USAGE)
    if sys.stdin is not None and sys.stdin.isatty():
        typer.echo("An expression or a script; :help lists the commands, Ctrl-D ends.")
        with _line_editing(session, history=history):
            _talk(session, _asked)
    elif not _talk(session, _read()):
        raise typer.Exit(EX_FINDINGS)


def _talk(session: "ReplSession", ask: "Callable[[str], str | None]") -> bool:
    """Whether all lines were fine."""
    sound, prompt = True, PROMPT
    while (line := ask(prompt)) is not None:
        if line == _INTERRUPT:
            session.interrupt()
            prompt = PROMPT
            continue
        answer = session.feed(line)
        _show(answer.lines)
        sound = sound and not answer.failed
        prompt = MORE if answer.more else PROMPT
        if answer.ends:
            return sound
    last = session.end()
    _show(last.lines)
    return sound and not last.failed


def _show(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo("\n".join(printable(one) for one in line.split("\n")))


_INTERRUPT: Final = "\x03"


def _asked(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        typer.echo()
        return None
    except KeyboardInterrupt:
        typer.echo()
        return _INTERRUPT


def _read() -> "Callable[[str], str | None]":
    lines = iter(sys.stdin if sys.stdin is not None else ())
    return lambda _: line.rstrip("\r\n") if (line := next(lines, None)) is not None else None


@contextlib.contextmanager
def _line_editing(session: "ReplSession", *, history: bool) -> Generator[None]:
    """Python may be built without it; a history that cannot be read or kept is none."""
    try:
        import readline
    except ImportError:
        yield
        return
    from walflow.repl import completions

    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            found[:] = completions(session, readline.get_line_buffer()[: readline.get_endidx()], word)
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(_BREAKS)
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    file = _history_file() if history else None
    if file is not None:
        with contextlib.suppress(OSError):
            readline.read_history_file(file)
    try:
        yield
    finally:
        if file is not None:
            with contextlib.suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                readline.set_history_length(HISTORY)
                readline.write_history_file(file)


def _history_file() -> Path | None:
    state = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(state) if state else Path.home() / ".local/state") / "walflow" / "repl-history"
    except RuntimeError:  # no home
        return None
