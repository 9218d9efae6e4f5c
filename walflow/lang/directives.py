"""`#!config name = value`: it is read and checked. It has no effect, and a message says so."""

from walflow.compile.fold import fold
from walflow.diagnostics import did_you_mean, error, one_of, warning
from walflow.lang.ast import Directive
from walflow.lang.scope import Names
from walflow_kernel.values import kind_of

_KNOWN = ("metrics_interval_s",)


def check_directive(directive: Directive, scope: Names) -> None:
    name = directive.name
    if name.text not in _KNOWN:
        hint = did_you_mean(name.text, _KNOWN) or f"there is {one_of(_KNOWN)}"
        scope.report(error(f"unknown directive `{name.text}`", name.span, hint))
        return
    constant = fold(directive.value, scope)
    if constant is None:
        return
    value = constant.value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = value if isinstance(value, int) and not isinstance(value, bool) else kind_of(value)
        message = f"`{name.text}` takes a whole number of seconds from 1 on, not {found}"
        scope.report(error(message, directive.value.span))
        return
    hint = "metrics need none: `walflow run` serves them all at /metrics"
    scope.report(warning(f"`{name.text}` has no effect", directive.span, hint))
