"""The condition of a tap: an expression of the flow language, compiled as that of a select is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import getrandbits
from typing import Final, NamedTuple

from walflow.admin.tap.sampler import TakenBlock
from walflow.compile.compiled import BlockCall, Compiled
from walflow.compile.compiling import compile_region
from walflow.compile.reference import shipped
from walflow.diagnostics import Diagnostic, Source, Span, error, has_errors, render
from walflow.errors import WalflowError
from walflow.event import codec_at
from walflow.plan.alone import load_query
from walflow.plan.regions import region_of
from walflow_kernel.moment import Moment

NAME: Final = "--where"
_MODULE: Final = re.compile(r"(?<![\w:`])([A-Za-z_]\w*)::")
_TAIL: Final = re.compile(r"^expected `group` or `into`, found (?!`into`)(.*)$")
_INTO: Final = "found `into`"
_END: Final = "found the end"
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|#[^\n]*')


class NotAnExpression(WalflowError):
    """The text has all lines that say why."""


class Matching(NamedTuple):
    """The numbers of the events that match. `failed`: how many could not be evaluated; `reason`: the first reason."""

    numbers: Sequence[int]
    failed: int
    reason: str


@dataclass(frozen=True)
class Condition:
    """Shipped modules need no `use`."""

    compiled: Compiled

    def of(self, block: TakenBlock) -> Matching:
        frames = block.frames
        moment = Moment(block.ingest_ns, getrandbits(64))
        call = BlockCall(moment, range(frames.count), dict(block.meta), block.metas, _nothing_new)
        outcome = self.compiled.run(self.compiled.reader.decode(frames, codec_at(block.codec, block.ingest_ns)), call)
        refused = outcome.refused
        return Matching(outcome.rows["out"].numbers, len(refused), refused[0].reason if refused else "")


def condition(text: str) -> Condition:
    """Raises NotAnExpression."""
    used = dict.fromkeys(_MODULE.findall(_TEXT.sub("", text)))
    uses = "".join(f"use {shipped()[name]}; " for name in used if name in shipped())
    before = f"{uses}select event from in where\n"
    query, found = load_query(Source(NAME, f"{before}{text}\ninto out;"), {})
    if query is None or has_errors(found):
        raise NotAnExpression("\n".join(render(_moved(one, text, len(before))) for one in found))
    [plan] = query.assembly.pipelines
    if len(plan.selects) != 1 or plan.scripts or plan.operators or plan.selects[0].having is not None:
        raise NotAnExpression(render(error(f'{NAME} takes one expression, for example event.level == "error"')))
    compiled = compile_region(region_of(plan, "in"))
    return Condition(compiled)


def _moved(found: Diagnostic, text: str, by: int) -> Diagnostic:
    """With the place in the text that was given, and without the words of the select around it."""
    found = found._replace(message=_TAIL.sub(r"\1 does not stand here", found.message).replace(_INTO, _END))
    if found.span is None:
        return found
    start, end = (min(max(at - by, 0), len(text)) for at in (found.span.start, found.span.end))
    return found._replace(span=Span(Source(NAME, text), start, end))


def _nothing_new(number: int) -> object:
    raise AssertionError("a condition makes no event")
