"""What generated code calls by name, and how it becomes a function again: here, and on Spark's executors."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from walflow_kernel import bits, operators, paths, patterns, records, state, text, values, weight
from walflow_kernel.errors import CannotApply, CannotEvaluate, Missing
from walflow_kernel.extractors import NO_MATCH
from walflow_kernel.windows import called as windows

Run = Callable[..., Any]
"""Of the numbers of events, the events, and what `walflow.compile.compiled.BlockCall` has; see there."""


def define(file: str, source: str, names: Mapping[str, object]) -> Run:
    """`file`: what a traceback calls the source. `names`: what stands in its table."""

    def line(error: BaseException) -> int:
        return _line(error.__traceback__, file)

    scope: dict[str, Any] = {**GLOBALS, **OPERATORS, **names, "line": line}
    exec(compile(source, file, "exec"), scope)  # noqa: S102 - made of a fixed alphabet, see walflow/compile/listing.py
    run: Run = scope["run"]
    return run


def _line(trace: TracebackType | None, file: str) -> int:
    found = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def named(name: str, refused: CannotApply) -> CannotApply:
    """An error of a function, with its name before it."""
    return CannotApply(f"`{name}`: {refused}")


def no_verdict(word: str, value: object) -> CannotApply:
    return CannotApply(f"`{word}` takes true or false, not {values.kind_of(value)}")


GLOBALS: Final[Mapping[str, object]] = {
    "ABSENT": paths.ABSENT,
    "BEYOND": values.MOST + 1,
    "BOUNDLESS": values.MOST,
    "CannotApply": CannotApply,
    "CannotEvaluate": CannotEvaluate,
    "LEAST": values.LEAST,
    "MOST": values.MOST,
    "Lost": paths.LostWay,
    "Missing": Missing,
    "SOMEWHERE": (),  # a value that is there
    "PLAIN": frozenset({str, float, bool, type(None), list, dict, bytes}),
    "SMALL": state.SMALL,
    "assign": state.assign,
    "lent": state.lent,
    "replaced": state.replaced,
    "TOO_DEEP": values.TOO_DEEP,
    "add": operators.add,
    "assigned": records.assigned,
    "boolean": operators.boolean,
    "endless": records.endless,
    "entries": records.entries,
    "fits": patterns.fits,
    "holds": patterns.holds,
    "no_case": patterns.no_case,
    "NO_MATCH": NO_MATCH,
    "opened": records.opened,
    "same": patterns.same,
    "unset": paths.unset,
    "copy": records.copy,
    "default_all": records.default_all,
    "found": paths.found,
    "gathered": records.gathered,
    "compared": weight.compared,
    "grown": weight.grown,
    "joined": text.joined,
    "member": paths.member,
    "member_by": paths.member_by,
    "merge_all": records.merge_all,
    "merge_at": records.merge_at,
    "merged": records.merged,
    "move": records.move,
    "named": named,
    "no_verdict": no_verdict,
    "occupied": records.occupied,
    "packed": bits.packed,
    "part": paths.part,
    "reach": paths.reach,
    "record_of": records.record_of,
    "spliced": text.spliced,
    "taken": paths.taken,
    "unary": operators.unary,
    "vacant": records.vacant,
    "used": weight.used,
    "weigh": weight.weigh,
    **windows.CALLED,
}

NAMES: Final = {  # of the operators in full
    "==": "equal",
    "!=": "unequal",
    "<": "less",
    "<=": "at_most",
    ">": "more",
    ">=": "at_least",
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "remainder",
    "&": "bit_and",
    "|": "bit_or",
    "^": "bit_xor",
    "<<": "shift_left",
    ">>": "shift_right",
    ">>>": "shift_right_unsigned",
    "xor": "xor",
}
OPERATORS: Final[Mapping[str, object]] = {name: operators.BINARY[symbol] for symbol, name in NAMES.items()}
