"""What a file declares, as written: no name looked up, nothing worked out."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from walflow.compile.nodes import Expr, Name, Path
from walflow.diagnostics import Span

Kind = Literal["connector", "pipeline"]


@dataclass(frozen=True)
class Use:
    path: Path
    alias: Name
    span: Span


class Arg(NamedTuple):
    name: Name
    default: Expr | None


class Setting(NamedTuple):
    """`name = value` of a `with`."""

    name: Name
    value: Expr


@dataclass(frozen=True)
class Definition:
    name: Name


@dataclass(frozen=True)
class DefineConnector(Definition):
    type: Name
    args: tuple[Arg, ...]
    settings: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True)
class DefineOperator(Definition):
    """`define operator N from qos::wal …`, or tremor 0.11's `define qos::wal operator N …`: `kind` is `qos::wal`."""

    kind: Path
    args: tuple[Arg, ...]
    settings: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True)
class CreateOperator:
    """`settings` are args of the definition, and settings that count before those of the definition."""

    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True)
class DefineScript(Definition):
    """`state`: what it begins as. `inputs`: what it does with events that come by ports of their own."""

    args: tuple[Arg, ...]
    state: Expr | None
    inputs: "tuple[InputScript, ...]"
    names: "tuple[Use | DefineConst | DefineFunction, ...]"
    body: tuple[Expr, ...] | None
    span: Span


class InputScript(NamedTuple):
    """`script from PORT …`. `names`: what of its text says what names stand for; `body`: what it does, None where a part could
    not be read."""

    port: Name
    names: "tuple[Use | DefineConst | DefineFunction, ...]"
    body: tuple[Expr, ...] | None


@dataclass(frozen=True)
class CreateScript:
    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


class SelectStatement(NamedTuple):
    """`select WHAT from SOURCE/PORT where WHERE into TARGET/PORT having HAVING`. A port of the pipeline itself
    (`out/err`) is its `source` or `target`."""

    what: Expr
    source: Name
    where: Expr | None
    target: Name
    having: Expr | None
    span: Span
    source_port: Name | None = None
    target_port: Name | None = None


@dataclass(frozen=True)
class DefineConst(Definition):
    value: Expr
    span: Span


@dataclass(frozen=True)
class Directive:
    """`#!config name = value`"""

    name: Name
    value: Expr
    span: Span


@dataclass(frozen=True)
class DefinePipeline(Definition):
    """`inputs` and `outputs` are None where the definition has no `from` and no `into`. `names`: what of its body
    says what names stand for. `whole`: all of its body could be read."""

    inputs: tuple[Name, ...] | None
    outputs: tuple[Name, ...] | None
    args: tuple[Arg, ...]
    directives: tuple[Directive, ...]
    names: "tuple[Use | DefineConst | DefineOperator | DefineScript | DefineFunction, ...]"
    streams: tuple[Name, ...]
    operators: tuple[CreateOperator, ...]
    scripts: tuple[CreateScript, ...]
    selects: tuple[SelectStatement, ...]
    whole: bool
    span: Span


@dataclass(frozen=True)
class DefineFunction(Definition):
    """`intrinsic`: what of walflow's own stands for it. Otherwise its body is in the language: statements, of which the
    last one's value is the function's, or cases of all arguments together."""

    intrinsic: Path | None
    span: Span
    parameters: tuple[Name, ...] = ()
    variadic: bool = False
    body: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Create:
    kind: Kind
    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


@dataclass(frozen=True)
class ConnectEnd:
    kind: Kind
    name: Name
    port: Name | None
    span: Span


@dataclass(frozen=True)
class Connect:
    source: ConnectEnd
    target: ConnectEnd
    span: Span


FlowStatement = Use | DefineConst | DefineFunction | DefineConnector | DefinePipeline | Create | Connect


@dataclass(frozen=True)
class DefineFlow(Definition):
    args: tuple[Arg, ...]
    body: tuple[FlowStatement, ...]
    span: Span


@dataclass(frozen=True)
class Deploy:
    name: Name
    of: Path
    settings: tuple[Setting, ...]
    span: Span


Statement = FlowStatement | DefineFlow | DefineOperator | DefineScript | Deploy | Directive


@dataclass(frozen=True)
class SourceFile:
    """`whole`: everything in it could be read."""

    statements: tuple[Statement, ...]
    whole: bool
