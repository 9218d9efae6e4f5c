"""Args that a definition declares and never reads: what is given for one changes nothing."""

from collections.abc import Iterator, Sequence
from typing import cast

from walflow.compile.fields import fields_of
from walflow.compile.nodes import Access, Name, Root
from walflow.diagnostics import Diagnostic, Span
from walflow.lang.ast import (
    Arg,
    DefineConnector,
    DefineFlow,
    DefineFunction,
    DefineOperator,
    DefinePipeline,
    DefineScript,
)
from walflow.warnings import warning
from walflow.warnings.unused import UNUSED

WithArgs = DefineFlow | DefineConnector | DefinePipeline | DefineOperator | DefineScript


def unread_args(what: str, definition: WithArgs) -> Iterator[Diagnostic]:
    """`what`: the word for the kind of definition, in a message.
    Of a definition without errors: what has one may read an arg."""
    if not definition.args:
        return
    read = set(_read(_inside(definition)))
    if None in read:
        return
    for name in (arg.name for arg in definition.args):
        if name.text not in read:
            hint = f"what is given for it changes nothing: read it as `args.{name.text}`, or take it away"
            message = f"arg `{name.text}` of {what} `{definition.name.text}` is never read"
            yield warning(UNUSED, message, name.span, hint)


def _inside(definition: WithArgs) -> Sequence[object]:
    match definition:
        case DefineFlow():
            return (definition.body,)
        case DefineConnector() | DefineOperator():
            return (definition.settings,)
        case DefineScript():
            return definition.state, definition.names, definition.inputs, definition.body
        case DefinePipeline():
            created = definition.operators, definition.scripts, definition.pipelines
            return definition.directives, definition.names, *created, definition.selects


def _read(written: Sequence[object]) -> Iterator[str | None]:
    """The names behind `args.`; None where all of them are read at once."""
    rest = list(written)
    while rest:
        node = rest.pop()
        match node:
            case Access(of=Root(word="args"), segments=[Name(name), *_]):
                yield name
                rest.append(node.segments)
            case Root(word="args"):
                yield None
            case Span() | str() | DefineFunction():  # a function has parameters, and no args
                pass
            case Arg():
                rest.append(node.default)
            case DefineFlow() | DefineConnector() | DefinePipeline() | DefineOperator() | DefineScript():
                rest.append(node.args)  # it sees its own alone; their defaults are read where it stands
            case tuple():
                rest.extend(cast("tuple[object, ...]", node))
            case _:
                rest.extend(getattr(node, field) for field in fields_of(node) or ())
