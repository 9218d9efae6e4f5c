"""Checks what a flow file declares, and makes the graph that the runtime builds its nodes from. `load` reads files
and returns an `Assembly`, or diagnostics. Read `assemble` first: it makes the parts and calls each check. `assembly`
is the result. `graph` answers which node reaches which.
"""

from walflow.lang.config import NodeId
from walflow.plan.assemble import load
from walflow.plan.assembly import Assembly, ConnectorPlan, Link, OperatorPlan, PipelinePlan, PlannedSelect

__all__ = [
    "Assembly",
    "ConnectorPlan",
    "Link",
    "NodeId",
    "OperatorPlan",
    "PipelinePlan",
    "PlannedSelect",
    "load",
]
