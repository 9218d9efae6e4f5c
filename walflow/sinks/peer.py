"""A sink that writes to a peer: a socket, a broker. While there is no connection, blocks are held.

class Sending(SinkPeer):
    def send(self, waiting): ...        # takes blocks off `waiting`, and sees to their outcomes

sink = PeerSink(inlet, Sending())
sink.serve("not connected yet")
sink.connected() · sink.lost(cause) · sink.troubled(cause)
await sink.close()
"""

from collections import deque
from collections.abc import Iterable

from walflow.backoff import Backoff
from walflow.contract import Inlet, Timer
from walflow.errors import WalflowError
from walflow.event import Block
from walflow.sinks.engine import FIRST_DELAY, LAST_DELAY, SinkEngine
from walflow.sinks.sink_end import close
from walflow.sinks.states import (
    AWAY,
    BEGIN,
    CONNECTED,
    DONE,
    DUE,
    GONE,
    HELD,
    IDLE,
    REST,
    RETRY,
    TROUBLE,
    WORKING,
)


class SinkPeer:
    """What a `PeerSink` writes to. `send` is yours; the rest is as most need it. `sink`: whose peer it is."""

    sink: "PeerSink"

    def send(self, waiting: deque[Block]) -> bool:
        """Sends what the peer takes, and takes it off `waiting`: from there on its outcome is yours. Blocks that come
        meanwhile are appended; nothing may wait. False: it takes no more now; call `PeerSink.wake` when it does."""
        raise NotImplementedError

    def unfinished(self) -> Iterable[tuple[Block, int]]:
        """The blocks that `send` has taken and that have no outcome, each with how many of its first events are
        delivered: they fail now, before those that wait."""
        return ()

    async def close(self) -> None:
        """Gives the peer time for what it has."""

    def stop_cause(self) -> WalflowError | None:
        """Why blocks fail at the end; None: because the sink has stopped."""
        return None


class PeerSink(SinkEngine):
    """`backoff`: the waits after trouble. `patience`: shorter waits do not stop the sources. `done`: events of the
    first block that waits which are delivered."""

    def __init__(
        self,
        inlet: Inlet,
        peer: SinkPeer,
        *,
        gathers: bool = True,
        backoff: Backoff | None = None,
        patience: float = 0.0,
    ) -> None:
        super().__init__(inlet, AWAY, gathers=gathers)
        self.done = 0
        self._peer = peer
        peer.sink = self
        self._backoff = backoff or Backoff(FIRST_DELAY, LAST_DELAY)
        self._patience = patience
        self._timer: Timer | None = None

    def serve(self, cause: WalflowError) -> None:
        """Takes blocks. Until there is a connection, others get them because of `cause`, if there are others."""
        if self._inlet.upstream.replaceable and self.state is AWAY:
            self._failed_try(cause)
        self._inlet.serve(self.accept)

    # the connection

    def connected(self) -> None:
        """What waits is sent at once."""
        self._becomes(CONNECTED)
        self._next()
        self.delivered()

    def lost(self, cause: WalflowError) -> None:
        """The connection, or the attempt to make one."""
        self._end_wait()
        if self._becomes(GONE) is AWAY:
            self._failed_try(cause)

    def fail_all(self, cause: WalflowError) -> None:
        """All that has no outcome: its source may send it again."""
        self._fail_held(cause)

    def put_back(self, blocks: Iterable[Block]) -> None:
        """What the last connection has not delivered goes first on the next one."""
        self.waiting.extendleft(reversed([*blocks]))

    # what the peer takes

    def _next(self) -> None:
        while self.state is DUE:  # otherwise it was lost or stopped meanwhile
            self._becomes(BEGIN)
            takes_more = self._peer.send(self.waiting)
            if self.state is not WORKING:
                return
            if not (self.waiting and takes_more):
                self._becomes(REST)
                return
            self._becomes(DONE)
            if self._gathers:
                self._inlet.scheduler.call_soon(self._next)
                return

    def delivered(self) -> None:
        """The peer takes events."""
        if self._backoff.failures:
            self._backoff.reset()
        self._well()

    def troubled(self, cause: WalflowError) -> None:
        """The peer takes nothing for now. It is tried again after a wait, of which there is one: several answers may
        say so."""
        if self.state not in (IDLE, DUE, WORKING):
            self._inlet.failed_try(str(cause))
            return
        delay = self._backoff.next()
        if delay > self._patience:
            self._failed_try(cause)
        if self._becomes(TROUBLE) is HELD:
            self._timer = self._inlet.scheduler.call_later(delay, self._retry)

    def refuses(self, cause: WalflowError) -> None:
        """The peer takes nothing for now. Who calls this says when that is over, with `delivered`."""
        self._failed_try(cause)

    def _retry(self) -> None:
        self._timer = None
        self._becomes(RETRY)
        if not self.waiting:  # others got it: the next one is to show whether it can be sent
            self._well()
        self._next()

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # the end

    async def close(self) -> None:
        """Sends what waits, if it can. Gives the peer time for what it has. What has no outcome then fails."""
        self._next()
        await close(self, self._peer.close)

    def _stop_cause(self) -> WalflowError:
        return self._peer.stop_cause() or super()._stop_cause()

    def _fail_held(self, cause: WalflowError) -> None:
        for block, done in [*self._peer.unfinished()]:
            self.fail(block, cause, done)
        super()._fail_held(cause)

    def _fail_waiting(self, cause: WalflowError) -> None:
        done, self.done = self.done, 0
        waiting = [*self.waiting]
        self.waiting.clear()
        for block in waiting:
            self.fail(block, cause, done)
            done = 0
