"""walflow: connectors and pipelines wired along declared links, with a write-ahead log between them.

What a connector needs stands here; nothing else is promised to stay where it is.
"""

from walflow.contract import (
    CodecUse,
    Connector,
    Guarantee,
    Inlet,
    Outlet,
    Ports,
    Scheduler,
    Stream,
)
from walflow.errors import FailStop, WalflowError
from walflow.event import Block, Codec, Frames, Framing, Origin, Receipt, StreamId, Verdict

__version__ = "0.1.0"

__all__ = [
    "Block",
    "Codec",
    "CodecUse",
    "Connector",
    "FailStop",
    "Frames",
    "Framing",
    "Guarantee",
    "Inlet",
    "Origin",
    "Outlet",
    "Ports",
    "Receipt",
    "Scheduler",
    "Stream",
    "StreamId",
    "Verdict",
    "WalflowError",
    "__version__",
]
