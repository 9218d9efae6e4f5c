"""`#!config name = value`. `engine` says where a pipeline runs, and the name of an engine how.
The others are read and checked, and have no effect; a message says so."""

from collections.abc import Sequence

from walflow.compile.constant import Constant
from walflow.compile.lowering import fold
from walflow.diagnostics import did_you_mean, error, one_of
from walflow.lang.ast import Directive
from walflow.lang.config import EngineConfig
from walflow.lang.scope import Names
from walflow.roles import DAEMON, engines
from walflow.warnings import warning
from walflow.warnings.no_effect import NO_EFFECT
from walflow_kernel.values import kind_of

_NO_EFFECT = ("metrics_interval_s",)


def check_directive(directive: Directive, scope: Names) -> None:
    """Checks a directive at the head of a file."""
    _, host = engines()
    if directive.name.text in ("engine", host):
        hint = f"write it behind the word `pipeline` of one pipeline; `walflow run --engine {host}` is for all"
        scope.report(error(f"`{directive.name.text}` stands at the head of a pipeline", directive.name.span, hint))
    else:
        _check_other(directive, scope, _NO_EFFECT)


def engine_of(directives: Sequence[Directive], scope: Names) -> EngineConfig | None:
    """Of a pipeline. None: it says nothing of it."""
    engine: Constant | None = None
    settings: Constant | None = None
    if not directives:
        return None
    _, host = known = engines()
    for directive in directives:
        name = directive.name.text
        if name not in ("engine", host):
            _check_other(directive, scope, ("engine", host, *_NO_EFFECT))
            continue
        value = fold(directive.value, scope)
        if value is None:
            continue
        if name == host:
            settings = value
            if not value.is_record:
                scope.report(error(f"`{name}` takes a record, not {kind_of(value.value)}", directive.value.span))
        elif value.value not in known:
            scope.report(error(f"`engine` is {one_of(known)}", directive.value.span))
        else:
            engine = value
    if engine is None and settings is None:
        return None
    return EngineConfig(engine is not None and engine.value != DAEMON, engine is not None, settings)


def _check_other(directive: Directive, scope: Names, known: Sequence[str]) -> None:
    name = directive.name
    if name.text not in known:
        hint = did_you_mean(name.text, known) or f"there is {one_of(known)}"
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
    scope.report(warning(NO_EFFECT, f"`{name.text}` has no effect", directive.span, hint))
