"""A select with windows, or with `group by`: its expressions, each seen from where it is evaluated.

The values of `group by` and the arguments of aggregates are of the event; the target and `having` are of the window,
which has no event: what stands there is `group`, `window`, aggregates, and expressions that `group by` has too.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from walflow.compile.bodies import Body
from walflow.compile.constant import Constant
from walflow.compile.fields import fields_of
from walflow.compile.folding import shown
from walflow.compile.lowering import argument_of, lower, term_of
from walflow.compile.nodes import CallNode, Expr, Root, Unary, spelled
from walflow.compile.program import (
    AggregateInput,
    AggregateOf,
    Const,
    FrameOf,
    GroupKey,
    KeyStep,
    ReadPath,
    Term,
    UnaryOf,
    WholeTerm,
    WindowsOf,
)
from walflow.compile.scope import Lowered, Scope
from walflow.diagnostics import Span, error
from walflow_kernel.functions import Function
from walflow_kernel.paths import PathStep
from walflow_kernel.windows.frame import SLOTS
from walflow_kernel.windows.functions import WindowFunction

NOT_OF_AN_EVENT: Final = (
    "a window has many events: take an aggregate (`aggr::win::last(…)`), or what `group by` has too"
)


class WrittenKey(NamedTuple):
    """An expression of `group by`."""

    node: Expr
    each: bool


class Windowing:
    """One select. `frames` is empty for one with nothing but `group by`."""

    def __init__(
        self, frames: Sequence[FrameOf], keys: Sequence[WrittenKey], scope: Scope, most: int, max_bytes: int
    ) -> None:
        self._frames = frames
        self._scope = scope
        self._most = most
        self._max_bytes = max_bytes
        self._slots: dict[object, int] = {}
        self._start: list[Callable[[], list[object]]] = []
        self._end = SLOTS
        self._inputs: list[AggregateInput] = []
        self._marks = WrittenAlike()
        self._values: dict[int, Lowered | None] = {}  # of arguments; what is written alike is evaluated once
        self._keys = [(term_of(key.node, Body(scope, "select")), key) for key in keys]
        # what is known at load is that in the target too
        self._written: dict[int, int] = {}
        for at, (term, key) in enumerate(self._keys):
            if not isinstance(term, Const):
                self._written.setdefault(self._marks.of(key.node), at)

    @property
    def has_windows(self) -> bool:
        return bool(self._frames)

    def target(self, node: Expr) -> Term | None:
        return term_of(node, TargetBody(self._scope, self))

    def having(self, node: Expr) -> Term | None:
        return term_of(node, HavingBody(self._scope, self))

    def windows(self, span: Span) -> WindowsOf | None:
        """Once the target is known. None: something is wrong, which has been reported."""
        keys = [GroupKey(term, key.each) for term, key in self._keys if term is not None]
        if len(keys) < len(self._keys):
            return None
        return WindowsOf(
            tuple(self._frames),
            tuple(keys),
            tuple(self._inputs),
            tuple(self._start),
            self._most,
            self._max_bytes,
            span,
        )

    # ---- what the target asks for

    def group_part(self, node: Expr) -> Term | None:
        """An expression that `group by` has too."""
        part = self._written_part(node)
        return self._operator_of_part(node) if part is None and isinstance(node, Unary) else part

    def _written_part(self, node: Expr) -> Term | None:
        at = self._written.get(self._marks.of(node))
        if at is None:
            return None
        step = PathStep(str(at), shown(node.span))
        return ReadPath(WholeTerm("group", node.span), (KeyStep(at, step),), node.span)

    def _operator_of_part(self, node: Unary) -> Term | None:
        """`not not event.a` of `group by not event.a`."""
        for at in range(1, len(node.operators)):
            part = self._written_part(Unary(node.operators[at:], node.operand, node.span))
            if part is not None:
                return UnaryOf(tuple(one.text for one in reversed(node.operators[:at])), part, node.span)
        return None

    def aggregate(self, node: CallNode, function: WindowFunction) -> Term | None:
        name = spelled(node.function)
        if function.aggregate is None:
            return AggregateOf(name, None, 0, None, node.span)
        option = None
        if len(node.arguments) > 1:
            constant = self._option(node, function)
            if constant is None:
                return None
            option = constant.value
        known = (function.aggregate.keeps, self._marks.of(node.arguments[0]) if node.arguments else None)
        if node.arguments and known not in self._slots:
            value = self._argument(node, function)
            if value is None:
                return None
            self._slots[known] = self._end
            takes_number = bool(function.parameters[0].kind.types)
            self._inputs.append(AggregateInput(name, function.aggregate, self._end, value, takes_number))
            self._start.append(function.aggregate.start)
            self._end += len(function.aggregate.start())
        return AggregateOf(name, function.aggregate, self._slots.get(known, 0), option, node.span)

    def _argument(self, node: CallNode, function: WindowFunction) -> Term | None:
        argument = node.arguments[0]
        mark = self._marks.of(argument)
        if mark not in self._values:
            self._values[mark] = lower(argument, ArgumentBody(self._scope))
        found = argument_of(function, 0, node, self._values[mark], self._scope)
        return Const(found.value, argument.span) if isinstance(found, Constant) else found

    def _option(self, node: CallNode, function: WindowFunction) -> Const | None:
        argument = node.arguments[1]
        found = argument_of(function, 1, node, lower(argument, OptionBody(self._scope)), self._scope)
        if found is None:
            return None
        if not isinstance(found, Constant):
            message = f"the second argument of `{spelled(node.function)}` is the same for all events"
            self._scope.report(error(message, argument.span, 'such as `["0.5", "0.99"]`'))
            return None
        assert function.option is not None
        try:
            return Const(function.option(found.value), argument.span)
        except Exception as refused:  # noqa: BLE001
            self._scope.report(error(f"`{spelled(node.function)}`: {refused}", argument.span))
            return None


class _OfGroup(Body):
    """The scope of a select in which `group` has a value."""

    def __init__(self, outer: Scope) -> None:
        super().__init__(outer, "select")

    def root(self, node: Root) -> Term | None:
        return WholeTerm("group", node.span) if node.word == "group" else super().root(node)


class ArgumentBody(_OfGroup):
    """Of an aggregate: of each event, as it comes."""


class OptionBody(Body):
    """Of the second argument of an aggregate, which is known at load: anything else that it names is of the event."""

    def __init__(self, outer: Scope) -> None:
        super().__init__(outer, "select")

    def root(self, node: Root) -> Term | None:
        return WholeTerm("event", node.span)

    def aggregate(self, node: CallNode, function: Function) -> Term | None:
        return WholeTerm("event", node.span)


class TickBody(Body):
    """Of a window's script for ticks. Time has no event."""

    def __init__(self, outer: Scope, statements: Sequence[Expr]) -> None:
        super().__init__(outer, "script", statements)

    def root(self, node: Root) -> Term | None:
        if node.word in {"event", "$"}:
            hint = "let the `script` put into the `state` what a tick needs"
            self.report(error(f"`{node.word}` has no value at a tick", node.span, hint))
            return None
        return super().root(node)


