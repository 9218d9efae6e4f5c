"""Tree -> what the file declares. A method a rule of `troy.lark`; rules without one are not supported yet."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple, TypeVar, cast

import lark.visitors
from lark import Token, Tree
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from walflow.compile.nodes import (
    Access,
    Array,
    BinaryNode,
    Bytes,
    CallNode,
    Expr,
    Field,
    Literal,
    Merge,
    Name,
    Operation,
    Packed,
    Patch,
    Path,
    Present,
    RecordNode,
    Reference,
    Root,
    Segment,
    Size,
    SliceNode,
    Text,
    Unary,
    Unsupported,
)
from walflow.diagnostics import Diagnostic, Source, Span, error, warning
from walflow.lang import literals
from walflow.lang.ast import (
    Arg,
    Connect,
    ConnectEnd,
    Create,
    CreateOperator,
    DefineConnector,
    DefineConst,
    DefineFlow,
    DefineFunction,
    DefineOperator,
    DefinePipeline,
    Deploy,
    Directive,
    FlowStatement,
    Kind,
    SelectStatement,
    Setting,
    Statement,
    Use,
)

T = TypeVar("T")


def build(tree: Tree[Token], source: Source, report: Callable[[Diagnostic], None]) -> tuple[Statement, ...]:
    # Any: what a transformer returns is of no type lark knows
    transformer: Any = _Build(source, report)
    statements: tuple[Statement, ...] = transformer.transform(tree)
    return statements


def build_query(tree: Tree[Token], source: Source, name: str, report: Callable[[Diagnostic], None]) -> DefinePipeline:
    """The pipeline `name`, whose ports are those its selects name: `in/other`, `out/ws0`."""
    transformer: Any = _Build(source, report)  # Any: as above
    body: tuple[object, ...] = transformer.transform(tree)
    begin = Span(source, 0, 0)
    inputs, outputs = transformer.written_ports("in"), transformer.written_ports("out")
    definition: DefinePipeline = transformer.pipeline_of(
        Name(name, begin), inputs or None, (*outputs, Name("err", begin)), (), body, Span(source, 0, len(source.text))
    )
    return definition


class _Ports(NamedTuple):
    names: tuple[Name, ...]


class _StreamPort(NamedTuple):
    node: Name
    port: Name | None


class _CreateStream(NamedTuple):
    name: Name


def _by_rule(build: type[T]) -> type[T]:
    """Each method gets the children of its rule as arguments, behind their place."""
    visitors: Any = lark.visitors
    wrapped: type[T] = visitors.v_args(inline=True, meta=True)(build)
    return wrapped


@_by_rule
class _Build(Transformer_NonRecursive[Token, tuple[Statement, ...]]):
    def __init__(self, source: Source, report: Callable[[Diagnostic], None]) -> None:
        super().__init__()
        self._source = source
        self._report = report
        self._written: dict[tuple[str, str], Name] = {}  # ports of a pipeline, by their side

    def _span(self, meta: Meta) -> Span:
        return Span(self._source, meta.start_pos, meta.end_pos)

    def _at(self, token: Token) -> Span:
        begin = token.start_pos or 0
        return Span(self._source, begin, begin + len(token))

    def _error(self, message: str, span: Span, hint: str | None = None) -> None:
        self._report(error(message, span, hint))

    def __default__(self, data: str, children: list[object], meta: Meta) -> Any:  # lark's own says Tree
        # said already, see unsupported.py
        at = Span(self._source, 0, 0) if meta.empty else self._span(meta)
        return Unsupported(at)

    # ---- files

    def file(self, _meta: Meta, *statements: object) -> tuple[Statement, ...]:
        return tuple(_flattened(statements))

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

    # ---- deployment

    def define_flow(
        self, meta: Meta, name: Name, args: tuple[Arg, ...] | None, body: tuple[FlowStatement, ...]
    ) -> DefineFlow:
        return DefineFlow(name, args or (), body, self._span(meta))

    def flow_body(self, _meta: Meta, *statements: object) -> tuple[FlowStatement, ...]:
        return tuple(s for s in _flattened(statements) if isinstance(s, FlowStatement))

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

    def create(
        self, meta: Meta, kind: Token, name: Name, path: Path | None, settings: tuple[Setting, ...] | None
    ) -> Create | CreateOperator | _CreateStream | Unsupported:
        if kind == "connector" or kind == "pipeline":
            return Create(_kind(kind), name, path or (name,), settings or (), self._span(meta))
        if kind == "stream":
            if path or settings:
                self._error("a stream has no definition and takes no args", self._span(meta))
            return _CreateStream(name)
        if kind == "operator":
            return CreateOperator(name, path or (name,), settings or (), self._span(meta))
        return Unsupported(self._span(meta))

    def connect(self, meta: Meta, source: ConnectEnd, target: ConnectEnd) -> Connect:
        return Connect(source, target, self._span(meta))

    def endpoint(self, meta: Meta, kind: Token, name: Name, port: Name | None) -> ConnectEnd:
        return ConnectEnd(_kind(kind), name, port, self._span(meta))

    def deploy_flow(self, meta: Meta, name: Name, path: Path | None, settings: tuple[Setting, ...] | None) -> Deploy:
        return Deploy(name, path or (name,), settings or (), self._span(meta))

    def wrong_deploy(self, meta: Meta) -> None:
        self._error("`deploy flow` needs the name of a flow", self._span(meta), "write `deploy flow name;`")

    def args(self, _meta: Meta, *args: Arg) -> tuple[Arg, ...]:
        return tuple({arg.name: arg for arg in args}[name] for name in self._distinct("arg", (a.name for a in args)))

    def _distinct(self, what: str, names: Iterable[Name]) -> tuple[Name, ...]:
        first: dict[str, Name] = {}
        for name in names:
            if name.text in first:
                self._error(f"{what} `{name.text}` stands twice here", name.span, f"first at {first[name.text].span}")
            first.setdefault(name.text, name)
        return tuple(first.values())

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

    # ---- queries

    def define_pipeline(
        self,
        meta: Meta,
        name: Name,
        inputs: _Ports | None,
        outputs: _Ports | None,
        args: tuple[Arg, ...] | None,
        body: tuple[object, ...],
    ) -> DefinePipeline:
        self._check_directions(inputs, outputs)
        ports = inputs and inputs.names, outputs and outputs.names
        return self.pipeline_of(name, *ports, args or (), body, self._span(meta))

    def pipeline_of(
        self,
        name: Name,
        inputs: tuple[Name, ...] | None,
        outputs: tuple[Name, ...] | None,
        args: tuple[Arg, ...],
        body: tuple[object, ...],
        span: Span,
    ) -> DefinePipeline:
        return DefinePipeline(
            name,
            inputs,
            outputs,
            args,
            tuple(s for s in body if isinstance(s, Directive)),
            tuple(s for s in body if isinstance(s, Use | DefineConst | DefineOperator)),
            tuple(s.name for s in body if isinstance(s, _CreateStream)),
            tuple(s for s in body if isinstance(s, CreateOperator)),
            tuple(s for s in body if isinstance(s, SelectStatement)),
            not any(isinstance(s, Token | Unsupported) for s in body),  # a token: ERROR
            span,
        )

    def query(self, _meta: Meta, body: tuple[object, ...]) -> tuple[object, ...]:
        return body

    def written_ports(self, side: str) -> tuple[Name, ...]:
        return tuple(name for (of, _), name in self._written.items() if of == side)

    def _check_directions(self, inputs: _Ports | None, outputs: _Ports | None) -> None:
        incoming = {port.text for port in inputs.names} if inputs else {"in"}
        for port in outputs.names if outputs else ():
            if port.text in incoming:
                hint = "what comes and what leaves are two ports: name one of them otherwise"
                self._error(f"`{port.text}` is an input of this pipeline too", port.span, hint)

    def ports(self, _meta: Meta, *names: Name) -> _Ports:
        return _Ports(self._distinct("port", names))

    def pipeline_body(self, _meta: Meta, *statements: object) -> tuple[object, ...]:
        uses = (cast("list[object]", s) if isinstance(s, list) else [s] for s in statements)
        return tuple(chain.from_iterable(uses))

    def define_operator(
        self,
        meta: Meta,
        first: Name | Path,
        second: Name | Path,
        args: tuple[Arg, ...] | None,
        settings: tuple[Setting, ...] | None,
    ) -> DefineOperator:
        # of tremor 0.11 the kind comes first
        name, kind = (first, second) if isinstance(first, Name) else (second, first)
        return DefineOperator(cast("Name", name), cast("Path", kind), args or (), settings or (), self._span(meta))

    def select(
        self,
        meta: Meta,
        what: Expr,
        source: _StreamPort,
        _windows: object,
        where: Expr | None,
        _group: object,
        target: _StreamPort,
        having: Expr | None,
    ) -> SelectStatement:
        begin, end = self._placed(source, "in"), self._placed(target, "out")
        return SelectStatement(what, begin.node, where, end.node, having, self._span(meta), begin.port, end.port)

    def _placed(self, written: _StreamPort, whole: str) -> _StreamPort:
        placed = _place(written, whole)
        if written.node.text == whole:
            self._written.setdefault((whole, placed.node.text), placed.node)
        return placed

    def where(self, _meta: Meta, condition: Expr) -> Expr:
        return condition

    having = where

    def stream_port(self, _meta: Meta, node: Name, port: Name | None) -> _StreamPort:
        return _StreamPort(node, port)

    # ---- scripts

    def intrinsic(self, meta: Meta, name: Name, *rest: object) -> DefineFunction:
        return DefineFunction(name, cast("Path", rest[-1]), self._span(meta))

    # ---- expressions

    def _levels(self, meta: Meta, first: Expr, *rest: Token | Expr) -> BinaryNode:
        pairs = [(self._symbol(symbol), operand) for symbol, operand in zip(rest[::2], rest[1::2], strict=True)]
        return BinaryNode(first, tuple((s, o) for s, o in pairs if not isinstance(o, Token)), self._span(meta))

    or_expr = xor_expr = and_expr = bit_or = bit_xor = bit_and = _levels
    equality = comparison = shift = sum = product = _levels

    def prefix(self, meta: Meta, *parts: Token | Expr) -> Unary:
        operators = tuple(self._symbol(part) for part in parts[:-1])
        operand = parts[-1]
        assert not isinstance(operand, Token)
        return Unary(operators, operand, self._span(meta))

    def _symbol(self, token: "Token | Expr") -> Name:
        assert isinstance(token, Token)
        return Name(str(token), self._at(token))

    def access(self, meta: Meta, of: Expr, *segments: Segment) -> Access:
        if isinstance(of, Access):  # `$a.b`
            return Access(of.of, (*of.segments, *segments), self._span(meta))
        return Access(of, segments, self._span(meta))

    def member(self, _meta: Meta, name: Name) -> Name:
        return name

    def element(self, _meta: Meta, index: Expr) -> Expr:
        return index

    def slice(self, meta: Meta, begin: Expr, end: Expr) -> SliceNode:
        return SliceNode(begin, end, self._span(meta))

    def integer(self, meta: Meta, digits: Token) -> Literal:
        return Literal(self._literal(lambda: literals.integer(digits), 0, self._at(digits)), self._span(meta))

    def float(self, meta: Meta, digits: Token) -> Literal:
        return Literal(self._literal(lambda: literals.number(digits), 0.0, self._at(digits)), self._span(meta))

    def true(self, meta: Meta, _word: Token) -> Literal:
        return Literal(True, self._span(meta))

    def false(self, meta: Meta, _word: Token) -> Literal:
        return Literal(False, self._span(meta))

    def null(self, meta: Meta, _word: Token) -> Literal:
        return Literal(None, self._span(meta))

    def string(self, meta: Meta, *parts: Token | Expr) -> Text:
        inner = [self._text(part) if isinstance(part, Token) else part for part in parts[1:-1]]
        return Text(tuple(inner), self._span(meta))

    def heredoc(self, meta: Meta, *parts: Token | Expr) -> Text:
        """Its lines end in a newline, whatever the file's do; their indentation is kept, as in tremor."""
        return Text(
            tuple(self._lines(part) if isinstance(part, Token) else part for part in parts[1:-1]), self._span(meta)
        )

    def _lines(self, token: Token) -> str:
        def read() -> str:
            return literals.unescape(token) and "\n".join(map(literals.unescape, token.split("\r\n")))

        return self._literal(read, "", self._at(token))

    def _text(self, token: Token) -> str:
        return self._literal(lambda: literals.unescape(token), "", self._at(token))

    def interpolation(self, _meta: Meta, _opening: Token, value: Expr) -> Expr:
        return value

    def array(self, meta: Meta, *items: Expr | None) -> Array:
        return Array(tuple(item for item in items if item is not None), self._span(meta))

    def record(self, meta: Meta, *fields: Field | None) -> RecordNode:
        return RecordNode(tuple(field for field in fields if field is not None), self._span(meta))

    def field(self, _meta: Meta, key: Text, value: Expr) -> Field:
        return Field(key, value)

    def wrong_field(self, _meta: Meta, key: Text, value: Expr) -> Field:
        self._error("keys of a record take `:`, not `=`", key.span, f"write `{key.span.text}: …`")
        return Field(key, value)

    def wrong_bare_field(self, _meta: Meta, name: Name, value: Expr) -> Field:
        self._error("keys of a record are quoted and take `:`", name.span, f'write `"{name.text}": …`')
        return Field(Text((name.text,), name.span), value)

    def call(self, meta: Meta, function: Path, *arguments: Expr | None) -> CallNode:
        return CallNode(function, tuple(a for a in arguments if a is not None), self._span(meta))

    def reference(self, meta: Meta, path: Path) -> Reference:
        return Reference(path, self._span(meta))

    def root(self, meta: Meta, word: Token) -> Root:
        return Root(str(word), self._span(meta))

    def metadata(self, meta: Meta, name: Name | None) -> Root | Access:
        root = Root("$", self._span(meta))
        return Access(root, (name,), self._span(meta)) if name else root

    def present(self, meta: Meta, word: Token, of: Expr) -> Present:
        return Present(word == "present", of, self._span(meta))

    def bytes(self, meta: Meta, *parts: "Token | Packed | None") -> Bytes:
        return Bytes(tuple(part for part in parts if isinstance(part, Packed)), self._span(meta))

    def bytes_part(self, _meta: Meta, value: Expr, size: Token | None, kind: Name | None) -> Packed:
        if size is None:
            return Packed(value, None, kind)
        return Packed(
            value, Size(self._literal(lambda: literals.integer(size), 8, self._at(size)), self._at(size)), kind
        )

    def bytes_type(self, meta: Meta, *names: Name | Token) -> Name:
        return Name("-".join(name.text for name in names if isinstance(name, Name)), self._span(meta))

    def merge(self, meta: Meta, of: Expr, spec: Expr) -> Merge:
        return Merge(of, spec, self._span(meta))

    def patch(self, meta: Meta, of: Expr, *operations: Operation) -> Patch:
        return Patch(of, operations, self._span(meta))

    def patch_insert(self, meta: Meta, key: Text, value: Expr) -> Operation:
        return Operation("insert", key, value, self._span(meta))

    def wrong_patch_insert(self, meta: Meta, key: Name, value: Expr) -> Operation:
        message = f'`insert` takes a quoted key and `=>`: read as `insert "{key.text}" => …`'
        self._report(warning(message, key.span, f'write `insert "{key.text}" => …`'))
        return Operation("insert", Text((key.text,), key.span), value, self._span(meta))

    def patch_upsert(self, meta: Meta, key: Text, value: Expr) -> Operation:
        return Operation("upsert", key, value, self._span(meta))

    def patch_update(self, meta: Meta, key: Text, value: Expr) -> Operation:
        return Operation("update", key, value, self._span(meta))

    def patch_erase(self, meta: Meta, key: Text) -> Operation:
        return Operation("erase", key, None, self._span(meta))

    def patch_move(self, meta: Meta, key: Text, to: Text) -> Operation:
        return Operation("move", key, to, self._span(meta))

    def patch_copy(self, meta: Meta, key: Text, to: Text) -> Operation:
        return Operation("copy", key, to, self._span(meta))

    def patch_merge(self, meta: Meta, key: Text | None, value: Expr) -> Operation:
        return Operation("merge", key, value, self._span(meta))

    def patch_default(self, meta: Meta, key: Text | None, value: Expr) -> Operation:
        return Operation("default", key, value, self._span(meta))

    def module_path(self, _meta: Meta, *names: Name) -> Path:
        return names

    def name(self, meta: Meta, written: Token) -> Name:
        return Name(literals.name(written), self._span(meta))

    def _literal(self, read: "Callable[[], T]", otherwise: "T", written: Span) -> "T":
        try:
            return read()
        except literals.BadLiteral as bad:
            begin = written.start + bad.at
            end = begin + bad.width if bad.width else written.end
            self._error(str(bad), written._replace(start=begin, end=end))
            return otherwise


def _kind(word: Token) -> Kind:
    return "connector" if word == "connector" else "pipeline"


def _place(written: _StreamPort, whole: str) -> _StreamPort:
    """`out/ws0` is the pipeline's port `ws0`, as `out` alone is its port `out`."""
    node, port = written
    return _StreamPort(port, None) if port and node.text == whole else written


def _flattened(statements: Iterable[object]) -> list[Statement]:
    """A `use` of a group is several; what could not be read, or is not supported yet, is none."""
    flat: list[Statement] = []
    for statement in statements:
        if isinstance(statement, list):
            flat += _flattened(cast("list[object]", statement))
        elif isinstance(statement, Statement):
            flat.append(statement)
    return flat
