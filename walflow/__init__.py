"""walflow: connectors and pipelines wired along declared links, with a write-ahead log between them.

What a connector, an operator, a codec, a preprocessor or a postprocessor needs stands here, and in `walflow.net` what
connectors on a network need. No other module is promised to keep its names.
"""

from walflow import interrupted as interrupted  # before what takes a third of a second

# isort: split
from walflow.backoff import Backoff
from walflow.codecs.per_event import EventCodec
from walflow.contract import (
    CONTRACT,
    Claim,
    CodecUse,
    Connector,
    Counter,
    Gate,
    Guarantee,
    Half,
    Histogram,
    HostSettings,
    Inlet,
    LogReplayer,
    Lossless,
    Marked,
    MessagePiece,
    MetricValue,
    Objection,
    Outlet,
    PipelineHost,
    Ports,
    Recalled,
    ReplayProgress,
    Risk,
    Scheduler,
    Stream,
    Timer,
    Traits,
    Upstream,
)
from walflow.diagnostics import did_you_mean
from walflow.duration import Duration
from walflow.errors import (
    Blameless,
    CannotDecode,
    CannotEncode,
    DiskFull,
    FailStop,
    Misconfigured,
    OneOfMany,
    PeerAway,
    ReadFailed,
    Unusable,
    WalflowError,
)
from walflow.event import Block, Codec, Cutting, Frames, Framing, Node, Origin, StreamId, Verdict
from walflow.extras import lacks
from walflow.families import Families, Family
from walflow.framing.processor import Processor
from walflow.framing.steps import Decoder, EachPiece, Item, Refused, Step, Worked
from walflow.log_place import LogPlace, place_of
from walflow.needs import Need, NotAvailable
from walflow.one_job import OneJob
from walflow.operators.operator import Operator, OperatorContext, OutPort, Running
from walflow.plugins import known_keys
from walflow.positions import Range, WrittenPositions
from walflow.receipt import Receipt
from walflow.sinks import JobBlocks, JobEnd, JobSink, NotDelivered, PeerSink, SinkBreaker, SinkPeer, SinkWork
from walflow.size import Size
from walflow_kernel.version import __version__

__all__ = [
    "CONTRACT",
    "Backoff",
    "Blameless",
    "Block",
    "CannotDecode",
    "CannotEncode",
    "Claim",
    "Codec",
    "CodecUse",
    "Connector",
    "Counter",
    "Cutting",
    "Decoder",
    "DiskFull",
    "Duration",
    "EachPiece",
    "EventCodec",
    "FailStop",
    "Families",
    "Family",
    "Frames",
    "Framing",
    "Gate",
    "Guarantee",
    "Half",
    "Histogram",
    "HostSettings",
    "Inlet",
    "Item",
    "JobBlocks",
    "JobEnd",
    "JobSink",
    "LogPlace",
    "LogReplayer",
    "Lossless",
    "Marked",
    "MessagePiece",
    "MetricValue",
    "Misconfigured",
    "Need",
    "Node",
    "NotAvailable",
    "NotDelivered",
    "Objection",
    "OneJob",
    "OneOfMany",
    "Operator",
    "OperatorContext",
    "Origin",
    "OutPort",
    "Outlet",
    "PeerAway",
    "PeerSink",
    "PipelineHost",
    "Ports",
    "Processor",
    "Range",
    "ReadFailed",
    "Recalled",
    "Receipt",
    "Refused",
    "ReplayProgress",
    "Risk",
    "Running",
    "Scheduler",
    "SinkBreaker",
    "SinkPeer",
    "SinkWork",
    "Size",
    "Step",
    "Stream",
    "StreamId",
    "Timer",
    "Traits",
    "Unusable",
    "Upstream",
    "Verdict",
    "WalflowError",
    "Worked",
    "WrittenPositions",
    "__version__",
    "did_you_mean",
    "known_keys",
    "lacks",
    "place_of",
]
