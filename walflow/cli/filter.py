"""`walflow run` of a script or a pipeline: from a file to a file."""

import json
import os
import signal
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import typer

from walflow.admin.text import printable
from walflow.exit_codes import EX_CANTCREAT, EX_CONFIG, EX_FINDINGS, EX_IOERR, EX_NOINPUT, EX_USAGE

if TYPE_CHECKING:
    from walflow.compile.nodes import Expr
    from walflow.filters import Complaints, Filter, Wires
    from walflow.plan.alone import Alone, Loaded

QUERY: Final = ".trickle"
SCRIPT: Final = ".tremor"


class FilterOptions(NamedTuple):
    """As they are given. None: not at all."""

    input: Path | None = None
    output: Path | None = None
    decoder: str | None = None
    encoder: str | None = None
    preprocessors: Sequence[str] | None = None
    postprocessors: Sequence[str] | None = None
    ports: Sequence[str] | None = None
    pipeline: str | None = None

    @property
    def given(self) -> bool:
        return any(one for one in self)


def is_filter(files: Sequence[Path], options: FilterOptions) -> bool:
    """Not a flow for the daemon. Beside a YAML file, a query is the pipeline of an older configuration."""
    return options.given or all(file.suffix in (QUERY, SCRIPT) for file in files)


def refuse_mixed(files: Sequence[Path], command: str) -> None:
    """Ends where a script stands beside other files. Called for what is no filter as a whole."""
    script = next((file for file in files if file.suffix == SCRIPT), None)
    if script is not None:
        wants = f"walflow {command} {script}" + (" -i INPUT -o OUTPUT" if command == "run" else "")
        raise _end(f"{script} is a script, and has a command of its own: {wants}", EX_USAGE)


def run_filter(files: Sequence[Path], options: FilterOptions, args: Sequence[str], *, flush: bool) -> int:
    """The exit code. `args`: of `--set`. `flush`: at the end of the input open windows are closed."""
    from walflow.filters import Complaints, Filter

    # a filter is one of a row of commands: it ends as they do
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if len(files) > 1:
        raise _end("one script or pipeline at a time; flow files (.troy) run together without -i and -o", EX_USAGE)
    wires = _wires(options)
    alone = _loaded(files[0], options, args)
    entry, ports = _entry(alone), _ports(alone, options.ports or ["out"])
    with _opened_input(options) as source, _opened_output(options) as sink:
        name = str(options.input or "stdin")
        complaints = Complaints(alone.assembly, lambda text: typer.echo(printable_lines(text), err=True))

        def write(data: bytes) -> None:
            left = memoryview(data)
            while left:
                left = left[os.write(sink, left) :]

        made = Filter(alone, wires, entry, ports, write, complaints, name, flushes=flush)
        return _followed(made, complaints, source, name, str(options.output or "stdout"))


def _followed(made: "Filter", complaints: "Complaints", source: int, name: str, target: str) -> int:
    from walflow.diagnostics import one_of
    from walflow.filters import OutputLost

    try:
        made.follow(source)
    except OSError as error:
        raise _end(f"cannot read {name}: {error.strerror}", EX_IOERR) from None
    except OutputLost as lost:
        raise _end(f"cannot write {target}: {lost}", EX_IOERR) from None
    complaints.end()
    for port, count in made.unwritten.items():
        events = "1 event" if count == 1 else f"{count:,} events"
        typer.echo(
            f"walflow: {events} left by {one_of([port])} and {_was(count)} not written: `--port {port}`", err=True
        )
    return EX_FINDINGS if complaints.count else 0


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def load_filter(file: Path, pipeline: str | None, written: Sequence[str]) -> "Loaded":
    """`written`: the values of `--set`. Ends the command where there is no such file."""
    from walflow.diagnostics import Diagnostic
    from walflow.lang.files import read
    from walflow.plan.alone import load_definition, load_query, load_script, saying_where_args_come_from

    source = read(file, 0)
    if isinstance(source, Diagnostic):
        raise _end(source.message, EX_NOINPUT)
    args = dict(_args(written))
    if file.suffix in (QUERY, SCRIPT) and pipeline is None:
        alone, found = (load_script if file.suffix == SCRIPT else load_query)(source, args, "run")
        return alone, saying_where_args_come_from(found, "give it a value: `--set NAME=VALUE`")
    return load_definition(source, pipeline, args, "run")


