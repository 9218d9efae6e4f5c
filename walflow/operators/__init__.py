"""The operators by the names flow files know them by, and how selects are run."""

from collections.abc import Mapping
from typing import Final

from walflow.operators.backpressure import QosBackpressure
from walflow.operators.batch import Batch
from walflow.operators.bucket import Bucket
from walflow.operators.counter import EventCounter
from walflow.operators.dedupe import Dedupe
from walflow.operators.history import History
from walflow.operators.operator import Operator, OperatorContext, OutPort, Running, StandIn, WindowLimits
from walflow.operators.passthrough import Passthrough
from walflow.operators.percentile import QosPercentile
from walflow.operators.roundrobin import RoundRobin
from walflow.operators.stamp import Stamp
from walflow.operators.wal import QosWal

__all__ = ["OPERATORS", "Operator", "OperatorContext", "OutPort", "Running", "StandIn", "WindowLimits"]

OPERATORS: Final[Mapping[str, type[Operator]]] = {
    "debug::history": History,
    "generic::batch": Batch,
    "generic::counter": EventCounter,
    "grouper::bucket": Bucket,
    "passthrough": Passthrough,
    "qos::backpressure": QosBackpressure,
    "qos::dedupe": Dedupe,
    "qos::percentile": QosPercentile,
    "qos::roundrobin": RoundRobin,
    "qos::stamp": Stamp,
    "qos::wal": QosWal,
}
