"""The table of mutants, derived from the source: every call that reaches a `Disk` and every comparison.

A call is found by its name: the methods of the protocol `Disk`, and those of the log's `Directory` that call one. A row
is told again by where it stands and what it says, not by its line."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
SIDECAR: Final = ("sidecar", "checksum", "recovery", "appended_file")
DELIVERY: Final = (
    "lane",
    "source",
    "ahead",
    "known_arrivals",
    "recalled_events",
    "sender",
    "failed_parts",
    "sink_record",
    "writer",
)  # what lanes and two logs in a row go by
OUTCOMES: Final = ("receipt", "nodes/rejects", "nodes/fanout")  # what became of each event

BOUNDARIES: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPPOSITES: Final = {
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==",
    "in": "not in", "not in": "in", "is": "is not", "is not": "is",
}  # fmt: skip
SYMBOLS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
STAT: Final = "__import__('walflow.disk').disk.Stat(0, (0, 0))"
# What a call gives that was not made. Whatever is not here gives None.
WITHOUT: Final = {
    "read": ("b''",), "names": ("[]",), "stat": (STAT,), "filesystem": ("''",), "lock": ("True",),
    "is_file": ("True", "False"), "open": ("-1",), "create": ("-1",),
}  # fmt: skip
SYSTEM: Final = "of the operating system, not of a Disk: what is repaired by hand has no simulated disk"
STREAM: Final = "of a stream that the built-in open() gave, which nothing durable depends on"
ASSERTED: Final = "in an assert, which says what is so and decides nothing"
SHOWN: Final = "in a __repr__"


class Row(NamedTuple):
    """`start` to `end`, in bytes of the file, become `after`. `last`: its last line. `nth`: of those in one function that look the same.
    `reason`: why it is not tried; empty for nearly all."""

    file: str
    line: int
    last: int
    column: int
    kind: str
    function: str
    what: str
    becomes: str
    nth: int
    start: int
    end: int
    after: str
    reason: str

    @property
    def key(self) -> str:
        nth = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.file} {self.function}: {self.what} -> {self.becomes}{nth}"

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


RULE: Final = ("outage", "sinks/job_engine")  # when what failed is sent again; what the log's writer stands on


def targets() -> list[str]:
    engine = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "walflow/wal").rglob("*.py"))
    delivery = [f"walflow/delivery/{name}.py" for name in DELIVERY]
    outcomes = [f"walflow/{name}.py" for name in (*OUTCOMES, *RULE)]
    return [*engine, *delivery, *outcomes, "walflow/durable.py", *(f"connectors/file/{name}.py" for name in SIDECAR)]


def table(files: list[str] | None = None) -> list[Row]:
    """Also those with a reason."""
    return [row for file in files or targets() for row in rows(file, (ROOT / file).read_bytes())]


@cache
def operations() -> frozenset[str]:
    """Names of calls that reach a Disk."""
    disk = _methods(ROOT / "walflow/disk.py", "Disk")
    names = set(disk)
    for name, method in _methods(ROOT / "walflow/wal/directory.py", "Directory").items():
        calls = {attribute.attr for node in ast.walk(method) if (attribute := _method_called(node)) is not None}
        if calls & disk.keys():
            names.add(name)
    return frozenset(names)


def _methods(path: Path, name: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_bytes())
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}


def _method_called(node: ast.AST) -> ast.Attribute | None:
    return node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


def rows(file: str, source: bytes) -> Iterator[Row]:
    seen: dict[str, int] = {}
    for row in _Finder(file, source).found():
        seen[row.key] = nth = seen.get(row.key, 0) + 1
        yield row._replace(nth=nth)


class _Finder:
    def __init__(self, file: str, source: bytes) -> None:
        self._file = file
        self._source = source
        self._tree = ast.parse(source)
        self._above = {child: node for node in ast.walk(self._tree) for child in ast.iter_child_nodes(node)}
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def found(self) -> list[Row]:
        return sorted(self._all(), key=lambda row: (row.start, row.end, row.becomes))

    def _all(self) -> Iterator[Row]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Compare):
                yield from self._compared(node)
            elif isinstance(node, ast.Call) and _name(node) in operations():
                yield from self._called(node)
            for _, block in ast.iter_fields(node):
                if isinstance(block, list):
                    yield from self._swapped(block)

    def _compared(self, node: ast.Compare) -> Iterator[Row]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            symbol = SYMBOLS[type(operator)]
            start, end = self._end(left), self._start(right)
            token = re.search(symbol.replace(" ", r"\s+").encode(), self._source[start:end])
            assert token is not None, symbol
            for becomes in filter(None, (BOUNDARIES.get(symbol), OPPOSITES[symbol])):
                place = start + token.start(), start + token.end()
                yield self._row(node, "comparison", self._text(node), becomes, place, becomes)
            left = right

    def _called(self, node: ast.Call) -> Iterator[Row]:
        place = self._start(node), self._end(node)
        if isinstance(self._above[node], ast.Expr):
            kept = [
                self._text(each) for each in node.args if any(isinstance(one, ast.Call) for one in ast.walk(each))
            ]
            yield self._row(
                node, "call", self._text(node), "nothing", place, f"({', '.join(kept)},)" if kept else "None"
            )
            return
        given = [word for word in node.keywords if word.arg in ("create", "exclusive")]
        for word in given:
            instead = ["create=True", "create=False"] if word.arg == "exclusive" else ["create=False"]
            for each in instead:
                yield self._row(node, "call", self._text(node), each, (self._start(word), self._end(word)), each)
        for each in WITHOUT.get(_name(node), ("None",)) if not given else ():
            yield self._row(node, "call", self._text(node), each, place, each)

    def _swapped(self, block: list[ast.AST]) -> Iterator[Row]:
        """Two calls that stand one behind the other, the other way round."""
        for one, other in pairwise(block):
            calls = [
                each.value for each in (one, other) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)
            ]
            if len(calls) == 2 and all(_name(call) in operations() for call in calls):
                first, second = map(self._text, calls)
                start, middle, later, end = self._start(one), self._end(one), self._start(other), self._end(other)
                after = second + self._source[middle:later].decode() + first
                yield self._row(calls[0], "order", f"{first}; {second}", "the other way round", (start, end), after)

    def _row(self, node: ast.expr, kind: str, what: str, becomes: str, place: tuple[int, int], after: str) -> Row:
        function, reason = self._around(node)
        if kind == "call":
            reason = reason or _not_ours(what)
        line = self._source[: place[0]].count(b"\n") + 1
        column = place[0] - self._starts[line - 1] + 1
        return Row(
            self._file, line, node.end_lineno or line, column, kind, function, what, becomes, 1, *place, after, reason
        )

    def _around(self, node: ast.AST) -> tuple[str, str]:
        names: list[str] = []
        reason = ""
        while node in self._above:
            node = self._above[node]
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
            if isinstance(node, ast.Assert):
                reason = ASSERTED
        reason = SHOWN if "__repr__" in names else reason
        return ".".join(reversed(names)) or "at import", reason

    def _text(self, node: ast.AST) -> str:
        return re.sub(r"\s+", " ", self._source[self._start(node) : self._end(node)].decode())

    def _start(self, node: ast.AST) -> int:
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.AST) -> int:
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset


def _name(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _not_ours(what: str) -> str:
    if what.startswith("os."):
        return SYSTEM
    return STREAM if what.startswith(("file.", "open(")) else ""
