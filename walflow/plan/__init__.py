"""What a flow file declares, checked against what there is: the graph that the runtime builds its nodes from.

`load` reads files and gives an `Assembly`, or diagnostics. Read `assemble` first: it makes the parts and asks for each
check. `assembly` is the result, and `graph` answers who reaches whom in it.
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
