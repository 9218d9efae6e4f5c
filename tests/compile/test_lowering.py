"""From an expression to a constant or a term, once."""

import pytest

from tests.compile.world import parsed, read, shipped
from walflow.compile.nodes import Array, Expr, Path
from walflow.compile.program import FunctionOf
from walflow.compile.resolve import resolved
from walflow.diagnostics import Diagnostic
from walflow.lang.scope import Names


class Asked(Names):
    """Counts the functions that are looked up."""

    functions = 0

    def written(self, path: Path) -> FunctionOf | None:
        self.functions += 1
        return super().written(path)


@pytest.mark.parametrize("depth", [1, 50, 200])
def test_each_part_is_looked_at_once_however_deep_it_stands(depth: int) -> None:
    said: list[Diagnostic] = []
    node: Expr = parsed("json::encode(event.a)", said)
    for _ in range(depth):
        node = Array((node,), node.span)
    scope = Asked(shipped(), {}, said.append)
    assert resolved(node, scope) is not None
    assert (said, scope.functions) == ([], 1)


@pytest.mark.parametrize(
    ("text", "doubled"),
    [
        ('{"a#{1}": event.a, "a#{2}": event.b}', []),
        ('{"a#{event.x}": 1, "a": event.b}', []),
        ('{"a#{1}": event.a, "a1": event.b}', ["the key `a1` stands twice in this record"]),
        ('{"a#{1}": 1, "a1": 2}', ["the key `a1` stands twice in this record"]),
    ],
)
def test_keys_are_compared_as_they_are(text: str, doubled: list[str]) -> None:
    """Red before: of a key with `#{}` the texts around it alone were compared."""
    assert read(text)[1] == doubled


def test_what_is_known_of_an_unknown_name_is_known_at_load() -> None:
    assert read("string::len((present nothing_here[event.k]))")[1] == [
        "nothing has the name `nothing_here` here: `present nothing_here[event.k]` is false for each event",
        "`string::len`: it takes a string, not false",
    ]
