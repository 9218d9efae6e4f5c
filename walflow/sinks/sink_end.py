"""The end of a sink, awaited. The engines themselves need no event loop."""

import asyncio
from collections.abc import Awaitable, Callable

from walflow.sinks.engine import SinkEngine


async def nothing() -> None: ...


async def close(sink: SinkEngine, let_go: Callable[[], Awaitable[None]] = nothing) -> None:
    """Waits for the work that is under way, then for `let_go`, which leaves the file or the peer. What has no outcome
    then fails."""
    stopped = asyncio.Event()
    try:
        sink.stop(stopped.set)
        await asyncio.shield(stopped.wait())
        await let_go()
    finally:
        sink.closed()
