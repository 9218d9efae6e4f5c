"""Files as modules: the names that each defines, and the modules that it uses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from walflow.compile.constant import Constant
from walflow.compile.nodes import path_span, spelled
from walflow.compile.program import FunctionOf
from walflow.diagnostics import Diagnostic, Report, Source, did_you_mean, error
from walflow.lang import files
from walflow.lang.ast import Definition, Deploy, Directive, SourceFile, Statement, Use
from walflow.lang.environment import Environment
from walflow.lang.parser import parse

DEEPEST = 32  # the deepest chain of modules that use each other

Key = tuple[type[Definition], str]  # a connector, a pipeline and a flow may have the same name


@dataclass(eq=False)
class ModuleBlock:
    """A file, or the body of a flow or a pipeline. `whole`: no part was lost to a syntax error. So a name that is not
    found in it does not exist. `constants`: those evaluated so far; None if that failed. `folding`: those that are
    being evaluated, each one because of the one before it. `functions` and `reading`: the same for functions."""

    statements: Sequence[Statement]
    whole: bool
    outer: "ModuleBlock | None" = None
    definitions: dict[Key, Definition] = field(default_factory=dict[Key, Definition])
    modules: "dict[str, ModuleBlock | None]" = field(
        default_factory=dict[str, "ModuleBlock | None"]
    )  # None: said already
    constants: dict[str, Constant | None] = field(default_factory=dict[str, Constant | None])
    folding: list[str] = field(default_factory=list[str])
    functions: dict[str, FunctionOf | None] = field(default_factory=dict[str, FunctionOf | None])
    reading: list[str] = field(default_factory=list[str])
    environment: Environment = field(default_factory=Environment)


class Library:
    """Reads each module once for each folder in which its users are."""

    def __init__(
        self,
        beside: Path,
        report: Report,
        environment: Environment | None = None,
        unsaved: files.Unsaved = files.ALL_SAVED,
    ) -> None:
        self._environment = environment or Environment()
        self._unsaved = unsaved
        self._folders = files.search_path(beside)
        self._report = report
        self._read: dict[str, ModuleBlock | None] = {}
        self.sources: list[Source] = []  # of modules that are files
        self._reading: list[str] = []
        self._beside: dict[tuple[str, ...], list[str]] = {}  # modules that are suggested for a wrong name
        self._aggr: ModuleBlock | None = None
        self._makes_aggr = False

    def file(self, source: Source) -> ModuleBlock:
        parsed = parse(source, self._report)
        return self.block(parsed.statements, parsed.whole, None)

    def block(self, statements: Sequence[Statement], whole: bool, outer: ModuleBlock | None) -> ModuleBlock:
        block = ModuleBlock(statements, whole, outer, environment=self._environment)
        define(block, statements, self._report)
        for use in (s for s in statements if isinstance(s, Use)):
            self._use(block, use)
        if outer is None and "aggr" not in block.modules and not self._makes_aggr:
            block.modules["aggr"] = self._aggregates()
        return block

    def _aggregates(self) -> ModuleBlock | None:
        """`aggr` needs no `use`."""
        if self._aggr is None:
            self._makes_aggr, reading = True, self._reading
            self._reading = []  # it counts as no module of its user
            source = files.read(files.shipped().joinpath("aggr.tremor"), order=0)
            assert isinstance(source, Source)
            parsed = _parsed(source, self._report)
            self._aggr = self.block(parsed.statements, parsed.whole, None)
            self._makes_aggr, self._reading = False, reading
        return self._aggr

    def _use(self, block: ModuleBlock, use: Use) -> None:
        module = self._module(use)
        if use.alias.text not in block.modules:
            block.modules[use.alias.text] = module
        elif block.modules[use.alias.text] is not module:
            hint = f"name one of them by `use {spelled(use.path)} as …`"
            self._report(error(f"two modules are called `{use.alias.text}` here", use.span, hint))

    def _module(self, use: Use) -> ModuleBlock | None:
        path = [name.text for name in use.path]
        found = files.find(path, self._folders)
        if found is None:
            hint = did_you_mean(spelled(use.path), self._near(path)) or self._looked_in(path)
            self._report(error(f"unknown module `{spelled(use.path)}`", path_span(use.path), hint))
            return None
        if len(self._reading) > DEEPEST:
            self._report(error(f"modules use modules more than {DEEPEST} deep", path_span(use.path)))
            return None
        if spelled(use.path) in self._reading:
            circle = [*self._reading[self._reading.index(spelled(use.path)) :], spelled(use.path)]
            self._report(error(f"these modules use each other: {' -> '.join(circle)}", path_span(use.path)))
            return None
        return self._known(spelled(use.path), found, use)

    def _known(self, path: str, found: Path | Traversable, use: Use) -> ModuleBlock | None:
        if path not in self._read:
            self._reading.append(path)
            source = files.read(found, use.span.source.order, self._unsaved)
            if isinstance(source, Source):
                if isinstance(found, Path):
                    self.sources.append(source)
                parsed = _parsed(source, self._report)
                self._read[path] = self.block(parsed.statements, parsed.whole, None)
                _check_module(self._read[path], use, self._report)
            else:
                self._report(source._replace(span=path_span(use.path)))
                self._read[path] = None
            self._reading.pop()
        return self._read[path]

    def _near(self, path: Sequence[str]) -> list[str]:
        folder = tuple(path[:-1])
        if folder not in self._beside:
            self._beside[folder] = list(files.known_modules(path, self._folders))
        return self._beside[folder]

    def _looked_in(self, path: Sequence[str]) -> str:
        shipped = files.shipped()
        places = ", ".join(str(folder) for folder in self._folders if folder != shipped)
        return f"looked for {'/'.join(path)}.troy, .trickle and .tremor in {places} and among the shipped modules"


_known_texts: Final[dict[tuple[str, str, int], SourceFile]] = {}
MOST_KNOWN: Final = 100


def _parsed(source: Source, report: Report) -> SourceFile:
    """Cached, because a process that reads many flow files (`walflow test`) parses `std::string` only once."""
    key = (source.name, source.text, source.order)
    if key in _known_texts:
        return _known_texts[key]
    said: list[Diagnostic] = []
    parsed = parse(source, said.append)
    for diagnostic in said:
        report(diagnostic)
    if not said:
        if len(_known_texts) >= MOST_KNOWN:
            _known_texts.clear()
        _known_texts[key] = parsed
    return parsed


def _check_module(module: ModuleBlock | None, use: Use, report: Report) -> None:
    for statement in module.statements if module else ():
        if isinstance(statement, Deploy):
            name = statement.name.text
            hint = f"write `deploy flow {name} from {use.path[-1].text}::{statement.of[-1].text};` in the flow file"
            report(error("a module deploys nothing", statement.span, hint))
        elif isinstance(statement, Directive):
            report(error("`#!config` stands in a flow file or a pipeline", statement.span, "take it out"))


def define(block: ModuleBlock, statements: Iterable[Statement], report: Report) -> None:
    for statement in statements:
        if not isinstance(statement, Definition):
            continue
        key = type(statement), statement.name.text
        if first := block.definitions.get(key):
            hint = f"first at {first.name.span}"
            report(error(f"`{statement.name.text}` is defined twice", statement.name.span, hint))
        else:
            block.definitions[key] = statement