class TargetBody(_OfGroup):
    def __init__(self, outer: Scope, windowing: Windowing) -> None:
        super().__init__(outer)
        self._windowing = windowing

    def root(self, node: Root) -> Term | None:
        if not self._windowing.has_windows:
            return super().root(node)
        if node.word == "window":
            return WholeTerm("window", node.span)
        if node.word == "state":
            return Const(None, node.span)
        if node.word in {"event", "$"}:
            self.report(error(f"`{node.word}` has no value once a window is closed", node.span, NOT_OF_AN_EVENT))
            return None
        return super().root(node)

    def instead(self, node: Expr) -> Term | None:
        return self._windowing.group_part(node)

    def aggregate(self, node: CallNode, function: Function) -> Term | None:
        if not self._windowing.has_windows:
            return super().aggregate(node, function)
        return self._windowing.aggregate(node, cast("WindowFunction", function))


class HavingBody(_OfGroup):
    """`event` is what the target has made."""

    def __init__(self, outer: Scope, windowing: Windowing) -> None:
        super().__init__(outer)
        self._windowing = windowing

    def root(self, node: Root) -> Term | None:
        if node.word == "window" and self._windowing.has_windows:
            return WholeTerm("window", node.span)
        if node.word == "$" and self._windowing.has_windows:
            self.report(error("what a window gives has no metadata", node.span))
            return None
        return super().root(node)

    def aggregate(self, node: CallNode, function: Function) -> Term | None:
        hint = 'give it a member of the target, `{"count": aggr::stats::count()}`, and ask for `event.count`'
        self.report(error("`having` is about what the target has made", node.span, hint))
        return None


class WrittenAlike:
    """A number for each expression, equal for two that are written alike. Each node is read once, although the target
    asks for the mark of every node in it."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}  # by what the node consists of: its type, and the numbers of its parts
        self._known: dict[
            int, tuple[object, int]
        ] = {}  # by the node's identity; the node is kept, so that it stays its own

    def of(self, node: object) -> int:
        known = self._known.get(id(node))
        if known is None:
            number = self._numbers.setdefault(self._content(node), len(self._numbers))
            known = self._known[id(node)] = (node, number)
        return known[1]

    def _content(self, node: object) -> object:
        if isinstance(node, Span):
            return None
        if isinstance(node, tuple):
            parts = cast("tuple[object, ...]", node)
            return (type(parts).__name__, *map(self.of, parts))
        if (names := fields_of(node)) is not None:
            return (type(node).__name__, *(self.of(getattr(node, name)) for name in names))
        return (type(node).__name__, repr(node))
