"""Stream of bytes <-> frames: what flow files call pre- and postprocessors. Both directions of one framing stand
in one file. Framings of the same kind and configuration are one object, so that two ends compare by identity."""

from collections.abc import Mapping, Sequence

from walflow.errors import WalflowError
from walflow.event import Framing
from walflow.framing.chain import (
    POSTPROCESSORS,
    PREPROCESSORS,
    Encoder,
    Incoming,
    Misplaced,
    Named,
    Outgoing,
    held,
    incoming,
    outgoing,
    separate,
)
from walflow.framing.length_prefixed import LENGTH_PREFIXED
from walflow.framing.messages import MESSAGES
from walflow.framing.separate import LINES, Separate
from walflow.framing.steps import Refused, Worked, decoders, last_pieces, pieces
from walflow.framing.textual_length_prefixed import TEXTUAL_LENGTH_PREFIXED
from walflow.framing.whole import WHOLE

__all__ = [
    "LENGTH_PREFIXED",
    "LINES",
    "MESSAGES",
    "POSTPROCESSORS",
    "PREPROCESSORS",
    "TEXTUAL_LENGTH_PREFIXED",
    "WHOLE",
    "Encoder",
    "Incoming",
    "Misplaced",
    "Named",
    "Outgoing",
    "Refused",
    "Separate",
    "Worked",
    "decoders",
    "held",
    "incoming",
    "last_pieces",
    "make",
    "outgoing",
    "pieces",
]


def make(chain: Sequence[tuple[str, Mapping[str, object]]]) -> Framing:
    """The framing of a list of `separate`, or of nothing, as a log's tag names it. Raises WalflowError."""
    if not chain:
        return WHOLE
    (name, config) = chain[0]
    if len(chain) > 1 or name != "separate":
        raise WalflowError(f"Unknown framing {', '.join(name for name, _ in chain)}")
    return separate(config)
