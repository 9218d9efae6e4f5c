"""A script or a pipeline between two files: `walflow run SCRIPT -i IN -o OUT`.

`filter` makes nodes of the pipeline, as the daemon does, and sends the input through them a block at a time; there is
no event loop, and what a read brings is written before the next one. `complaints` prints what is rejected.
"""

from walflow.filters.complaints import Complaints
from walflow.filters.filter import Filter, OutputLost, Wires

__all__ = ["Complaints", "Filter", "OutputLost", "Wires"]
