"""`walflow new`: makes a directory with a flow to start from."""

import keyword
import re
import shlex
import sys
from collections.abc import Callable, Collection
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from walflow import codecs, framing, operators
from walflow.exit_codes import EX_CANTCREAT, EX_USAGE
from walflow.registry import connectors

NAME: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
OURS: Final = ("connectors", "pyspark_walflow", "walflow", "walflow_kernel")


class Starter(NamedTuple):
    """`then`: commands to type next. `stands_for`: of a Python package,
    the word that its own name takes the place of.
    `taken`: names that walflow knows already. `folders`: empty ones that the flow needs."""

    what: str
    then: tuple[str, ...]
    stands_for: str = ""
    taken: Callable[[], Collection[str]] = tuple
    folders: tuple[str, ...] = ()


_ECHO: Final = "exec 3<>/dev/tcp/127.0.0.1/65535; echo '{\"n\": 1}' >&3; head -n 1 <&3     # in bash"
_LINE: Final = "exec 3<>/dev/tcp/127.0.0.1/65535; echo '%s' >&3     # in bash"
# A window is written once a line comes 5 s after its end: one line alone gives no result.
_LINES: Final = (
    'while sleep 1; do echo \'{"host": "web-1"}\'; done > /dev/tcp/127.0.0.1/65535'
    "     # in bash; the first count comes within a minute"
)
ACCESS: Final = '127.0.0.1 - - [23/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8"'
TEMPLATES: Final = {
    "echo": Starter(
        "a server that logs each line, writes it to a file and sends it back",
        ("walflow check main.troy", "walflow run main.troy", _ECHO),
    ),
    "forward": Starter(
        "lines of a file, logged, to a server that sends each one back",
        ("walflow check main.troy", "walflow run main.troy"),
    ),
    "http": Starter(
        "a server that takes events by HTTP, logs them and writes them to a file",
        ("walflow check main.troy", "walflow run main.troy", "curl -d '{\"n\": 1}' http://127.0.0.1:8080"),
    ),
    "follow": Starter(
        "log files that grow, each line logged and written to one file, with the name of its file",
        ("walflow check main.troy", "walflow run main.troy", "echo hello >> incoming/app.log"),
        folders=("incoming",),
    ),
    "syslog": Starter(
        "syslog by UDP and TCP, logged and written to a file as JSON",
        ("walflow check main.troy", "walflow run main.troy", "logger -n 127.0.0.1 -P 5514 -d hello"),
    ),
    "access-log": Starter(
        "access logs of Apache or nginx, each line as a record, logged and written to a file as JSON",
        ("walflow check main.troy", "walflow run main.troy", f"echo '{ACCESS}' >> incoming/access.log"),
        folders=("incoming",),
    ),
    "kafka": Starter(
        "lines by TCP, logged, to a topic of Kafka; and the topic to a file",
        ("walflow check --environment main.troy", "walflow run main.troy", _LINE % '{"n": 1}'),
    ),
    "spark": Starter(
        "lines by TCP, logged, a query on Spark, its results in a file",
        ("walflow check --spark main.troy", "walflow run main.troy", _LINES),
    ),
    "connector": Starter(
        "a Python package with a connector of your own, and a flow that runs it",
        ("pip install -e .", "walflow connectors show {name}", "walflow run main.troy"),
        "spool",
        connectors,
    ),
    "operator": Starter(
        "a Python package with an operator of your own, and a flow that uses it",
        ("pip install -e .", "walflow check main.troy", "walflow run main.troy"),
        "labelled",
        operators.registered,
    ),
    "codec": Starter(
        "a Python package with a codec of your own, and a flow that uses it",
        ("pip install -e .", "walflow check main.troy", "walflow run main.troy"),
        "pairs",
        codecs.registered,
    ),
    "framing": Starter(
        "a Python package with a preprocessor and a postprocessor of your own, and a flow that uses them",
        ("pip install -e .", "walflow check main.troy", "walflow run main.troy"),
        "hexed",
        framing.registered,
    ),
}


def _names(incomplete: str) -> list[str]:
    return [name for name in TEMPLATES if name.startswith(incomplete)]


LISTED: Final = "; ".join(f"{name}: {template.what}" for name, template in TEMPLATES.items())


def new(
    directory: Annotated[
        Path,
        typer.Argument(
            help="The directory. It is made if it is missing, with its parents. It "
            "must not contain files with the template's names."
        ),
    ],
    template: Annotated[str, typer.Option("--template", "-t", help=f"{LISTED}.", autocompletion=_names)] = "echo",
) -> None:
    """Make a directory with a flow to start from. The flow runs as it is."""
    if template not in TEMPLATES:
        raise _refused(f"there is no template {template!r}: there are {', '.join(TEMPLATES)}", EX_USAGE)
    name = directory.absolute().name.replace("-", "_")
    chosen = TEMPLATES[template]
    if chosen.stands_for:
        _check_name(name, chosen, template)
    source = files("walflow.cli.new") / "templates" / template
    made = {
        directory / _named(file.name, chosen, name): _named(file.read_text("utf-8"), chosen, name)
        for file in _texts(source)
    }
    if there := next((path for path in made if path.exists()), None):
        raise _refused(f"{there} exists already: nothing was written", EX_CANTCREAT)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in made.items():
            path.write_text(text, "utf-8")
        for folder in chosen.folders:
            (directory / folder).mkdir(exist_ok=True)
    except OSError as error:
        raise _refused(f"{error.filename}: {error.strerror}", EX_CANTCREAT) from None
    _tell(directory, list(made), chosen, name)


def _texts(source: Traversable) -> list[Traversable]:
    return sorted((file for file in source.iterdir() if file.is_file()), key=lambda file: file.name)


def _check_name(name: str, chosen: Starter, template: str) -> None:
    if not NAME.match(name) or keyword.iskeyword(name):
        raise _refused(f"{name!r} cannot be the name of a Python module: use small letters, digits and _", EX_USAGE)
    if name in sys.stdlib_module_names or name in OURS or name in chosen.taken():
        raise _refused(f"{name!r} is taken: choose a name that no module and no {template} has", EX_USAGE)


def _named(text: str, chosen: Starter, name: str) -> str:
    """In its three spellings: as a module, as a class, as a constant."""
    word = chosen.stands_for
    if not word:
        return text
    text = text.replace(word.capitalize(), "".join(part.capitalize() for part in name.split("_")))
    return text.replace(word.upper(), name.upper()).replace(word, name)


def _refused(message: str, code: int) -> typer.Exit:
    typer.echo(f"walflow: {message}", err=True)
    return typer.Exit(code)


def _tell(directory: Path, made: list[Path], template: Starter, name: str) -> None:
    typer.echo(f"{', '.join(path.name for path in made)} in {directory}. Now:")
    for command in (f"cd {shlex.quote(str(directory))}", *template.then):
        typer.echo("    " + command.replace("{name}", name))
