"""Rules of expressions."""

from lark import Token
from lark.tree import Meta

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
)
from walflow.lang import literals
from walflow.lang.build.rules import TreeRules, by_rule
from walflow.warnings import warning
from walflow.warnings.written_otherwise import WRITTEN_OTHERWISE


@by_rule
class ExpressionRules(TreeRules):
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
        """Its lines end in a newline, also in a file with CR LF. Their indentation is kept, as in tremor."""
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
        return Name("_".join(name.text for name in names if isinstance(name, Name)), self._span(meta))

    def merge(self, meta: Meta, of: Expr, spec: Expr) -> Merge:
        return Merge(of, spec, self._span(meta))

    def patch(self, meta: Meta, of: Expr, *operations: Operation) -> Patch:
        return Patch(of, operations, self._span(meta))

    def patch_insert(self, meta: Meta, key: Text, value: Expr) -> Operation:
        return Operation("insert", key, value, self._span(meta))

    def wrong_patch_insert(self, meta: Meta, key: Name, value: Expr) -> Operation:
        message = f'`insert` takes a quoted key and `=>`: read as `insert "{key.text}" => …`'
        self._report(warning(WRITTEN_OTHERWISE, message, key.span, f'write `insert "{key.text}" => …`'))
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
