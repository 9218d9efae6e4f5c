"""Scripts, functions, `match` and `for`: what sets locals, and what has effects.

Each is resolved in a Body, which knows the locals at a place. A `let` sets a local for everything that follows in the
script or function. A name in a pattern or after `case` is known only in its case.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, Literal, cast

from walflow.compile.constant import Constant
from walflow.compile.fields import fields_of
from walflow.compile.folding import shown
from walflow.compile.lowering import arity, not_at_load, passed, term_of
from walflow.compile.nodes import (
    Access,
    AnyNode,
    Array,
    ArrayPatternNode,
    BoundNode,
    CallNode,
    CaseNode,
    DropNode,
    EmitNode,
    EqualNode,
    Expr,
    ExtractNode,
    FieldNode,
    ForCaseNode,
    ForNode,
    LetNode,
    Literal as LiteralNode,
    MatchNode,
    Name,
    Path,
    PatternNode,
    RecordPatternNode,
    RecurNode,
    Reference,
    Root,
    Segment,
    SliceNode,
    Text,
    TuplePatternNode,
    Unsupported,
    path_span,
    spelled,
)
from walflow.compile.program import (
    CaseOf,
    Const,
    DropOf,
    EmitOf,
    ForCaseOf,
    ForOf,
    FunctionOf,
    KeyBy,
    KeyStep,
    LetOf,
    LocalTerm,
    MatchOf,
    ReadPath,
    RecurOf,
    ReturnOf,
    StepsOf,
    Term,
    WholeTerm,
    ends,
)
from walflow.compile.scope import Scope
from walflow.diagnostics import Diagnostic, Source, Span, did_you_mean, error, one_of, warning
from walflow_kernel.extractors import BadExtractor, extractor
from walflow_kernel.functions import Function
from walflow_kernel.paths import PathStep
from walflow_kernel.patterns import (
    Anything,
    ArrayPattern,
    Equals,
    EqualsGiven,
    Extracts,
    FieldTest,
    FieldWord,
    Pattern,
    RecordPattern,
    TuplePattern,
)

DEEPEST: Final = 16  # levels of `match` and `for` within each other: Python allows 20 loops and 100 indents

BodyKind = Literal["select", "script", "function", "constant"]

_UNREACHED: Final = "this is never reached"


class Body:
    """The scope of an expression of a select, of a script, or of a function."""

    def __init__(
        self, outer: Scope, kind: BodyKind, statements: Sequence[Expr] = (), *, variadic: bool = False
    ) -> None:
        self._variadic = variadic
        self._outer = outer
        self._kind = kind
        self._frames: list[dict[str, LocalTerm]] = [{}]
        self._slots = count(1)
        self._depth = 0
        self._parameters: list[LocalTerm] = []
        self.sets = set_roots(statements)
        self.unsure: list[int] = []
        self.ports: dict[str, None] = {"out": None} if kind == "script" else {}
        self.recurs = self.keeps = False

    # ---- the scope around it

    def args(self, root: Root) -> Mapping[str, Constant | None] | None:
        return self._outer.args(root)

    def args_hint(self) -> str | None:
        return self._outer.args_hint()

    def function(self, path: Path) -> Function | None:
        return self._outer.function(path)

    def written(self, path: Path) -> FunctionOf | None:
        return self._outer.written(path)

    def report(self, diagnostic: Diagnostic) -> None:
        self._outer.report(diagnostic)

    def constant(self, path: Path) -> Constant | None:
        known = [name for frame in self._frames for name in frame]
        near = did_you_mean(path[0].text, known) if len(path) == 1 else None
        if near is not None:
            self.report(error(f"unknown name `{path[0].text}`", path_span(path), near))
            return None
        return self._outer.constant(path)

    def has_constant(self, path: Path) -> bool:
        return self._outer.has_constant(path)

    # ---- locals

    def local(self, path: Path) -> LocalTerm | None:
        if len(path) != 1:
            return None
        found = self._named(path[0].text)
        return None if found is None else LocalTerm(found.slot, found.name, found.sure, path[0].span)

    def _named(self, name: str) -> LocalTerm | None:
        return next((frame[name] for frame in reversed(self._frames) if name in frame), None)

    def parameter(self, name: Name) -> LocalTerm:
        self._parameters.append(self._bind(name))
        return self._parameters[-1]

    def _bind(self, name: Name) -> LocalTerm:
        """Adds a local to the innermost case."""
        made = self._frames[-1][name.text] = LocalTerm(next(self._slots), name.text, True, name.span)
        return made

    def _declared(self, name: Name) -> LocalTerm:
        """Adds a local that `let` sets."""
        found = self._named(name.text)
        if found is None:
            found = LocalTerm(next(self._slots), name.text, self._depth == 0, name.span)
            self._frames[0][name.text] = found
            if not found.sure:
                self.unsure.append(found.slot)
        return found

    @contextmanager
    def _within(self, node: MatchNode | ForNode) -> Generator[bool]:
        """False: it nests too deep, which was reported."""
        self._depth += 1
        if self._depth > DEEPEST:
            message = f"`match` and `for` nest at most {DEEPEST} deep"
            self.report(error(message, node.span, "put the inner one into a function, `fn … end`"))
        yield self._depth <= DEEPEST
        self._depth -= 1

    @contextmanager
    def _case_names(self) -> Generator[None]:
        self._frames.append({})
        yield
        self._frames.pop()

    # ---- roots

    def root(self, node: Root) -> Term | None:
        if node.word == "args":
            return self.local((Name("args", node.span),))
        if node.word in {"group", "window"}:
            has = "`group by`" if node.word == "group" else "a window"
            self.report(error(f"`{node.word}` stands in the target of a select with {has} only", node.span))
        elif node.word not in {"event", "$", "state"}:
            self.report(error(f"`{node.word}` is not supported yet", node.span))
        elif self._kind == "constant":
            self.report(not_at_load(node.word, node.span))
        elif self._kind == "function":
            hint = "hand it over as an argument"
            self.report(error(f"a function sees its parameters alone, not `{node.word}`", node.span, hint))
        elif node.word == "state" and self._kind == "select":
            hint = "let a script before the select put into the event what the select needs"
            self.report(error("`state` is a script's: a select has none", node.span, hint))
        else:
            self.keeps = self.keeps or node.word == "state"
            return WholeTerm("state" if node.word == "state" else "event" if node.word == "event" else "$", node.span)
        return None

    def at_load(self) -> None:
        return None

    def instead(self, node: Expr) -> Term | None:
        return None

    def aggregate(self, node: CallNode, function: Function) -> Term | None:
        message = f"`{spelled(node.function)}` stands in the target of a select with a window only"
        self.report(error(message, node.span, "`select … from in[window] into out`"))
        return None

    # ---- statements

    def outcome_of(self, statements: Sequence[Expr], span: Span) -> Term | None:
        """For a script: it ends in what leaves."""
        if not statements:
            self.report(error("a script needs a statement at least", span, "`event` hands the event on"))
            return None
        if isinstance(statements[-1], LetNode):
            hint = "end with `event` to send the event on"
            self.report(
                warning(
                    "what leaves is the value that this `let` assigns", statements[-1].span, hint, name="ends-in-let"
                )
            )
        return self._steps(statements, span, self._outcome)

    def result_of(self, statements: Sequence[Expr], span: Span) -> Term | None:
        """For a function: it ends in its value."""
        return self._steps(statements, span, self._result)

    def _steps(self, nodes: Sequence[Expr], span: Span, last: Callable[[Expr], Term | None]) -> Term | None:
        found: list[Term | None] = []
        for at, node in enumerate(nodes):
            found.append(last(node) if at == len(nodes) - 1 else term_of(node, self))
            before = found[-1]
            if at < len(nodes) - 1 and before is not None and ends(before):
                self.report(warning(_UNREACHED, nodes[at + 1].span, "the script ends before it", name="unreached"))
        terms = [term for term in found if term is not None]
        if len(terms) < len(found):
            return None
        return terms[0] if len(terms) == 1 else StepsOf(tuple(terms), span)

    def _outcome(self, node: Expr) -> Term | None:
        if isinstance(node, EmitNode | DropNode | Unsupported):
            return term_of(node, self)
        if isinstance(node, MatchNode):
            return self._match(node, self._outcome)
        return self._emitted(node, "out", node.span)

    def _emitted(self, node: Expr | None, port: str, span: Span) -> Term | None:
        """The term of an `emit`. `node` None stands for `event`."""
        if node is None or (isinstance(node, Root) and node.word == "event"):
            return EmitOf(WholeTerm("event", span) if "event" in self.sets else None, port, span)
        value = term_of(node, self)
        return None if value is None else EmitOf(value, port, span)

    def _result(self, node: Expr) -> Term | None:
        if isinstance(node, MatchNode):
            return self._match(node, self._result)
        if isinstance(node, RecurNode):
            return self._recur(node)
        value = term_of(node, self)
        return None if value is None else ReturnOf(value, node.span)

    def further(self, node: MatchNode | ForNode | LetNode | EmitNode | DropNode | RecurNode) -> Term | None:
        match node:
            case MatchNode():
                return self._match(node, lambda one: term_of(one, self))
            case ForNode():
                return self._for(node)
            case LetNode():
                return self._let(node)
            case EmitNode():
                return self._emit(node)
            case DropNode():
                if self._kind == "script":
                    return DropOf(node.span)
                self.report(error("`drop` ends a script: it stands in none here", node.span))
            case RecurNode():
                what = "the last of a function" if self._kind == "function" else "in a function"
                self.report(error(f"`recur` stands {what} only", node.span))
        return None

    def _emit(self, node: EmitNode) -> Term | None:
        if self._kind != "script":
            self.report(error("`emit` ends a script: it stands in none here", node.span))
            return None
        port = "out" if node.port is None else self._port(node.port)
        if port is None:
            return None
        self.ports.setdefault(port)
        return self._emitted(node.value, port, node.span)

    def _port(self, written: Text) -> str | None:
        if not all(isinstance(part, str) for part in written.parts):
            hint = "a port is known when the file is read: take a `match` and an `emit` for each"
            self.report(error("the name of a port has no `#{}`", written.span, hint))
            return None
        return "".join(part for part in written.parts if isinstance(part, str))

    def _recur(self, node: RecurNode) -> Term | None:
        takes, given = len(self._parameters) - self._variadic, len(node.arguments)
        arguments = [term_of(one, self) for one in node.arguments]
        found = [one for one in arguments if one is not None]
        if given < takes or (given > takes and not self._variadic):
            self.report(error(f"this function takes {arity(takes, self._variadic)}, not {given}", node.span))
            return None
        self.recurs = True
        if len(found) < given:
            return None
        return RecurOf(passed(found, takes, self._variadic, node.span), node.span)

    # ---- let

    def _let(self, node: LetNode) -> Term | None:
        value = term_of(node.value, self)
        target, segments = (node.path.of, node.path.segments) if isinstance(node.path, Access) else (node.path, ())
        root = self._target(target, node.path, segments)
        steps = [self._assigned_step(segment, node.path) for segment in segments]
        found = [step for step in steps if step is not None]
        if root is None or value is None or len(found) < len(steps):
            return None
        return LetOf(root, tuple(found), value, node.span)

    def _target(self, target: Expr, path: Expr, segments: Sequence[Segment]) -> WholeTerm | LocalTerm | None:
        if isinstance(target, Root) and target.word in {"event", "$", "state"}:
            if target.word == "$" and not segments:
                self.report(error("`let` takes a member of `$`, not all of it", path.span, "write `let $.name = …`"))
                return None
            root = self.root(target)
            return root if isinstance(root, WholeTerm) else None
        if not isinstance(target, Reference) or len(target.path) != 1:
            word = f"`{target.word}`" if isinstance(target, Root) else "this"
            self.report(
                error(f"{word} cannot be assigned to", path.span, "`let` takes a name, `event`, `state` or `$.name`")
            )
            return None
        name = target.path[0]
        if not segments:
            return self._declared(name)
        found = self.local(target.path)
        if found is None:
            self.report(error(f"unknown name `{name.text}`", name.span, f"begin with `let {name.text} = {{}}`"))
        return found

    def _assigned_step(self, segment: Segment, path: Expr) -> KeyStep | KeyBy | None:
        written = shown(path.span)
        if isinstance(segment, Name):
            return KeyStep(segment.text, PathStep(segment.text, written))
        if isinstance(segment, SliceNode):
            self.report(error(NO_ELEMENT, segment.span))
            return None
        term = term_of(segment, self)
        if term is None:
            return None
        step = PathStep(shown(segment.span), written)
        if not isinstance(term, Const):
            return KeyBy(term, step)
        if not isinstance(term.value, str):
            self.report(error(NO_ELEMENT, segment.span))
            return None
        return KeyStep(term.value, step)

    # ---- match

    def _match(self, node: MatchNode, last: Callable[[Expr], Term | None]) -> Term | None:
        of = term_of(node.of, self)
        with self._within(node) as fits:
            cases = [self._case(case, node, last) for case in node.cases] if fits else [None]
        self._warn_of_cases(node)
        found = [case for case in cases if case is not None]
        if of is None or len(found) < len(cases):
            return None
        return MatchOf(of, tuple(found), self._reads(of, found), node.span)

    def _case(self, node: CaseNode, match: MatchNode, last: Callable[[Expr], Term | None]) -> CaseOf | None:
        given: list[Term | None] = []
        with self._case_names():
            pattern, bind, wrong = None, None, False
            if node.pattern is not None:
                written = node.pattern.pattern if isinstance(node.pattern, BoundNode) else node.pattern
                written = _own_parameters(written, match.of)
                unknown = [] if node.guard is None else self._unknown_names(written)
                for name in unknown:
                    self.report(error(f"unknown name `{name.text}`", name.span, _to_name(name, node, match)))
                    self._bind(name)  # what follows it has no mistake of its own
                pattern = None if unknown else self._pattern(written, given)
                wrong = pattern is None
                if isinstance(node.pattern, BoundNode):
                    bind = self._bind(node.pattern.name)
            guard = None if node.guard is None else term_of(node.guard, self)
            body = self._steps(node.body, node.span, last)
        terms = [one for one in given if one is not None]
        if wrong or body is None or len(terms) < len(given) or (node.guard is not None and guard is None):
            return None
        return CaseOf(pattern, tuple(terms), bind, guard, body, node.span)

    def _unknown_names(self, pattern: PatternNode) -> list[Name]:
        """Of `case s when …`, where nothing has the name: it is meant to get one, as in other languages."""
        found: list[Name] = []
        for one in pattern.items if isinstance(pattern, TuplePatternNode) else (pattern,):
            name = _named(one)
            path = () if name is None else (name,)
            if name is not None and self._named(name.text) is None and not self._outer.has_constant(path):
                found.append(name)
        return found

    def _pattern(self, node: PatternNode, given: list[Term | None]) -> Pattern | None:
        match node:
            case AnyNode():
                return Anything()
            case EqualNode():
                value = term_of(node.value, self)
                if isinstance(value, Const):
                    return Equals(value.value)
                given.append(value)
                return EqualsGiven(len(given) - 1)
            case ExtractNode():
                return self._extractor(node)
            case RecordPatternNode():
                tests = [self._field(field, given) for field in node.fields]
                found = [test for test in tests if test is not None]
                return RecordPattern(tuple(found)) if len(found) == len(tests) else None
            case ArrayPatternNode() | TuplePatternNode():
                patterns = [self._pattern(item, given) for item in node.items]
                items = tuple(one for one in patterns if one is not None)
                if len(items) < len(patterns):
                    return None
                return ArrayPattern(items) if isinstance(node, ArrayPatternNode) else TuplePattern(items, node.open)
            case BoundNode():
                self.report(error("a name stands before a whole pattern only", node.name.span))
                return None

    def _extractor(self, node: ExtractNode) -> Pattern | None:
        try:
            return Extracts(extractor(node.name.text, node.argument))
        except BadExtractor as bad:
            self.report(error(str(bad), node.span))
            return None

    def _field(self, node: FieldNode, given: list[Term | None]) -> FieldTest | None:
        key = node.key.text
        store = key if node.store is None else node.store.text
        if node.word in {"present", "absent"}:
            return FieldTest(key, "present" if node.word == "present" else "absent", store)
        assert node.test is not None
        if node.word == "~=":
            assert isinstance(node.test, PatternNode)
            pattern = self._pattern(node.test, given)
            return None if pattern is None else FieldTest(key, "fits", store, pattern)
        assert not isinstance(node.test, PatternNode)
        word: FieldWord = _COMPARISONS[node.word]
        value = term_of(node.test, self)
        if isinstance(value, Const):
            return FieldTest(key, word, store, None, value.value)
        given.append(value)
        return FieldTest(key, word, store, None, None, len(given) - 1)

    def _reads(self, of: Term, cases: Sequence[CaseOf]) -> tuple[ReadPath, ...] | None:
        if not isinstance(of, WholeTerm) or of.root in self.sets:
            return None
        found: list[ReadPath] = []
        for case in cases:
            if isinstance(case.pattern, RecordPattern) and case.pattern.fields:
                found += _leaves(case.pattern, of, (), case.span)
            elif case.bind is not None or not isinstance(case.pattern, Anything | None):
                return None
        return tuple(found)

    def _warn_of_cases(self, node: MatchNode) -> None:
        catching: CaseNode | None = None
        known: list[object] = []
        for case in node.cases:
            if catching is not None:
                hint = f"the case at {catching.span} takes what comes to it"
                self.report(warning("this case is never reached", case.span, hint, name="unreached"))
                continue
            written = case.pattern.pattern if isinstance(case.pattern, BoundNode) else case.pattern
            if case.guard is None and (written is None or isinstance(written, AnyNode)):
                catching = case
            mark = _mark(written)
            if mark is not None and case.guard is None:
                if mark in known:
                    self.report(
                        warning(
                            "this case is never reached",
                            case.span,
                            "the same value has a case above",
                            name="unreached",
                        )
                    )
                known.append(mark)
        if catching is None:
            hint = "an event that fits no case is an error: add `default => …`"
            self.report(warning("this `match` has no `default`", node.span, hint, name="no-default"))

    # ---- for

    def _for(self, node: ForNode) -> Term | None:
        of = term_of(node.of, self)
        start = None if node.start is None else term_of(node.start, self)
        with self._within(node) as fits:
            cases = [self._turn(case) for case in node.cases] if fits else [None]
        found = [case for case in cases if case is not None]
        if of is None or len(found) < len(cases) or (node.start is not None and start is None):
            return None
        return ForOf(of, start, node.fold.text if node.fold else "+", tuple(found), node.span)

    def _turn(self, node: ForCaseNode) -> ForCaseOf | None:
        with self._case_names():
            key, value = self._bind(node.key), self._bind(node.value)
            guard = None if node.guard is None else term_of(node.guard, self)
            body = self._steps(node.body, node.span, lambda one: term_of(one, self))
        if body is None or (node.guard is not None and guard is None):
            return None
        return ForCaseOf(key, value, guard, body, node.span)


NO_ELEMENT: Final = "`let` assigns to a member of a record: an element of an array cannot be assigned to"
_COMPARISONS: Final[Mapping[str, FieldWord]] = {
    "==": "==",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}


def set_roots(statements: Sequence[Expr]) -> frozenset[str]:
    """`event` and `$`, if one of the statements assigns to them or to a part of them."""
    paths = [one.path for one in nodes_of(statements) if isinstance(one, LetNode)]
    roots = [path.of if isinstance(path, Access) else path for path in paths]
    return frozenset(root.word for root in roots if isinstance(root, Root))


def written_ports(statements: Sequence[Expr]) -> list[str]:
    """The ports after `=>` of each `emit`, and `out`."""
    emits = [one.port for one in nodes_of(statements) if isinstance(one, EmitNode)]
    names = ["".join(one for one in port.parts if isinstance(one, str)) for port in emits if port is not None]
    return list(dict.fromkeys(["out", *names]))


def nodes_of(statements: Sequence[Expr]) -> Iterator[object]:
    """All nodes that these consist of, in the order of the file."""
    waiting: list[Any] = [*reversed(statements)]  # Any: a node consists of many types
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, Source | Span | str):
            continue
        if isinstance(one, tuple):
            waiting += reversed(cast("tuple[object, ...]", one))
        elif (names := fields_of(one)) is not None:
            waiting += [getattr(one, name) for name in reversed(names)]


def _own_parameters(pattern: PatternNode, of: Expr) -> PatternNode:
    """`fn f(a, b) of case (a, 0)`: a parameter at its own place matches any value."""
    if not isinstance(pattern, TuplePatternNode) or not isinstance(of, Array):
        return pattern
    own = [one.path[0].text if isinstance(one, Reference) else None for one in of.items]
    items = [
        AnyNode(item.span) if at < len(own) and own[at] is not None and _name_of(item) == own[at] else item
        for at, item in enumerate(pattern.items)
    ]
    return TuplePatternNode(tuple(items), pattern.open, pattern.span)


def _name_of(node: PatternNode) -> str | None:
    name = _named(node)
    return None if name is None else name.text


def _named(node: PatternNode) -> Name | None:
    """Of a pattern that is a name alone."""
    if isinstance(node, EqualNode) and isinstance(node.value, Reference) and len(node.value.path) == 1:
        return node.value.path[0]
    return None


def _to_name(name: Name, case: CaseNode, match: MatchNode) -> str:
    if isinstance(case.pattern, TuplePatternNode):
        if isinstance(match.of, Array):
            own = one_of(shown(one.span) for one in match.of.items)
            return f"a parameter fits by its own name, {own}"
        return "`_` fits every element"
    of = shown(match.of.span)
    return f"write `case {name.text} = _ when …`, or `case _ when {of} …`"


def _mark(pattern: PatternNode | None) -> object:
    """A key for a pattern that is a plain value. Two patterns with the same key match the same values."""
    if not isinstance(pattern, EqualNode):
        return None
    if isinstance(pattern.value, Text):
        return pattern.value.parts
    return (type(pattern.value.value), pattern.value.value) if isinstance(pattern.value, LiteralNode) else None


def _leaves(pattern: RecordPattern, of: WholeTerm, above: tuple[KeyStep, ...], span: Span) -> list[ReadPath]:
    """The paths that a record pattern reads."""
    found: list[ReadPath] = []
    for field in pattern.fields:
        steps = (*above, KeyStep(field.key, PathStep(field.key, field.key)))
        if isinstance(field.pattern, RecordPattern) and field.pattern.fields:
            found += _leaves(field.pattern, of, steps, span)
        else:
            found.append(ReadPath(of, steps, span))
    return found
