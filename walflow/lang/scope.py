"""The meaning of a name at a place in a file."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Final, TypeVar

from walflow.compile.constant import Constant
from walflow.compile.evaluation import evaluated
from walflow.compile.folding import shown
from walflow.compile.functions import extra_for, intrinsic
from walflow.compile.lowering import fold, not_at_load
from walflow.compile.nodes import (
    CallNode,
    DropNode,
    EmitNode,
    Expr,
    ForNode,
    LetNode,
    MatchNode,
    Name,
    Path,
    RecurNode,
    Root,
    path_span,
    spelled,
)
from walflow.compile.program import FunctionOf, LocalTerm
from walflow.compile.resolve import function
from walflow.diagnostics import Diagnostic, Report, did_you_mean, error
from walflow.extras import lacks
from walflow.lang.ast import (
    Arg,
    DefineConnector,
    DefineConst,
    DefineFlow,
    DefineFunction,
    DefineOperator,
    DefinePipeline,
    DefineScript,
    DefineWindow,
    Definition,
    Setting,
)
from walflow.lang.environment import ENV, ONLY_IN_CONFIG, WORDS
from walflow.lang.modules import ModuleBlock
from walflow.lang.suggestions import function_elsewhere, module_alike, module_to_use
from walflow.plugins import NotLoadable
from walflow.world import dice, wall_ns
from walflow_kernel.functions import Function
from walflow_kernel.moment import Moment

Args = Mapping[str, Constant | None]
D = TypeVar("D", bound=Definition)

_WORDS: Mapping[type[Definition], str] = {
    DefineConnector: "connector definition",
    DefinePipeline: "pipeline definition",
    DefineFlow: "flow",
    DefineFunction: "function",
    DefineConst: "constant",
    DefineOperator: "operator definition",
    DefineScript: "script definition",
    DefineWindow: "window",
}


class Names:
    """The scope of an expression in `block`. `args` is None if there are none."""

    def __init__(self, block: ModuleBlock, args: Args | None, report: Report, args_hint: str | None = None) -> None:
        self._block = block
        self._args = args
        self._report = report
        self._args_hint = args_hint
        self._configures = False

    def configuring(self) -> "Names":
        """For the keys of a `config` and for args: here `env` and `secret` have a value."""
        inner = Names(self._block, self._args, self._report, self._args_hint)
        inner._configures = True
        return inner

    def within(self, block: ModuleBlock) -> "Names":
        """With the same args, in a block inside."""
        return Names(block, self._args, self._report, self._args_hint)

    def report(self, diagnostic: Diagnostic) -> None:
        self._report(diagnostic)

    def args(self, root: Root) -> Args | None:
        if self._args is None:
            self.report(error("there are no `args` here", root.span, self._args_hint))
        return self._args

    def args_hint(self) -> str | None:
        return self._args_hint

    def function(self, path: Path) -> Function | None:
        if self._configures and (outside := self._from_outside(path, DefineFunction)):
            return self._block.environment.function(outside)
        hint = ONLY_IN_CONFIG if spelled(path) in WORDS else None
        found = lookup(self._block, path, DefineFunction, self._report, hint)
        if found is None or found[0].intrinsic is None:
            return None  # `written` has said why
        try:
            known = intrinsic(spelled(found[0].intrinsic))
        except NotLoadable as refused:
            self.report(error(str(refused), path_span(path)))
            return None
        if known is None:
            self.report(error(f"`{spelled(path)}` is not supported yet", path_span(path)))
            return None
        if (extra := extra_for(known)) is not None:
            self.report(error(lacks(f"`{spelled(path)}`", extra), path_span(path)))
            return None
        return known

    def written(self, path: Path) -> FunctionOf | None:
        found = lookup(self._block, path, DefineFunction, lambda _: None)
        return None if found is None or found[0].intrinsic is not None else _function(*found, path, self._report)

    def local(self, path: Path) -> LocalTerm | None:
        return None

    def moment(self) -> Moment:
        return Moment(wall_ns(), dice().getrandbits(64))

    def constant(self, path: Path) -> Constant | None:
        name = path[-1].text
        is_arg = len(path) == 1 and self._args is not None and name in self._args
        if self._configures and self._from_outside(path, DefineConst) == ENV:
            span = path_span(path)
            return Constant({}, span, self._block.environment.variables(span))
        hint = f"an arg is written `args.{name}`" if is_arg else ONLY_IN_CONFIG if spelled(path) == ENV else None
        found = lookup(self._block, path, DefineConst, self._report, hint)
        return None if found is None else _value(*found, path, self._report)

    def evaluated(self, node: Expr) -> Constant | None:
        return evaluated(node, self)

    def at_load(self) -> "Names":
        return self

    def root(self, node: Root) -> None:
        hint = f"an environment variable is `env.{shown(node.span)[1:]}`" if node.word == "$" else None
        self.report(not_at_load(node.word, node.span)._replace(hint=hint))

    def instead(self, node: Expr) -> None:
        return None

    def aggregate(self, node: CallNode, function: Function) -> None:
        self.report(not_at_load(f"{spelled(node.function)}()", node.span))

    def further(self, node: MatchNode | ForNode | LetNode | EmitNode | DropNode | RecurNode) -> Constant | None:
        if isinstance(node, MatchNode | ForNode):
            return self.evaluated(node)
        word = shown(node.span).split()[0].split("(")[0]
        self.report(error(f"`{word}` is not supported in what is worked out before any event comes", node.span))
        return None

    def has_constant(self, path: Path) -> bool:
        if self._configures and self._from_outside(path, DefineConst) == ENV:
            return True
        return lookup(self._block, path, DefineConst, lambda _: None) is not None

    def _from_outside(self, path: Path, kind: type[Definition]) -> str | None:
        """`env` or `secret`, unless the file defines that name itself."""
        if spelled(path) not in WORDS or lookup(self._block, path, kind, lambda _: None) is not None:
            return None
        return spelled(path)


def constants(block: ModuleBlock, report: Report) -> None:
    """Reports errors in the constants of `block`, also in those that are not used."""
    for definition in block.definitions.values():
        if isinstance(definition, DefineConst):
            _value(definition, block, (definition.name,), report)


def _value(definition: DefineConst, home: ModuleBlock, path: Path, report: Report) -> Constant | None:
    """`path`: the name that refers to it."""
    name = definition.name.text
    if name in home.folding:
        circle = " -> ".join([*home.folding[home.folding.index(name) :], name])
        report(error(f"these constants need each other: {circle}", path_span(path)))
        return None
    if name not in home.constants:
        home.folding.append(name)
        home.constants[name] = None  # and stays so for those a RecursionError leaves behind
        try:
            home.constants[name] = _folded(definition, home, report)
        finally:
            home.folding.pop()
    return home.constants[name]


def _folded(definition: DefineConst, home: ModuleBlock, report: Report) -> Constant | None:
    hint = "a constant is the same for all: what differs is an arg"
    try:
        return fold(definition.value, Names(home, None, report, hint))
    except RecursionError:  # hundreds of constants, each one told by the one below it
        if home.folding[0] == definition.name.text:
            report(error("this constant needs too many others", definition.name.span))
            return None
        raise


def _function(definition: DefineFunction, home: ModuleBlock, path: Path, report: Report) -> FunctionOf | None:
    """`path`: the name that refers to it. Its errors are reported once."""
    name = definition.name.text
    if definition.name.text in home.reading:
        circle = " -> ".join([*home.reading[home.reading.index(name) :], name])
        hint = "a function calls itself by `recur(…)`, as the last thing it does"
        report(error(f"these functions call each other: {circle}", path_span(path), hint))
        return None
    if name not in home.functions:
        home.reading.append(name)
        home.functions[name] = None
        try:
            inner = Names(home, None, report, "a function sees its parameters alone")
            home.functions[name] = function(
                name, definition.parameters, definition.body, inner, definition.span, variadic=definition.variadic
            )
        finally:
            home.reading.pop()
    return home.functions[name]


def functions(block: ModuleBlock, report: Report) -> None:
    """Reports errors in the functions of `block`, also in those that are not called."""
    for definition in block.definitions.values():
        if isinstance(definition, DefineFunction) and definition.intrinsic is None:
            _function(definition, block, (definition.name,), report)


def lookup(
    block: ModuleBlock, path: Path, kind: type[D], report: Report, hint: str | None = None
) -> tuple[D, ModuleBlock] | None:
    """The definition, and the block in which its expressions are evaluated. `hint`: a better hint of the caller's."""
    *modules, name = path
    return _in_module(block, modules, name, kind, report) if modules else _here(block, name, kind, report, hint)


