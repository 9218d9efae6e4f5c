"""The engine of every sink: what it holds, when it stops its sources, what it tries again, how it stops.

A connector says what is its own, and nothing else:

    JobSink   (job.py)      one job at a time on a thread: a file, a pipe, a store
    PeerSink  (peer.py)     a connection that is made again: a socket, a broker

Read `states.py` first: both go by the one table there. `engine.py` is what they share, `breaker.py` why their sources
are stopped. A `JobSink` is a `JobEngine` (job_engine.py) and a coroutine around it. The engines themselves are plain
calls on a `Scheduler`. `walflow.testing.sinks` is what every sink must pass.
"""

from walflow.sinks.breaker import SinkBreaker
from walflow.sinks.engine import NotDelivered
from walflow.sinks.job import JobSink
from walflow.sinks.job_engine import JobBlocks, JobEnd, JobEngine, SinkWork
from walflow.sinks.peer import PeerSink, SinkPeer
from walflow.sinks.states import SinkEvent, SinkState

__all__ = [
    "JobBlocks",
    "JobEnd",
    "JobEngine",
    "JobSink",
    "NotDelivered",
    "PeerSink",
    "SinkBreaker",
    "SinkEvent",
    "SinkPeer",
    "SinkState",
    "SinkWork",
]
