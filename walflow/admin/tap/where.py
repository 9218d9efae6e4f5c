"""The condition of a tap: an expression of the flow language, compiled as that of a select is.

A condition comes from any client of the admin interface, and is evaluated on the daemon's loop. So it takes no more
steps than STEPS for one event: it has no loop and makes nothing large, so a step for each byte of the event and each
LETTERS of the text is enough."""

import re
from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple, cast

from walflow.admin.tap.sampler import TakenBlock
from walflow.compile.compiled import BlockCall, Compiled
from walflow.compile.fields import fields_of
from walflow.compile.nodes import CallNode, ForNode, spelled
from walflow.compile.program import CallOf, ForOf, InvokeOf, Term, functions, walk
from walflow.compile.reference import declared, shipped
from walflow.diagnostics import Diagnostic, Source, Span, error, has_errors, render
from walflow.errors import WalflowError
from walflow.event import codec_at
from walflow.lang.parser import parse_query
from walflow.plan.alone import load_query
from walflow.world import dice
from walflow_kernel.moment import Moment

NAME: Final = "--where"
LONGEST: Final = 1024  # characters
LETTERS: Final = 4  # of the text, for an operation at the least
STEPS: Final = 1 << 20
_MODULE: Final = re.compile(r"(?<![\w:`])([A-Za-z_]\w*)::")
_TAIL: Final = re.compile(r"^expected `group` or `into`, found (?!`into`)(.*)$")
_INTO: Final = "found `into`"
_END: Final = "found the end"
_NO_FOR: Final = "no `for`: it would hold up the daemon"
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
    """Shipped modules need no `use`. `most`: bytes of an event that is judged, and of those judged at once."""

    compiled: Compiled
    most: int

    def of(self, block: TakenBlock) -> Matching:
        if len(block.frames.data) <= self.most:
            return self._of(block)
        small = [at for at, payload in enumerate(block.frames.payloads()) if len(payload) <= self.most]
        left_out = block.frames.count - len(small)
        if not left_out:
            return self._of(block)
        metas = None if block.metas is None else [block.metas[at] for at in small]
        found = self._of(block._replace(frames=block.frames.picked(small), metas=metas))
        reason = found.reason or f"this condition judges no event of more than {self.most:,} bytes"
        return Matching([small[number] for number in found.numbers], found.failed + left_out, reason)

    def _of(self, block: TakenBlock) -> Matching:
        frames = block.frames
        moment = Moment(block.ingest_ns, dice().getrandbits(64))
        call = BlockCall(moment, range(frames.count), dict(block.meta), block.metas, _nothing_new)
        outcome = self.compiled.run(self.compiled.reader.decode(frames, codec_at(block.codec, block.ingest_ns)), call)
        refused = outcome.refused
        return Matching(outcome.rows["out"].numbers, len(refused), refused[0].reason if refused else "")


def condition(text: str) -> Condition:
    """Raises NotAnExpression."""
    if len(text) > LONGEST:
        raise NotAnExpression(render(error(f"{NAME} has at most {LONGEST:,} characters, not {len(text):,}")))
    used = dict.fromkeys(_MODULE.findall(_TEXT.sub("", text)))
    uses = "".join(f"use {shipped()[name]}; " for name in used if name in shipped())
    before = f"{uses}select event from in where\n"
    source = Source(NAME, f"{before}{text}\ninto out;")
    makes = _makes_large(source)
    if makes is not None:
        what, span = makes
        raise NotAnExpression(render(_moved(error(f"{NAME} has {what}", span), text, len(before))))
    query, found = load_query(source, {})
    if query is None or has_errors(found):
        raise NotAnExpression("\n".join(render(_moved(one, text, len(before))) for one in found))
    [plan] = query.assembly.pipelines
    if len(plan.selects) != 1 or plan.scripts or plan.operators or plan.selects[0].having is not None:
        raise NotAnExpression(render(error(f'{NAME} takes one expression, for example event.level == "error"')))
    where = plan.selects[0].where
    refused = None if where is None else _too_much(where.term)
    if refused is not None:
        what, span = refused
        raise NotAnExpression(render(_moved(error(f"{NAME} has {what}", span), text, len(before))))
    return Condition(plan.regions.compiled("in"), STEPS // (len(text) // LETTERS + 1))


def _makes_large(source: Source) -> tuple[str, Span] | None:
    """What makes something large while the text is read: what is known then is evaluated then. Read before it is."""
    waiting: list[object] = [parse_query(source, NAME, _said_later)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, CallNode) and node.function[-1].text in _growing():
            return _makes(spelled(node.function)), node.span
        if isinstance(node, ForNode):
            return _NO_FOR, node.span
        if isinstance(node, tuple):
            waiting += cast("tuple[object, ...]", node)
        elif not isinstance(node, Span):
            waiting += [getattr(node, name) for name in fields_of(node) or ()]
    return None


def _said_later(found: Diagnostic) -> None:
    """By `load_query`."""


@cache
def _growing() -> AbstractSet[str]:
    """The names of functions, without their modules."""
    return {one.name for one in declared() if one.function.grows}


def _makes(name: str) -> str:
    return f"no `{name}`: it may make something large"


def _too_much(term: Term) -> tuple[str, Span] | None:
    """What may take more steps than the event has bytes."""
    bodies = [function.body for function in functions([term]) if function.body is not None]
    for one in [part for whole in (term, *bodies) for part in walk(whole)]:
        if isinstance(one, ForOf):
            return _NO_FOR, one.span
        if isinstance(one, InvokeOf) and one.function.recurs:
            return "no function with `recur`: it would hold up the daemon", one.span
        if isinstance(one, CallOf) and one.function.grows:
            return _makes(one.name), one.span
    return None


def _moved(found: Diagnostic, text: str, by: int) -> Diagnostic:
    """With the place in the text that was given, and without the words of the select around it."""
    found = found._replace(message=_TAIL.sub(r"\1 does not stand here", found.message).replace(_INTO, _END))
    if found.span is None:
        return found
    start, end = (min(max(at - by, 0), len(text)) for at in (found.span.start, found.span.end))
    return found._replace(span=Span(Source(NAME, text), start, end))


def _nothing_new(number: int) -> object:
    raise AssertionError("a condition makes no event")
