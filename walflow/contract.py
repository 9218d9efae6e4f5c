"""What a connector is, and what it is given. Connectors see this, and nothing of the runtime.

One coroutine, `Connector.run`, is the whole life of a connector. What its halves share (a socket, a listener and
its peers, a log) is a local of it. It connects, loops and cleans up in `async with`; cancelling it ends both
halves, returning means the source has nothing more to say, raising restarts both halves after a backoff. There are
no lifecycle callbacks beside it. Receipts that an earlier run handed out are void.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple, NoReturn, Protocol

from pydantic import BaseModel, ConfigDict
from structlog.typing import FilteringBoundLogger

from walflow.errors import WalflowError
from walflow.event import Block, Codec, StreamId


class Ports(NamedTuple):
    """What may be linked to and from. Empty `inputs`: no sink half; empty `outputs`: no source half."""

    inputs: tuple[str, ...] = ("in",)
    outputs: tuple[str, ...] = ("out", "err")


class CodecUse(Enum):
    """Whether a definition must, may or must not name a `codec` (and pre- and postprocessors)."""

    REQUIRED = "required"
    FORBIDDEN = "forbidden"  # its events are values (metronome) or blocks as they are (wal)
    OPTIONAL = "optional"  # json where none is named


class Claim(NamedTuple):
    """Something only one connector may have: a log directory, a file that is written."""

    what: str
    path: str


class Guarantee(NamedTuple):
    """What a connector promises, in words; `walflow check` prints these and nothing else.

    `source`: what is safe about the way in. `sink`: what an ack is worth. `warnings`: what an operator should
    know before starting it. A test holds each sentence. `once`: the sink knows by its position in a log what it has, and
    says so; `check` adds where the way from the log takes that away.
    """

    source: str = ""
    sink: str = ""
    warnings: tuple[str, ...] = ()
    once: bool = False


class Objection(NamedTuple):
    """What a probe found. `key` of the configuration is where the fault lies; each line of `hint` is shown."""

    key: str
    message: str
    hint: str = ""


class Connector(BaseModel):
    """Its fields are its configuration (the `config` record of a flow file), their descriptions the reference.

    `transactional`: its source half wants to know what became of every block (a log, a broker's consumer).
    `forwards`: what its sink half takes, its source half sends on: a log, in which one ack domain ends and the next
    begins.
    `positions`: the blocks it sends have an `origin`, each event its number in a log.
    `output_optional`: nothing is wrong where nothing is linked to its `out`, others read it as well.
    `messages`: what it reads and writes are messages, each an event where no pre- or postprocessors are named; it
    uses `Stream.feed_messages` and `Inlet.messages`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    ports: ClassVar[Ports] = Ports()
    codec: ClassVar[CodecUse] = CodecUse.REQUIRED
    transactional: ClassVar[bool] = False
    forwards: ClassVar[bool] = False
    positions: ClassVar[bool] = False
    output_optional: ClassVar[bool] = False
    messages: ClassVar[bool] = False

    def ports_used(self) -> Ports:
        """The ports of this very instance, where its configuration decides (a file is read or written)."""
        return self.ports

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        """`behind_log`: a transactional source lies upstream, so what its sink acks is forgotten there."""
        raise NotImplementedError

    def claims(self) -> Sequence[Claim]:
        """What it must have alone. Two connectors with one claim are refused before anything starts."""
        return ()

    def probe(self) -> Sequence[Objection]:
        """A check that takes its time and starts what it needs, for `walflow check --spark`. It changes nothing."""
        return ()

    async def run(self, inlet: "Inlet", out: "Outlet") -> None:
        """The whole life of both halves."""
        raise NotImplementedError


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """All that the runtime needs of an event loop; tests pass a fake. Each connector run has one of its own."""

    def time(self) -> float:
        """Monotonic seconds."""
        ...

    def awake(self) -> float:
        """Monotonic seconds for which the loop turned. What a peer owes is judged by these: while the process was
        stopped, nothing of what it sent was read."""
        ...

    def call_soon(self, call: Callable[[], None]) -> None: ...

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer: ...

    def submit(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Runs `job` on this scheduler's one thread, in the order submitted; `done` back on the loop."""
        ...


class Counter(Protocol):
    """A metric that only grows. A plain attribute: a lock an increment would cost more than the event."""

    value: int


class Histogram(Protocol):
    """How values are spread. For what happens once a commit or a connection, not once an event."""

    def observe(self, value: float) -> None: ...


class Gate(Protocol):
    """Why something may not send, one reason a key: one sink's restore never releases another's trigger."""

    @property
    def shut(self) -> bool: ...

    def watch(self, on_shut: Callable[[], None], on_open: Callable[[], None]) -> None:
        """Called at the edges only, and instead of what was before."""
        ...

    def trigger(self, key: str, reason: str) -> None: ...

    def restore(self, key: str) -> None: ...


class Half(Protocol):
    """What both halves of a connector are given.

    A run is up from its first `serve`, `take`, `stream`, `ready` or `on_ready` on: call them when the connector
    listens, or has its files open, and not before. The daemon is ready when every connector is up.
    """

    name: str  # flow::connector, as logs and metrics have it
    linked: bool  # something is linked to this half; the other half may run alone
    log: FilteringBoundLogger

    @property
    def scheduler(self) -> Scheduler: ...

    def counter(self, name: str) -> Counter:
        """`name` in base units with `_total`, for instance "orphaned_events_total"."""
        ...

    def gauge(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """`read` is called whenever the metrics are asked for, until this run ends. It must not block. `labels` (of which the
        values must be few) tell several gauges of one name apart."""
        ...

    def histogram(self, name: str, bounds: Sequence[float]) -> Histogram: ...

    def fatal(self, error: WalflowError) -> NoReturn:
        """Ends the process at once, with the error's line and its exit code. For a log that can no longer
        promise anything."""
        ...

    def stop(self, *, graceful: bool) -> None:
        """Asks the daemon to stop, with exit code 0: after a drain, as on SIGTERM, or at once. Returns; the run is
        cancelled later."""
        ...


class Inlet(Half, Protocol):
    """The sink half's side. Blocks arrive in the connector's own codec and framing (for CodecUse.FORBIDDEN: as
    they are), so their `frames.data` is what to write. Every block taken is owed exactly one of ack, fail and
    reject, in any order. A run that ends fails what it still holds."""

    behind_log: bool  # a transactional source lies upstream
    encoded: bool  # postprocessors change the bytes of the events: they are no longer what the codec writes
    sole_path: bool  # each block comes at most once (no second way here from the same source)
    replaceable: bool
    """Others can take what this sink cannot deliver now: it is reached by ways that choose alone (a round robin). Then
    it triggers until it can deliver, from the start, and on triggering it fails what it holds instead of holding it."""

    async def take(self) -> list[Block]:
        """All that waits, at least one block."""
        ...

    def serve(self, accept: Callable[[Block], None]) -> None:
        """Instead of the queue: `accept` is called in line for each block (first for what already waits). It
        must not block or raise."""
        ...

    def messages(self, block: Block) -> list[bytes]:
        """What to send for each event of the block: itself, or within its frame where postprocessors are named."""
        ...

    def share(self) -> tuple[int, int | None]:
        """For a sink of many peers, each of which may keep it waiting: how many bytes (`Block.weight`) and events may
        wait for all of them and not be settled, None: any number. It is a quarter of the smallest window upstream,
        divided among the sinks that ask for theirs, so that the rest is left to the peers that do not wait."""
        ...

    def ack(self, block: Block) -> None: ...

    def fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        """May succeed later. The first `done` events are delivered."""
        ...

    def reject(self, block: Block, reason: str) -> None:
        """Can never succeed: every event of it leaves by the err port, whose path then owns its outcome."""
        ...

    def trigger(self, reason: str) -> None:
        """This sink's breaker: every source upstream stops reading until `restore`. Hold what was taken."""
        ...

    def restore(self) -> None: ...

    def on_reopen(self, call: Callable[[], None]) -> None:
        """`call` on SIGHUP: files that were renamed away are opened anew."""
        ...


class Stream(Protocol):
    """One connection or open file of a source. All of it is synchronous and never raises for bad data."""

    id: StreamId

    def feed(self, data: bytes) -> None:
        """Bytes as they came: framed, validated and sent on; what does not decode leaves by err."""
        ...

    def feed_messages(self, messages: Sequence[bytes]) -> None:
        """All that one read brought: each is an event, or bytes for the preprocessors where these are named."""
        ...

    def reject(self, reason: str) -> None:
        """An event that was not even read (too large, say) leaves by err."""
        ...

    def emit(self, values: Sequence[object]) -> None:
        """Events that are values already (of a timer, say)."""
        ...

    def eof(self, *, complete: bool) -> None:
        """No more bytes; ends the stream. `complete`: the end is known to be the end (a file), so an unended
        last event is one; else (a connection) only if no longer event could begin like it, or it is rejected."""
        ...

    def close(self) -> None:
        """Ends the stream; an unended last event is dropped and counted."""
        ...


class Outlet(Half, Protocol):
    """The source half's side.

    Back-pressure is a window of unsettled bytes: a synchronous send cannot refuse, so the bound stands at the
    source. `window` and `max_event_bytes` may be set before the first stream or block; a source that never has more than
    so many events unsettled says so in `window_events`.
    """

    run: int  # drawn at random at each start
    codec: Codec  # what the flow file says events look like; for sources that make their blocks themselves
    framed: bool  # preprocessors are named: of a source of messages, a message is bytes for them, and no event
    window: int
    window_events: int | None
    max_event_bytes: int  # a larger event is rejected, and the stream goes on behind it

    def stream(
        self,
        meta: Mapping[str, object],
        *,
        pause: Callable[[], None] = ...,
        resume: Callable[[], None] = ...,
        broken: Callable[[], None] = ...,
    ) -> Stream:
        """For push sources. `pause` and `resume` alternate, `pause` first, possibly before this returns. `broken` is
        called, perhaps within `feed`, where what comes cannot be read any more, not even further on (damaged
        compressed data): hang up. It is said by err; what is fed after it is dropped and counted."""
        ...

    def send(self, block: Block) -> bool:
        """For transactional sources, with `block.receipt.settled` set. False: nothing was sent, the window is
        full or a breaker triggered; wait for the `on_ready` call. A block larger than the window goes alone."""
        ...

    def on_ready(self, call: Callable[[], None]) -> None:
        """`call` whenever `send` may succeed again; possibly in line: guard against re-entry."""
        ...

    async def ready(self) -> None:
        """For sources that pull (a file): returns at once unless the window is full or a breaker triggered."""
        ...

    def reject(self, block: Block, reason: str) -> None:
        """As `Inlet.reject`, by the same err port."""
        ...

    def next_turn(self, call: Callable[[], None]) -> None:
        """For what has more to do than others should wait for: `call` in a later turn of the loop, and of all that
        asked for it one a turn, in their order."""
        ...

    def backlog(self, count: Callable[[], int]) -> None:
        """`count`: how many events this source still holds for its sinks. A drain waits for 0."""
        ...