def _loaded(file: Path, options: FilterOptions, written: Sequence[str]) -> "Alone":
    from walflow.diagnostics import render_all

    alone, diagnostics = load_filter(file, options.pipeline, written)
    if diagnostics:
        typer.echo(printable_lines(render_all(diagnostics)), err=True)
    if alone is None:
        raise typer.Exit(EX_CONFIG)
    results = {buffer for plan in alone.assembly.pipelines if plan.domain for buffer in plan.domain.buffers}
    for log in sorted(alone.logs - results):
        typer.echo(f"walflow: {log.name} stores nothing here: events pass it", err=True)
    return alone


def _args(written: Sequence[str]) -> "Iterator[tuple[str, Expr]]":
    from walflow.diagnostics import Source, Span
    from walflow.lang.outside import OPTION, value_of
    from walflow.lang.standalone import literal

    for one in written:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise _end(f"{OPTION} {one}: write `{OPTION} name=value`", EX_USAGE)
        value = literal(value_of(text), Span(Source(OPTION, one), 0, len(one)))
        assert value is not None, "JSON can be written in the language"
        yield name, value


def _wires(options: FilterOptions) -> "Wires":
    from walflow import codecs, framing
    from walflow.errors import WalflowError
    from walflow.filters import Wires

    try:
        decoder = codecs.make(*_named(options.decoder or "json"))
        encoder = codecs.make(*_named(options.encoder or options.decoder or "json"))
        before = framing.incoming([_named(one) for one in options.preprocessors or ["separate"]])
        after = framing.outgoing([_named(one) for one in options.postprocessors or ["separate"]])
    except WalflowError as refused:
        raise _end(str(refused), EX_USAGE) from None
    return Wires(decoder, before, encoder, after)


def _named(text: str) -> tuple[str, Mapping[str, object]]:
    """`json`, or `{"name": "json", "config": {…}}`."""
    if not text.startswith("{"):
        return text, {}
    try:
        found = json.loads(text)
        return str(found["name"]), dict(found.get("config", {}))
    except (ValueError, KeyError, TypeError):
        raise _end(f'{text}: write a name, or {{"name": …, "config": {{…}}}}', EX_USAGE) from None


def _entry(alone: "Alone") -> str:
    from walflow.diagnostics import one_of

    entries = list(alone.entries)
    if "in" in entries or len(entries) == 1:
        return "in" if "in" in entries else entries[0]
    raise _end(f"this pipeline has the inputs {one_of(entries).replace(' or ', ' and ')}, and none is `in`", EX_USAGE)


def _ports(alone: "Alone", wanted: Sequence[str]) -> Sequence[str]:
    from walflow.diagnostics import did_you_mean, one_of

    known = list(alone.exits.values())
    for port in wanted:
        if port not in known and port != "out":
            hint = did_you_mean(port, known) or f"there is {one_of(known)}"
            raise _end(f"--port {port}: no such output; {hint}", EX_USAGE)
    return wanted


@contextmanager
def _opened_input(options: FilterOptions) -> Generator[int]:
    path = options.input
    if path is None or str(path) == "-":
        yield sys.stdin.fileno()
        return
    if path.is_dir():
        raise _end(f"--input {path}: is a directory", EX_NOINPUT)
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise _end(f"--input {path}: {error.strerror}", EX_NOINPUT) from None
    with closing(fd):
        yield fd


@contextmanager
def _opened_output(options: FilterOptions) -> Generator[int]:
    path, source = options.output, options.input
    if path is None or str(path) == "-":
        yield sys.stdout.fileno()
        return
    try:
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise _end(f"--output {path}: this is the input too, which would be lost", EX_USAGE)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except OSError as error:
        raise _end(f"--output {path}: {error.strerror}", EX_CANTCREAT) from None
    with closing(fd):
        yield fd


@contextmanager
def closing(fd: int) -> Generator[None]:
    try:
        yield
    finally:
        os.close(fd)


def _end(line: str, code: int) -> typer.Exit:
    typer.echo(f"walflow: {printable(line)}", err=True)
    return typer.Exit(code)
