"""Stream of bytes <-> frames: what flow files call pre- and postprocessors. Both directions of one framing stand
in one file. Framings of the same kind and configuration are one object, so that two ends compare by identity.

Each comes by an entry point of the group `walflow.framings`, which names a `Processor`.
"""

from walflow.framing.chain import (
    BadChainOrder,
    Incoming,
    Named,
    Outgoing,
    frames_of,
    incoming,
    make,
    outgoing,
    postprocessors,
    preprocessors,
    registered,
)
from walflow.framing.length_prefixed import LENGTH_PREFIXED
from walflow.framing.messages import MESSAGES
from walflow.framing.multiline import Multiline, Pending, divided
from walflow.framing.processor import Encoder, Processor, encoder_at
from walflow.framing.separate import LINES, Separate
from walflow.framing.steps import EachPiece, Refused, Several, Worked, decoders, each, last_pieces, pieces
from walflow.framing.textual_length_prefixed import TEXTUAL_LENGTH_PREFIXED
from walflow.framing.whole import WHOLE

__all__ = [
    "LENGTH_PREFIXED",
    "LINES",
    "MESSAGES",
    "TEXTUAL_LENGTH_PREFIXED",
    "WHOLE",
    "BadChainOrder",
    "EachPiece",
    "Encoder",
    "Incoming",
    "Multiline",
    "Named",
    "Outgoing",
    "Pending",
    "Processor",
    "Refused",
    "Separate",
    "Several",
    "Worked",
    "decoders",
    "divided",
    "each",
    "encoder_at",
    "frames_of",
    "incoming",
    "last_pieces",
    "make",
    "outgoing",
    "pieces",
    "postprocessors",
    "preprocessors",
    "registered",
]
