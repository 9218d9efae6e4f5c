"""What a file declares, as it is written: no name is looked up, nothing is evaluated."""

from typing import Literal, NamedTuple

from msgspec import Struct

from walflow.compile.nodes import Expr, Name, Path
from walflow.diagnostics import Span

Kind = Literal["connector", "pipeline"]


class Use(Struct, frozen=True):
    path: Path
    alias: Name
    span: Span


class Arg(NamedTuple):
    name: Name
    default: Expr | None


class Setting(NamedTuple):
    """`name = value` after `with`."""

    name: Name
    value: Expr


class Definition(Struct, frozen=True):
    name: Name


class DefineConnector(Definition, frozen=True):
    type: Name
    args: tuple[Arg, ...]
    settings: tuple[Setting, ...]
    span: Span


class DefineOperator(Definition, frozen=True):
    """`define operator N from qos::wal …`, or tremor 0.11's `define qos::wal operator N …`. `kind` is `qos::wal`."""

    kind: Path
    args: tuple[Arg, ...]
    settings: tuple[Setting, ...]
    span: Span


class CreateOperator(Struct, frozen=True):
    """`settings`: args of the definition, and settings. These override those of the definition."""

    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


class DefineScript(Definition, frozen=True):
    """`state`: its first value. `inputs`: the scripts for events that come by ports of their own."""

    args: tuple[Arg, ...]
    state: Expr | None
    inputs: "tuple[InputScript, ...]"
    names: "tuple[Use | DefineConst | DefineFunction, ...]"
    body: tuple[Expr, ...] | None
    span: Span


class InputScript(NamedTuple):
    """`script from PORT …`. `names`: the statements that define names. `body`: the other statements; None if a part
    of it could not be read."""

    port: Name
    names: "tuple[Use | DefineConst | DefineFunction, ...]"
    body: tuple[Expr, ...] | None


class CreateScript(Struct, frozen=True):
    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


class DefineWindow(Definition, frozen=True):
    """`kind`: tumbling, or sliding. `names` and `script`: what stands between `script` and `end`, the latter None
    where there is no script, or a part of it could not be read. `state`: what it begins as.
    `inputs`: each `script from`."""

    kind: Name
    settings: tuple[Setting, ...]
    state: Expr | None
    inputs: "tuple[InputScript, ...]"
    names: "tuple[Use | DefineConst | DefineFunction, ...]"
    script: tuple[Expr, ...] | None
    whole: bool
    span: Span


class Grouping(NamedTuple):
    """`group by` one value, or `set` of several. `each`: each element of the value is a group of its own."""

    parts: "tuple[GroupPart, ...]"
    span: Span


class GroupPart(NamedTuple):
    value: Expr
    each: bool


class SelectStatement(NamedTuple):
    """`select WHAT from SOURCE/PORT[windows] where WHERE group by GROUP into TARGET/PORT having HAVING`. For a port
    of the pipeline itself (`out/err`), the port is the `source` or `target`."""

    what: Expr
    source: Name
    where: Expr | None
    target: Name
    having: Expr | None
    span: Span
    source_port: Name | None = None
    target_port: Name | None = None
    windows: tuple[Path, ...] = ()
    group: Grouping | None = None


class DefineConst(Definition, frozen=True):
    value: Expr
    span: Span


class Directive(Struct, frozen=True):
    """`#!config name = value`"""

    name: Name
    value: Expr
    span: Span


class DefinePipeline(Definition, frozen=True):
    """`inputs` and `outputs` are None if the definition has no `from` or no `into`. `names`: the statements that
    define names. `pipelines`: those that are created within it. `whole`: its whole body could be read."""

    inputs: tuple[Name, ...] | None
    outputs: tuple[Name, ...] | None
    args: tuple[Arg, ...]
    directives: tuple[Directive, ...]
    names: tuple[
        "Use | DefineConst | DefineOperator | DefineScript | DefineWindow | DefineFunction | DefinePipeline", ...
    ]
    streams: tuple[Name, ...]
    operators: tuple[CreateOperator, ...]
    scripts: tuple[CreateScript, ...]
    pipelines: "tuple[Create, ...]"
    selects: tuple[SelectStatement, ...]
    whole: bool
    span: Span


class DefineFunction(Definition, frozen=True):
    """`intrinsic`: the name of a function of walflow itself. Other functions have a body in the language: statements,
    of which the last one gives the value, or cases, which match all arguments together."""

    intrinsic: Path | None
    span: Span
    parameters: tuple[Name, ...] = ()
    variadic: bool = False
    body: tuple[Expr, ...] = ()


class Create(Struct, frozen=True):
    kind: Kind
    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


class ConnectEnd(Struct, frozen=True):
    kind: Kind
    name: Name
    port: Name | None
    span: Span


class Connect(Struct, frozen=True):
    source: ConnectEnd
    target: ConnectEnd
    span: Span


FlowStatement = Use | DefineConst | DefineFunction | DefineConnector | DefinePipeline | Create | Connect


class DefineFlow(Definition, frozen=True):
    args: tuple[Arg, ...]
    body: tuple[FlowStatement, ...]
    span: Span


class Deploy(Struct, frozen=True):
    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


Statement = FlowStatement | DefineFlow | DefineOperator | DefineScript | DefineWindow | Deploy | Directive


class SourceFile(Struct, frozen=True):
    """`whole`: all of it could be read."""

    statements: tuple[Statement, ...]
    whole: bool
