"""Makes the pages of docs/reference that come from the code: `make pages`, or `python -m walflow.cli.reference
docs/reference`.

The pages of connectors, operators and commands are made completely; of the page of codecs, only its two tables.
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperGroup

from walflow import codecs, framing
from walflow.cli import app
from walflow.cli.connectors import ConfigKey, details, keys, summary
from walflow.cli.examples import guarantees
from walflow.cli.schema import connectors_schema
from walflow.contract import CodecUse, Connector
from walflow.diagnostics import WARNINGS
from walflow.operators import OPERATORS, Operator
from walflow.registry import connectors
from walflow.substitutes import SUBSTITUTES, TREMORS, Kind

CONNECTORS: Final = """\
# Connectors

The connector types that `define connector NAME from TYPE` may name, and the keys of their `config`. Durations are in
nanoseconds, sizes in bytes. Each guarantee below holds with default keys, that of a sink with a log upstream; `walflow check`
prints those of your own flow. `walflow connectors show TYPE` prints the same text, also for connectors that you installed from other
packages. This page is generated from the code.
"""

FROM_TREMOR: Final = """\
# Names from tremor

The connectors, codecs, pre- and postprocessors of tremor 0.13, and what walflow has of each. `walflow check` says the same of
a name that it does not have. [Differences](differences.md) lists what works otherwise. This page is generated from the code.
"""

OPERATORS_HEAD: Final = """\
# Operators

The operator types that `define operator NAME from TYPE` may name, and their keys. An operator may be defined within a
pipeline, or at the top of a file for all its pipelines. First define the operator, then create it, then select events into
it and from it. `NAME/PORT` names one of its ports. `NAME` alone means the port `in` after `into`, and the port `out` after
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
installs completion for your shell: commands, options and connector types. This page is generated from the program's help.
"""

WARNINGS_HEAD: Final = """\
# Warnings

What `walflow check` warns of, by name. A warning that is known and wanted is permitted by a comment, for the line it stands in, or
for the next line of code if the comment has a line of its own. Several names are separated by blanks:

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

`walflow check --strict` prints below each warning the comment that permits it, and fails if a warning is not permitted. A warning
of a connector or of a pipeline is permitted where it is defined, or where it is created. A name that no warning has is an error,
and a comment that permits nothing is a note. The JSON document of `check --json` has the names, too. This page is generated from
the code.

| name | |
|---|---|
"""

CODECS: Final = {
    CodecUse.REQUIRED: "`codec` is required",
    CodecUse.OPTIONAL: "the default `codec` is json",
    CodecUse.FORBIDDEN: "takes no `codec`",
}


OURS: Final = "walflow"  # the distribution: the pages say nothing of others that happen to be installed
MADE: Final = "<!-- made by `make pages`: {} -->"


def warnings_page() -> str:
    return WARNINGS_HEAD + "".join(f"| `{name}` | {meaning} |\n" for name, meaning in sorted(WARNINGS.items()))


def connectors_page() -> str:
    classes = connectors().of(OURS)
    return CONNECTORS + "".join(line for kind in sorted(classes) for line in _connector(kind, classes[kind]))


def _connector(kind: str, connector: type[Connector]) -> Iterator[str]:
    yield f"\n## {kind}\n\n{summary(connector)}\n\n"
    ports = connector.ports
    yield f"In: {_ports(ports.inputs)}. Out: {_ports(ports.outputs)}; {CODECS[connector.codec]}.\n"
    for chosen, guarantee in guarantees(connector):
        where = f" (`{chosen}`)" if chosen else ""
        for half, words in (("As a source", guarantee.source), ("As a sink", guarantee.sink)):
            if words:
                yield f"\n{half}{where}: {_placeholders_shown(words)}.\n"
    listed = keys(connector)
    if listed:
        yield "\n| key | type | default | |\n|---|---|---|---|\n"
        yield from map(_row, listed)
    yield from (f"\n{paragraph}\n" for paragraph in details(connector))


def _placeholders_shown(words: str) -> str:
    """`<path>` would be a tag."""
    return re.sub(r"<\w+>", lambda name: f"`{name[0]}`", words)


def operators_page() -> str:
    return OPERATORS_HEAD + "".join(line for kind in sorted(OPERATORS) for line in _operator(kind, OPERATORS[kind]))


def _operator(kind: str, operator: type[Operator]) -> Iterator[str]:
    yield f"\n## {kind}\n\n{summary(operator)}\n\n```troy query\n{operator.example}```\n"
    listed = keys(operator)
    if listed:
        yield "\n| key | type | default | |\n|---|---|---|---|\n"
        yield from map(_row, listed)


def _ports(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _row(key: ConfigKey) -> str:
    default = key.default if key.default == "required" else f"`{key.default}`"
    cells = f"`{key.name}`", key.type, default, key.description
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def commands_page() -> str:
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
    page = _with_table(page, "codecs", _codecs())
    return _with_table(page, "processors", _processors())


def _with_table(page: str, name: str, table: Iterator[str]) -> str:
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


def from_tremor_page() -> str:
    has: Mapping[Kind, Collection[str]] = {
        "connector": connectors().of(OURS),
        "codec": codecs.registered().of(OURS),
        "preprocessor": framing.preprocessors(),
        "postprocessor": framing.postprocessors(),
    }
    return FROM_TREMOR + "".join(_from_tremor(kind, TREMORS[kind], has[kind]) for kind in TREMORS)


def _from_tremor(kind: Kind, names: Sequence[str], has: Collection[str]) -> str:
    rows = [f"| `{name}` | {'works' if name in has else SUBSTITUTES[kind][name]} |\n" for name in names]
    count = sum(name in has for name in names)
    head = f"\n## {kind.capitalize()}s\n\n{count} of {len(names)} work.\n\n| name | here |\n|---|---|\n"
    return head + "".join(rows)


def connectors_schema_page() -> str:
    """A line for each connector type."""
    whole = connectors_schema(connectors().of(OURS))
    kinds = ",\n".join(f"{json.dumps(kind)}:{_compact(keys)}" for kind, keys in whole.pop("$defs").items())
    return f'{_compact(whole)[:-1]},"$defs":{{\n{kinds}\n}}}}\n'


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def file_of(name: str, folder: Path) -> Path:
    return folder / (name if "." in name else f"{name}.md")


PAGES: Final[Mapping[str, Callable[[str], str]]] = {
    "codecs": codecs_page,
    "from-tremor": lambda page: from_tremor_page(),
    "connectors": lambda page: connectors_page(),
    "operators": lambda page: operators_page(),
    "commands": lambda page: commands_page(),
    "warnings": lambda page: warnings_page(),
    "connectors.schema.json": lambda page: connectors_schema_page(),
}
"Page name -> a function that makes the new page from the present one."


def main(folder: Path) -> None:
    for name, make in PAGES.items():
        page = file_of(name, folder)
        page.write_text(make(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
