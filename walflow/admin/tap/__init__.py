"""Live events of a running daemon: what `walflow tap` and the page show.

A `Sampler` watches ports and takes blocks while it wants some; `OpenTap` turns them into lines (`events`), with at
most a twentieth of the loop's time. `rules` says whether that is allowed, and what is left out.
"""

from walflow.admin.tap.open_tap import OpenTap
from walflow.admin.tap.rules import TapRules
from walflow.admin.tap.where import NotAnExpression, condition

__all__ = ["NotAnExpression", "OpenTap", "TapRules", "condition"]
