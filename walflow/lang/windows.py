"""`define window … end` -> a window of a select, or what is wrong with it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from walflow.compile.constant import Constant
from walflow.compile.lowering import fold
from walflow.compile.nodes import DropNode, EmitNode, LetNode, Name
from walflow.compile.program import FrameOf, Term, TickedOf, VerdictOf
from walflow.compile.resolve import resolved, verdict
from walflow.compile.scope import LoadScope
from walflow.diagnostics import Diagnostic, Report, Span, did_you_mean, error, one_of, warning
from walflow.lang.ast import DefineWindow, InputScript
from walflow_kernel.values import MOST, kind_of
from walflow_kernel.windows.groups import DEFAULT_MAX_BYTES, DEFAULT_MAX_GROUPS

SETTINGS: Final = ("size", "interval", "max_groups", "max_bytes")
TICK: Final = "tick"  # the one input of a window beside its events
SUSPICIOUS_NS: Final = 1_000_000  # a shorter interval was probably meant in other units


class TickScript(NamedTuple):
    """`script from tick …`. `scope`: of its own."""

    section: InputScript
    scope: LoadScope


class KnownWindow(NamedTuple):
    frame: FrameOf
    max_groups: int
    max_bytes: int


def read_window(
    definition: DefineWindow,
    values: Mapping[str, Constant | None],
    scope: LoadScope,
    at_ticks: Sequence[TickScript],
    report: Report,
) -> KnownWindow | None:
    """`values`: of its settings; `scope`: of its script. None: something is wrong, which has been reported."""
    said = _Count(report)
    _check_kind(definition, said)
    numbers = {name: _number(name, value, said) for name, value in values.items() if name in SETTINGS}
    size, interval = numbers.get("size"), numbers.get("interval")
    _check_settings(definition, values, said)
    if definition.state is not None:
        return _with_state(definition, numbers, scope, at_ticks, said)
    measure = None if definition.script is None else _measure(definition, scope, said)
    most = numbers.get("max_groups", DEFAULT_MAX_GROUPS)
    max_bytes = numbers.get("max_bytes", DEFAULT_MAX_BYTES)
    if (
        said.errors
        or most is None
        or max_bytes is None
        or not definition.whole
        or (definition.script is not None and measure is None)
    ):
        return None
    if interval is not None and interval < SUSPICIOUS_NS and definition.script is None:
        given = values["interval"]
        assert given is not None
        hint = "an interval is in nanoseconds: `nanos::from_seconds(10)`, after `use std::time::nanos;`"
        report(warning(f"this window is {interval:,} ns long", given.span, hint, name="short-window"))
    return KnownWindow(FrameOf(definition.name.text, size, interval, measure, definition.name.span), most, max_bytes)


def _with_state(
    definition: DefineWindow,
    numbers: Mapping[str, int | None],
    scope: LoadScope,
    at_ticks: Sequence[TickScript],
    said: "_Count",
) -> KnownWindow | None:
    assert definition.state is not None
    begins = fold(definition.state, scope)
    if definition.script is None:
        if definition.whole:
            said("a window with a `state` needs a `script`, which says when it closes", definition.name.span)
        return None
    of = None if begins is None else verdict(definition.script, scope, definition.span, begins.value)
    ticks = [_tick(one, definition.span) for one in at_ticks]
    most, max_bytes = numbers.get("max_groups", DEFAULT_MAX_GROUPS), numbers.get("max_bytes", DEFAULT_MAX_BYTES)
    if said.errors or most is None or max_bytes is None or of is None or None in ticks or not definition.whole:
        return None
    name = definition.name
    ticked = of if not ticks or ticks[0] is None else TickedOf(*of, ticks[0])
    return KnownWindow(FrameOf(name.text, None, None, None, name.span, ticked), most, max_bytes)


def _tick(one: TickScript, span: Span) -> VerdictOf | None:
    body = one.section.body
    return None if body is None else verdict(body, one.scope, span, None, at_tick=True)


def unused_window(name: Name) -> Diagnostic:
    hint = f"so it is not checked; a select uses it: `from in[{name.text}]`"
    return warning(f"window `{name.text}` is defined, never used", name.span, hint, name="unused")


class _Count:
    def __init__(self, report: Report) -> None:
        self._report = report
        self.errors = 0

    def __call__(self, message: str, span: object, hint: str | None = None) -> None:
        self.errors += 1
        self._report(error(message, span, hint))  # type: ignore[arg-type]


Said = Callable[..., None]


def _check_kind(definition: DefineWindow, said: Said) -> None:
    if definition.kind.text != "tumbling":
        hint = "a tumbling one has each event once: `from tumbling`"
        said("there are tumbling windows only", definition.kind.span, hint)
    if definition.inputs and definition.state is None:
        said("`script from` stands in a window with a `state` only", definition.inputs[0].port.span)
        return
    for number, port in enumerate(one.port for one in definition.inputs):
        if port.text != TICK:
            hint = "a select gives a window its events, for the `script` alone; time comes to `script from tick`"
            said(f"a window has no input `{port.text}`", port.span, did_you_mean(port.text, (TICK,)) or hint)
        elif number:
            said("there are two scripts for `tick`", port.span)


def _check_settings(definition: DefineWindow, values: Mapping[str, object], said: Said) -> None:
    for setting in definition.settings:
        if setting.name.text not in SETTINGS:
            hint = did_you_mean(setting.name.text, SETTINGS) or f"it has {one_of(SETTINGS)}"
            said(f"a window has no setting `{setting.name.text}`", setting.name.span, hint)
    if definition.state is not None:
        for one in definition.settings:
            if one.name.text in {"size", "interval"}:
                hint = "its script says when it closes"
                said(f"a window with a `state` has no `{one.name.text}`", one.name.span, hint)
        return
    if "size" in values and "interval" in values:
        both = [one for one in definition.settings if one.name.text in {"size", "interval"}]
        said("a window has a `size` or an `interval`, not both", both[-1].name.span, "take two windows: `in[a, b]`")
    elif "size" not in values and "interval" not in values:
        hint = (
            "`with size = 100` is closed by the hundredth event, `with interval = 10_000_000_000` after ten seconds"
        )
        said("a window needs a `size` or an `interval`", definition.name.span, hint)


def _number(name: str, given: Constant | None, said: Said) -> int | None:
    if given is None:
        return None
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int):
        hint = (
            "it is in nanoseconds: `nanos::from_seconds(10)` with `use std::time::nanos;`"
            if name == "interval"
            else None
        )
        said(f"`{name}` takes a whole number, not {kind_of(value)}", given.span, hint)
        return None
    if not 0 < value <= MOST:
        said(f"`{name}` is from 1 on, not {value}", given.span)
        return None
    return value


def _measure(definition: DefineWindow, scope: LoadScope, said: Said) -> Term | None:
    assert definition.script is not None
    steps = [one for one in definition.script if isinstance(one, LetNode | EmitNode | DropNode)]
    if steps or len(definition.script) != 1:
        at = steps[0].span if steps else definition.script[1].span if definition.script else definition.span
        said("the script of a window is one expression", at, "put what it needs into a function: `fn … end`")
        return None
    found = resolved(definition.script[0], scope)
    return None if found is None else found.term
