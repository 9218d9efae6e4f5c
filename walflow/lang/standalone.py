"""One pipeline of a file, alone: nothing is deployed, and its args come from outside."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from walflow.compile.nodes import Array, Expr, Field, Literal, Name, RecordNode, Text
from walflow.diagnostics import Diagnostic, Report, Source, Span, did_you_mean, error, one_of
from walflow.lang.ast import Create, DefineFlow, DefinePipeline, Setting
from walflow.lang.config import PipelineConfig
from walflow.lang.deploy import pipeline_alone
from walflow.lang.files import read
from walflow.lang.modules import Library, ModuleBlock
from walflow.lang.parser import parse_query

QUERIES = ".trickle"  # the body of a pipeline is a file of its own

Found = tuple[DefinePipeline, ModuleBlock]


def standalone(path: Path, name: str, args: Mapping[str, object], report: Report) -> PipelineConfig | None:
    """`name`: as in its definition, or `flow::name` if two flows define one. None: there is an error, which was
    reported."""
    source = read(path, 0)
    if isinstance(source, Diagnostic):
        report(source)
        return None
    said: list[Diagnostic] = []

    def tell(diagnostic: Diagnostic) -> None:
        said.append(diagnostic)
        report(diagnostic)

    library = Library(path.parent, tell)
    if path.suffix == QUERIES:
        definition = parse_query(source, name, tell)
        found = {name: (definition, library.block((), definition.whole, None))}
    else:
        found = dict(definitions(library.file(source), library))
    picked = [one for key, one in found.items() if key == name or key.endswith(f"::{name}")]
    if len(picked) == 1:
        return _configured(picked[0], source, args, library, report)
    if picked:
        names = [key for key in found if key.endswith(f"::{name}")]
        report(error(f"{path} has several pipelines `{name}`", hint=f"name one of them: {one_of(names)}"))
    elif not said:  # otherwise an error may have hidden it
        hint = did_you_mean(name, found) or (f"there is {one_of(found)}" if found else "it defines none")
        report(error(f"{path} has no pipeline `{name}`", hint=hint))
    return None


def definitions(file: ModuleBlock, library: Library) -> Iterator[tuple[str, Found]]:
    for statement in file.statements:
        if isinstance(statement, DefinePipeline):
            yield statement.name.text, (statement, file)
        elif isinstance(statement, DefineFlow):
            body = library.block(statement.body, file.whole, file)
            for inner in statement.body:
                if isinstance(inner, DefinePipeline):
                    yield f"{statement.name.text}::{inner.name.text}", (inner, body)


def _configured(
    found: Found, source: Source, args: Mapping[str, object], library: Library, report: Report
) -> PipelineConfig | None:
    definition, home = found
    settings: list[Setting] = []
    for name, value in args.items():
        span = Span(Source("args", name), 0, len(name))
        written = literal(value, span)
        if written is None:
            report(error(f"args: `{name}` is {type(value).__name__}, which is no value of a pipeline"))
            return None
        settings.append(Setting(Name(name, span), written))
    create = Create("pipeline", definition.name, (definition.name,), tuple(settings), definition.name.span)
    return pipeline_alone(
        Name(Path(source.name).stem, definition.name.span), create, definition, home, library, report
    )


def literal(value: object, span: Span) -> Expr | None:
    """The value as it is written in a flow file. None if no flow file can express it."""
    match value:
        case None | bool() | int() | float():
            return Literal(value, span)
        case str():
            return Text((value,), span)
        case list():
            items = [literal(item, span) for item in cast("list[object]", value)]
            known = [item for item in items if item is not None]
            return Array(tuple(known), span) if len(known) == len(items) else None
        case dict():
            fields = cast("dict[object, object]", value).items()
            pairs = [(key, literal(one, span)) for key, one in fields]
            made = [Field(Text((key,), span), one) for key, one in pairs if isinstance(key, str) and one is not None]
            return RecordNode(tuple(made), span) if len(made) == len(pairs) else None
        case _:
            return None
