"""Rules of files, and of statements in flows."""

from collections.abc import Iterable
from typing import cast

from lark import Token
from lark.tree import Meta

from walflow.compile.nodes import (
    Expr,
    Name,
    Path,
    RecordNode,
    Text,
)
from walflow.lang import literals
from walflow.lang.ast import (
    Arg,
    Connect,
    ConnectEnd,
    DefineConnector,
    DefineConst,
    DefineFlow,
    Deploy,
    Directive,
    FlowStatement,
    Kind,
    Setting,
    Statement,
    Use,
)
from walflow.lang.build.rules import TreeRules, by_rule


@by_rule
class FlowRules(TreeRules):
    def file(self, _meta: Meta, *statements: object) -> tuple[Statement, ...]:
        return tuple(flattened(statements))

    def use(self, _meta: Meta, target: "list[Use]") -> list[Use]:
        return target

    def use_module(self, meta: Meta, *names: Name | None) -> list[Use]:
        *path, alias = names
        found = tuple(name for name in path if name is not None)
        return [Use(found, alias or found[-1], self._span(meta))]

    def use_group(self, _meta: Meta, *parts: Name | list[Use]) -> list[Use]:
        prefix = tuple(part for part in parts if isinstance(part, Name))
        uses = [use for part in parts if not isinstance(part, Name) for use in part]
        return [Use((*prefix, *use.path), use.alias, use.span) for use in uses]

    def const(self, meta: Meta, name: Name, value: Expr) -> DefineConst:
        return DefineConst(name, value, self._span(meta))

    def config_directive(self, meta: Meta, name: Name, value: Expr) -> Directive:
        return Directive(name, value, self._span(meta))

    def define_flow(
        self, meta: Meta, name: Name, args: tuple[Arg, ...] | None, body: tuple[FlowStatement, ...]
    ) -> DefineFlow:
        return DefineFlow(name, args or (), body, self._span(meta))

    def flow_body(self, _meta: Meta, *statements: object) -> tuple[FlowStatement, ...]:
        return tuple(s for s in flattened(statements) if isinstance(s, FlowStatement))

    def define_connector(
        self, meta: Meta, name: Name, kind: Name, args: tuple[Arg, ...] | None, settings: tuple[Setting, ...] | None
    ) -> DefineConnector:
        return DefineConnector(name, kind, args or (), settings or (), self._span(meta))

    def connector_type(self, meta: Meta, written: Token | Text) -> Name:
        if isinstance(written, Token):
            return Name(literals.name(written), self._span(meta))
        if not all(isinstance(part, str) for part in written.parts):
            self._error("a connector type has no `#{}`", written.span)
        return Name("".join(part for part in written.parts if isinstance(part, str)), written.span)

    def connect(self, meta: Meta, source: ConnectEnd, target: ConnectEnd) -> Connect:
        return Connect(source, target, self._span(meta))

    def endpoint(self, meta: Meta, kind: Token, name: Name, port: Name | None) -> ConnectEnd:
        return ConnectEnd(kind_of_part(kind), name, port, self._span(meta))

    def deploy_flow(self, meta: Meta, name: Name, path: Path | None, settings: tuple[Setting, ...] | None) -> Deploy:
        return Deploy(name, path or (name,), settings or (), self._span(meta))

    def wrong_deploy(self, meta: Meta) -> None:
        self._error("`deploy flow` needs the name of a flow", self._span(meta), "write `deploy flow name;`")

    def args(self, _meta: Meta, *args: Arg) -> tuple[Arg, ...]:
        return tuple({arg.name: arg for arg in args}[name] for name in self._distinct("arg", (a.name for a in args)))

    def arg(self, _meta: Meta, name: Name, default: Expr | None = None) -> Arg:
        return Arg(name, default)

    def settings(self, _meta: Meta, *settings: Setting | None) -> tuple[Setting, ...]:
        return tuple(setting for setting in settings if setting is not None)

    def setting(self, _meta: Meta, name: Name, value: Expr) -> Setting:
        return Setting(name, value)

    def wrong_setting(self, meta: Meta, name: Name, value: Expr) -> Setting:
        self._error(f"`with` takes `{name.text} = …`, not `{name.text}: …`", name.span, f"write `{name.text} = …`")
        return Setting(name, value)

    def wrong_quoted_setting(self, _meta: Meta, quoted: Text, value: Expr) -> Setting:
        name = Name("".join(part for part in quoted.parts if isinstance(part, str)), quoted.span)
        shown = "{" if isinstance(value, RecordNode) else "…"
        self._error("names behind `with` are not quoted and take `=`", name.span, f"write `{name.text} = {shown}`")
        return Setting(name, value)


def kind_of_part(word: Token) -> Kind:
    return "connector" if word == "connector" else "pipeline"


def flattened(statements: Iterable[object]) -> list[Statement]:
    """A `use` of a group becomes several. Statements that could not be read, or are not supported yet,
    are left out."""
    flat: list[Statement] = []
    for statement in statements:
        if isinstance(statement, list):
            flat += flattened(cast("list[object]", statement))
        elif isinstance(statement, Statement):
            flat.append(statement)
    return flat