def _here(
    block: ModuleBlock, name: Name, kind: type[D], report: Report, hint: str | None
) -> tuple[D, ModuleBlock] | None:
    place: ModuleBlock | None = block
    whole, known = True, list[str]()
    while place:
        definition = place.definitions.get((kind, name.text))
        if isinstance(definition, kind):
            return definition, place
        whole = whole and place.whole
        known += _defined(place, kind)
        place = place.outer
    if whole:
        roots = _ROOTS if kind is DefineConst else ()
        elsewhere = function_elsewhere(name.text, block) if kind is DefineFunction else _LITERALS.get(name.text)
        close = did_you_mean(name.text, known) or did_you_mean(name.text, roots, cutoff=0.75)
        hint = hint or elsewhere or close or _meant(block, name, kind)
        report(error(f"unknown {_WORDS[kind]} `{name.text}`", name.span, hint))
    return None


_ROOTS: Final = ("event", "args", "state", "group", "window")
_LITERALS: Final = {
    **dict.fromkeys(("True", "TRUE", "yes"), "write `true`"),
    **dict.fromkeys(("False", "FALSE", "no"), "write `false`"),
    **dict.fromkeys(("None", "nil", "NULL", "undefined"), "write `null`"),
}


def _meant(block: ModuleBlock, name: Name, kind: type[Definition]) -> str | None:
    if kind is DefineConst:
        return f'a string is quoted: `"{name.text}"`'
    place: ModuleBlock | None = block
    while place:
        for other, text in place.definitions:
            if text == name.text:
                return f"there is a {_WORDS[other]} of that name"
        place = place.outer
    if kind is DefineConnector and name.text in connector_types():
        return (
            f"`{name.text}` is a type: `define connector NAME from {name.text} …;`, and then `create connector NAME;`"
        )
    return None


