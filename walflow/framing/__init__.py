"""Stream of bytes <-> frames: what flow files call pre- and postprocessors. Both directions of one framing stand
in one file. Framings of the same kind and configuration are one object, so that two ends compare by identity."""

from collections.abc import Mapping, Sequence

from walflow.errors import WalflowError
from walflow.event import Framing
from walflow.framing.messages import MESSAGES
from walflow.framing.separate import LINES, Separate
from walflow.framing.whole import WHOLE

__all__ = ["LINES", "MESSAGES", "NAMES", "WHOLE", "Separate", "make"]

NAMES = ("separate",)

_made: dict[object, Framing] = {}


def make(chain: Sequence[tuple[str, Mapping[str, object]]]) -> Framing:
    """The framing of a `preprocessors` or `postprocessors` list. An empty one: each read is one event, and events
    are written with nothing between them. Raises WalflowError with a line for the flow file's author."""
    if not chain:
        return WHOLE
    if len(chain) > 1:
        raise WalflowError("chains of several pre- or postprocessors are not supported yet: name one")
    (name, config) = chain[0]
    if name != "separate":
        raise WalflowError(f"Unknown pre- or postprocessor {name}")
    framing = Separate.from_config(config)
    return _made.setdefault((name, framing.separator, framing.max_length), framing)


_made["separate", LINES.separator, LINES.max_length] = LINES
