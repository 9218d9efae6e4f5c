"""Pages of docs/reference that come from the code, of one table or few: operators, commands, warnings, codecs, names
from tremor."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperGroup

from tests.docs.pages.connectors import HEAD, OURS, row
from walflow import codecs, framing
from walflow.cli import app
from walflow.cli.connectors import keys, summary
from walflow.cli.schema import connectors_schema
from walflow.operators import Operator, registered
from walflow.registry import connectors
from walflow.substitutes import SUBSTITUTES, TREMORS, Kind
from walflow.warnings import registered as warning_kinds

OPERATORS_HEAD: Final = """\
# Operators

The operator types that `define operator NAME from TYPE` may name, and their keys. An operator may be defined within a
pipeline, or at the top of a file for all its pipelines. First define the operator, then create it, then select events
into it and from it. `NAME/PORT` names one of its ports. `NAME` alone means the port `in` after `into`, and the port
`out` after
`from`. The keys follow `with`. A key in `create operator` overrides the same key in the definition. tremor 0.11's
`define qos::wal operator NAME with … end` works too.

```troy
define flow main
flow
  define pipeline main
  pipeline
    define operator log from qos::wal with read_count = 20, max_elements = 1000 end;
    create operator log with dir = "store" end;
    select event from in into log;
    select event from log where event.id > 0 into out;
  end;
  create pipeline main;
end;
deploy flow main;
```

Durations are in nanoseconds, sizes in bytes. [Decision 0014](../decisions/0014-operators.md) says what differs from
tremor, and why. This page is generated from the code.
"""

COMMANDS: Final = """\
# Commands

All commands and their options. [Exit codes](exit-codes.md) have a page of their own. `walflow --install-completion`
installs completion for your shell: commands, options and connector types. This page is generated from the program's
help.
"""

WARNINGS_HEAD: Final = """\
# Warnings

What `walflow check` warns of, by name. A warning that is known and wanted is permitted by a comment, for the line it
stands in, or for the next line of code if the comment has a line of its own. Several names are separated by blanks:

```troy body
use tremor::pipelines;
define connector ticks from metronome with config = {"interval": 1_000_000_000} end;
define connector numbers from udp_client with config = {"url": "127.0.0.1:4242"}, codec = "json" end;
define connector log from wal with config = {"path": "state"} end;
create connector ticks;
create connector log;
create connector numbers;  # check: allow unconfirmed
create pipeline before from pipelines::passthrough;
create pipeline after from pipelines::passthrough;
connect /connector/ticks to /pipeline/before;
connect /pipeline/before to /connector/log;
connect /connector/log to /pipeline/after;
connect /pipeline/after to /connector/numbers;
```

`walflow check --strict` prints below each warning the comment that permits it, and fails if a warning is not
permitted. A warning of a connector or of a pipeline is permitted where it is defined, or where it is created. A name
that no warning has is an error, and a comment that permits nothing is a note. The JSON document of `check --json` has
the names, too. `walflow check --list-warnings` prints this list. This page is generated from the code: each
warning has a file in `walflow/warnings`.

| name | |
|---|---|
"""

MADE: Final = "<!-- made by `make pages`: {} -->"


def warnings_page(page: str) -> str:
    return WARNINGS_HEAD + "".join(f"| `{name}` | {kind.means} |\n" for name, kind in warning_kinds().items())


def operators_page(page: str) -> str:
    classes = registered().of(OURS)
    return OPERATORS_HEAD + "".join(line for kind in sorted(classes) for line in _operator(kind, classes[kind]))


def _operator(kind: str, operator: type[Operator]) -> Iterator[str]:
    yield f"\n## {kind}\n\n{summary(operator)}\n\n```troy query\n{operator.example}```\n"
    listed = keys(operator)
    if listed:
        yield f"\n{HEAD}"
        yield from map(row, listed)


def commands_page(page: str) -> str:
    program = typer.main.get_command(app())
    return COMMANDS + "".join(_commands(program, "walflow"))


# Any: typer brings a click of its own, whose types are not public
def _commands(command: Any, path: str) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _commands(inner, f"{path} {name}")
        return
    metavars = [_metavar(part) for part in command.params if isinstance(part, TyperArgument)]
    usage = " ".join([path, *(["[OPTIONS]"] if command.params else []), *metavars])
    yield f"\n## {path}\n\n{_text(command.help)}\n\n```text\n{usage}\n```\n"
    if command.params:
        yield "\n| | |\n|---|---|\n"
    for part in command.params:
        yield _option(part)


def _metavar(part: TyperArgument) -> str:
    return f"{(part.name or '').upper()}{'...' if part.nargs == -1 else ''}"


def _option(part: Any) -> str:
    name = _metavar(part) if isinstance(part, TyperArgument) else ", ".join(part.opts)
    default = part.default
    shown = getattr(default, "value", default)
    usual = "" if shown in (None, False, (), "") or callable(shown) else f" Default: `{shown}`."
    return f"| `{name}` | {_text(part.help)}{usual} |\n"


def _text(text: str | None) -> str:
    return " ".join((text or "").split())


def codecs_page(page: str) -> str:
    """`page` with new tables."""
    page = with_table(page, "codecs", _codecs())
    return with_table(page, "processors", _processors())


def with_table(page: str, name: str, table: Iterable[str]) -> str:
    begin, end = MADE.format(name), MADE.format("end")
    made = f"{begin}\n\n{''.join(table)}\n{end}"
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: made, page, flags=re.DOTALL)


def _codecs() -> Iterator[str]:
    yield "| name | an event is |\n|---|---|\n"
    made = codecs.registered().of(OURS)
    for name in sorted(made):
        yield f"| `{name}` | {_text((made[name].__doc__ or '').split('Raises')[0])} |\n"


def _processors() -> Iterator[str]:
    yield "| name | preprocessor | postprocessor | what it is | `config` |\n|---|---|---|---|---|\n"
    made = framing.registered().of(OURS)
    for name in sorted(made):
        before, after = (
            "yes" if there else "" for there in (made[name].is_preprocessor, made[name].is_postprocessor)
        )
        yield f"| `{name}` | {before} | {after} | {made[name].description} | {made[name].config} |\n"


def tremor_page(page: str) -> str:
    has: Mapping[Kind, Collection[str]] = {
        "connector": connectors().of(OURS),
        "codec": codecs.registered().of(OURS),
        "preprocessor": framing.preprocessors(),
        "postprocessor": framing.postprocessors(),
    }
    lines = (line for kind in TREMORS for line in _from_tremor(kind, TREMORS[kind], has[kind]))
    return with_table(page, "names", lines)


def _from_tremor(kind: Kind, names: Sequence[str], has: Collection[str]) -> Iterator[str]:
    yield "" if kind == "connector" else "\n"
    yield f"### {kind.capitalize()}s\n\n{sum(name in has for name in names)} of {len(names)} work.\n\n"
    yield "| name | here |\n|---|---|\n"
    yield from (f"| `{name}` | {'works' if name in has else SUBSTITUTES[kind][name]} |\n" for name in names)


def connectors_schema_page() -> str:
    """A line for each connector type."""
    whole = connectors_schema(connectors().of(OURS))
    kinds = ",\n".join(f"{json.dumps(kind)}:{_compact(keys)}" for kind, keys in whole.pop("$defs").items())
    return f'{_compact(whole)[:-1]},"$defs":{{\n{kinds}\n}}}}\n'


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
