"""How deep pipelines lie within each other, and that none lies within itself."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from walflow.compile.nodes import Name
from walflow.diagnostics import Diagnostic, Report, circle, error
from walflow.lang.ast import DefinePipeline

DEEPEST: Final = 16
MOST: Final = (
    1_000  # within one pipeline: two that each have two that each have two … are soon more than fit anywhere
)


class Nesting:
    """The definitions that a pipeline is being made of, each within the one before it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._open: list[DefinePipeline] = []
        self._made = 0
        self._too_many = False  # has been reported

    @contextmanager
    def enter(self, definition: DefinePipeline, created: Name) -> Generator[bool]:
        """Whether it can be made here. Why not has been reported."""
        refused = self._refused(definition, created)
        if refused is not None:
            self._report(refused)
        if refused is not None or self._too_many:
            yield False
            return
        if not self._open:
            self._made = 0
        self._open.append(definition)
        self._made += 1
        try:
            yield True
        finally:
            self._open.pop()

    def _refused(self, definition: DefinePipeline, created: Name) -> Diagnostic | None:
        spans = [one.name.span for one in self._open]
        if definition.name.span in spans:
            within = self._open[spans.index(definition.name.span) :]
            name = definition.name.text
            return error(
                f"pipeline `{name}` would lie within itself", created.span, circle([one.name.text for one in within])
            )
        if len(self._open) > DEEPEST:
            return error(f"pipelines lie within pipelines more than {DEEPEST} deep", created.span)
        if self._made > MOST and not self._too_many:
            self._too_many = True
            return error(f"more than {MOST:,} pipelines lie within `{self._open[0].name.text}`", created.span)
        return None