@cache
def connector_types() -> frozenset[str]:
    """The names alone: no class is loaded."""
    return frozenset(point.name for point in entry_points(group="walflow.connectors"))


def _in_module(
    block: ModuleBlock, modules: Sequence[Name], name: Name, kind: type[D], report: Report
) -> tuple[D, ModuleBlock] | None:
    module: ModuleBlock | None = block
    for step, part in enumerate(modules):
        assert module is not None
        module = _module(module, part, report, outward=step == 0)
        if module is None:
            return None
    assert module is not None
    definition = module.definitions.get((kind, name.text))
    if isinstance(definition, kind):
        return definition, module
    if module.whole:
        path = "::".join(part.text for part in modules)
        known = _defined(module, kind)
        elsewhere = function_elsewhere(name.text, block) if kind is DefineFunction else None
        has = f"it has {', '.join(f'`{n}`' for n in known) or 'none'}"
        hint = did_you_mean(name.text, known) or elsewhere or has
        report(error(f"unknown {_WORDS[kind]} `{name.text}` in module `{path}`", name.span, hint))
    return None


def _module(block: ModuleBlock, name: Name, report: Report, *, outward: bool) -> ModuleBlock | None:
    place: ModuleBlock | None = block
    known, failed, whole = list[str](), list[str](), True
    while place:
        if name.text in place.modules:
            return place.modules[name.text]
        known += place.modules
        failed += (alias for alias, module in place.modules.items() if module is None)
        whole = whole and place.whole
        place = place.outer if outward else None
    meant = did_you_mean(name.text, known)
    # `use lib::copi; … copy::x`: the `use` is the mistake, and was reported
    if whole and (meant is None or meant not in {did_you_mean(alias, [alias]) for alias in failed}):
        hint = (
            module_to_use(name.text)
            or meant
            or module_alike(name.text)
            or f"no module of that name is shipped; one of your own needs `use …::{name.text};`"
        )
        report(error(f"unknown module `{name.text}`", name.span, hint))
    return None


def _defined(block: ModuleBlock, kind: type[Definition]) -> list[str]:
    return [name for of, name in block.definitions if of is kind]


def bind(
    declared: Sequence[Arg],
    inner: Names,
    given: Sequence[Setting],
    outer: Names,
    what: str,
    where: Name,
    outside: Mapping[str, Constant] | None = None,
) -> Args:
    """The args of one instance. For a flow, the command line counts first (`outside`); then the values after `with`
    (evaluated in `outer`); then the defaults (evaluated in `inner`)."""
    names = [arg.name.text for arg in declared]
    inner, outer = inner.configuring(), outer.configuring()
    values = settings(given, outer)
    for setting in given:
        if setting.name.text not in names:
            known = f"its args are {', '.join(f'`{name}`' for name in names)}" if names else "it takes no args"
            hint = did_you_mean(setting.name.text, names) or known
            outer.report(error(f"unknown arg `{setting.name.text}` of {what}", setting.name.span, hint))
    args: dict[str, Constant | None] = {}
    for arg in declared:
        if outside is not None and arg.name.text in outside:
            args[arg.name.text] = outside[arg.name.text]
        elif arg.name.text in values:
            args[arg.name.text] = values[arg.name.text]
        elif arg.default is not None:
            args[arg.name.text] = fold(arg.default, inner)
        else:
            hint = f"give it: `with {arg.name.text} = … end`"
            hint += f", or start with `--set {arg.name.text}=…`" if outside is not None else ""
            outer.report(error(f"missing arg `{arg.name.text}` of {what}", where.span, hint))
            args[arg.name.text] = None
    return args


def settings(given: Sequence[Setting], scope: Names) -> dict[str, Constant | None]:
    scope = scope.configuring()
    values: dict[str, Constant | None] = {}
    for setting in given:
        if setting.name.text in values:
            scope.report(error(f"`{setting.name.text}` is given twice", setting.name.span))
        values[setting.name.text] = fold(setting.value, scope)
    return values
