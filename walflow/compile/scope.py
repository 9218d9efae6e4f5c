"""What an expression needs to know about its place."""

from collections.abc import Mapping
from typing import Protocol

from walflow.compile.constant import Constant
from walflow.compile.nodes import (
    CallNode,
    DropNode,
    EmitNode,
    Expr,
    ForNode,
    LetNode,
    MatchNode,
    Path,
    RecurNode,
    Root,
)
from walflow.compile.program import FunctionOf, LocalTerm, Term
from walflow.diagnostics import Diagnostic
from walflow_kernel.functions import Function
from walflow_kernel.moment import Moment

Lowered = Constant | Term
"""What an expression became: a constant, or what depends on the event, its time, or chance."""


class Scope(Protocol):
    """The meaning of names at the place of the expression. Each method reports a name that it does not find."""

    def args(self, root: Root) -> Mapping[str, Constant | None] | None:
        """The value of an arg is None if it could not be evaluated, which was reported already."""
        ...

    def args_hint(self) -> str | None: ...

    def function(self, path: Path) -> Function | None: ...

    def written(self, path: Path) -> FunctionOf | None:
        """A function that is written in the language.
        None: the path leads to no such function, which is no mistake."""
        ...

    def local(self, path: Path) -> LocalTerm | None:
        """A name in a script, a function or a pattern."""
        ...

    def constant(self, path: Path) -> Constant | None: ...

    def has_constant(self, path: Path) -> bool:
        """Reports nothing."""
        ...

    def report(self, diagnostic: Diagnostic) -> None: ...

    # ---- what depends on the event

    def at_load(self) -> "LoadScope | None":
        """Itself, where there is no event."""
        ...

    def root(self, node: Root) -> Lowered | None:
        """`event`, `$`, `state` …"""
        ...

    def instead(self, node: Expr) -> Term | None:
        """What stands for an expression that is of the event, where there is none."""
        ...

    def aggregate(self, node: CallNode, function: Function) -> Term | None:
        """A function that only a window has a value of."""
        ...

    def further(self, node: MatchNode | ForNode | LetNode | EmitNode | DropNode | RecurNode) -> Lowered | None:
        """What sets locals, or is allowed only at such a place."""
        ...


class LoadScope(Scope, Protocol):
    """Where there is no event: everything is known at load, or has no value."""

    def moment(self) -> Moment:
        """For what depends on time or chance."""
        ...

    def evaluated(self, node: Expr) -> Constant | None:
        """The value of a `match`, a `for` or a call of a function of the file."""
        ...
