"""Constructs that the grammar reads at a place where they have no meaning. Each is reported once, at its outermost
place, and never skipped silently."""

from collections.abc import Iterator

from lark import Token, Tree

from walflow.diagnostics import Diagnostic, Source, Span, error

_NOT_IN_PIPELINES = "a connector is created within a flow, not within a pipeline"
_IN_PIPELINES = {"stream": "a stream", "operator": "an operator", "script": "a script"}


def unsupported(tree: Tree[Token], source: Source) -> Iterator[Diagnostic]:
    waiting: list[tuple[Tree[Token], bool]] = [(tree, False)]
    while waiting:
        node, in_pipeline = waiting.pop()
        message = _message(node, in_pipeline)
        if message:
            yield error(message, Span(source, node.meta.start_pos, node.meta.end_pos))
        else:
            inside = node.data == "pipeline_body"
            waiting += [(child, inside) for child in reversed(node.children) if isinstance(child, Tree)]


def _message(node: Tree[Token], in_pipeline: bool) -> str | None:
    if node.data == "create" and (what := _IN_PIPELINES.get(str(node.children[0]))):
        return None if in_pipeline else f"{what} is created within a pipeline"
    if node.data == "create" and in_pipeline and node.children[0] == "connector":
        return _NOT_IN_PIPELINES
    return None
