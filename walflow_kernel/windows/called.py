"""What generated code calls of windows, by name."""

from collections.abc import Mapping
from typing import Final

from walflow_kernel.state import size_of
from walflow_kernel.windows import groups, ticks
from walflow_kernel.windows.frame import holds_nothing
from walflow_kernel.windows.measure import measured, number, verdict_of

CALLED: Final[Mapping[str, object]] = {
    "check_room": groups.check_room,
    "combined": groups.combined,
    "due_by": ticks.due_by,
    "forget": groups.forget,
    "group_bytes": groups.group_bytes,
    "hear": ticks.hear,
    "holds_nothing": holds_nothing,
    "known_of": groups.known_of,
    "measured": measured,
    "number": number,
    "remember": groups.remember,
    "size_of": size_of,
    "ticks_at": ticks.ticks_at,
    "too_large": groups.too_large,
    "verdict_of": verdict_of,
    "wait": ticks.wait,
    "wait_on": ticks.wait_on,
    "with_text": groups.with_text,
}
