"""The contract between a connector and walflow. A connector imports this, and nothing of the runtime.

One coroutine, `Connector.run`, is the whole life of a connector. Objects that both halves share (a socket, a listener
and its peers, a log) are its local variables. It connects, loops and cleans up in `async with`. Cancelling it ends
both halves. Returning means that the source has no more events. Raising restarts both halves after a wait. There are
no other lifecycle callbacks. Receipts from an earlier run have no effect.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, NoReturn, Protocol, Self

from pydantic import BaseModel, ConfigDict

from walflow.errors import WalflowError
from walflow.event import Block, Codec, ReadPlace, StreamId
from walflow.families import Families
from walflow.needs import Need
from walflow.positions import Range

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CONTRACT: Final = 2
"""The version of what stands here and in `walflow`, `walflow.net` and `walflow.delivery`.
docs/reference/connector-contract.md says what each one changed.
A connector may say in `contract` which one it was written for."""


class Ports(NamedTuple):
    """The ports that links may use. Empty `inputs`: there is no sink half;
    empty `outputs`: there is no source half."""

    inputs: tuple[str, ...] = ("in",)
    outputs: tuple[str, ...] = ("out", "err")


class CodecUse(Enum):
    """Whether a definition must, may or must not name a `codec` (and pre- and postprocessors)."""

    REQUIRED = "required"
    FORBIDDEN = "forbidden"  # its events are values (metronome) or blocks as they are (wal)
    OPTIONAL = "optional"  # json where none is named


class Claim(NamedTuple):
    """A resource that only one connector may use: a log directory, a file that is written."""

    what: str
    path: str


class Risk(str):
    """A warning of a `Guarantee`, with the name by which `# check: allow NAME` in a flow file permits it: one of
    `walflow check --list-warnings`, or a name of your own. A warning that is a plain string has the name `risk`."""

    name: str

    def __new__(cls, name: str, text: str) -> Self:
        risk = super().__new__(cls, text)
        risk.name = name
        return risk


class Lossless(str):
    """A sentence of a `Guarantee` by which no event is lost here, whatever dies. `source`: who sends it keeps it, or
    learns that it is not acked. `sink`: what an ack means, the receiver has. `walflow check --require` counts on it.
    A plain string promises less."""


def risk_name(warning: str) -> str:
    return warning.name if isinstance(warning, Risk) else "risk"


class Guarantee(NamedTuple):
    """The guarantees of a connector, as sentences that `walflow check` prints.

    `source`: which events are safe when they come in. `sink`: what an ack means. Each is `Lossless` or a plain
    string. `warnings`: risks that an operator should know before the start; `check --strict` fails on them. `notes`:
    facts to plan with, such as how much disk it may use. A test holds each sentence. `once`: the sink recognises
    repeated events by their log positions; `check` adds which parts of a path take the positions away.
    """

    source: str = ""
    sink: str = ""
    warnings: tuple[str, ...] = ()
    once: bool = False
    notes: tuple[str, ...] = ()


class Recalled(NamedTuple):
    """Events of a source that the log behind it had not delivered when it was opened. `value`: what their metadata
    has under `Traits.recalls`."""

    value: object
    events: int
    ingest_ns: int


class Objection(NamedTuple):
    """A mistake that a probe found. `key` is the key of the configuration with the mistake. Each line of `hint` is
    shown."""

    key: str
    message: str
    hint: str = ""


class Traits(NamedTuple):
    """What walflow asks of a connector type, besides its ports. It knows no type by its name.

    `codec`: whether a definition names one. `messages`: it reads and writes messages. Without pre- and
    postprocessors, each message is an event. It uses `Stream.feed_messages` and `Inlet.messages`. `decodes`: with a
    codec, each event that it sends is what the codec made of bytes that came. `takes_bytes`: with a codec, the other
    side reads and writes bytes, so something has to tell the events apart.

    `transactional`: the source half needs the outcome of every block (a log, a broker's consumer). `forwards`: the
    source half sends on what the sink half accepts, as a log does; one ack domain ends there and the next begins.
    `passes`: of one that forwards, it sends on the events as they came; so `walflow test` can stand in for it.
    `positions`: the blocks that it sends have an `origin`; each event has a number in a log. `output_optional`: it is
    no mistake if nothing is linked to its `out`, because others read it as well. `recalls`: of its events' metadata,
    the two keys of what `Outlet.recalled` gives back. `answers`: all that the source half sends are answers to what
    the sink half accepted, so a drain does not stop it. `frontier`: the sink half stores in its receiver, in the same
    commit as the events, which positions of a log it has (`walflow.frontier`).
    """

    codec: CodecUse = CodecUse.REQUIRED
    messages: bool = False
    decodes: bool = True
    takes_bytes: bool = True
    transactional: bool = False
    forwards: bool = False
    answers: bool = False
    passes: bool = False
    positions: bool = False
    frontier: bool = False
    output_optional: bool = False
    recalls: tuple[str, str] | None = None


class Connector(BaseModel):
    """A connector type. Its fields are its configuration (the `config` record of a flow file). The fields'
    descriptions are the reference. `traits` says what it is: `Traits(messages=True)`, or of a class that is derived
    from another, `Other.traits._replace(messages=True)`. `families` says what each metric means that it counts."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    contract: ClassVar[int] = CONTRACT
    ports: ClassVar[Ports] = Ports()
    traits: ClassVar[Traits] = Traits()
    families: ClassVar[Families] = {}

    def ports_used(self) -> Ports:
        """The ports of this instance, if they depend on its configuration (for example, whether a file is read or
        written)."""
        return self.ports

    def how_to_use(self, port: str) -> str:
        """What to write so that this instance has this port, if its type has it:
        the hint of the mistake of a link to it."""
        return ""

    def sink_codec(self, codec: Codec | None) -> Codec | None:
        """The codec in which events come to this instance's sink half, if it is not `codec`.
        None: each comes as it is."""
        return codec

    def mixed(self) -> bool:
        """Whether what this instance reads is not all in its `codec`, because each message says what it is."""
        return False

    def parts(self) -> bool:
        """Whether this instance's source half sends to each of `Outlet.lanes` on its own, so that a sink that is away
        stops only its own lane."""
        return False

    def resends(self) -> bool:
        """Whether this instance's source half sends events again that failed, or were not acked before a crash, and
        forgets events that are acked. A log does, and a file that is followed. If it is not `transactional` (it uses
        `Stream.mark`), its only preprocessor may be one that cuts a stream into events, as `separate`: otherwise no
        byte of the stream is known at which an event begins."""
        return self.traits.transactional

    def has_offsets(self) -> bool:
        """Whether this instance's streams have a `place`. Then a log recognises what comes again after a crash."""
        return False

    def why_no_offsets(self) -> str:
        """What of its configuration takes them away, and what would not; "": it never has any."""
        return ""

    def keeps_letters(self) -> bool | None:
        """Whether it keeps what its sinks reject: see `Outlet.letters`. None: of those whose `err` is not linked."""
        return False

    def overwrites(self) -> bool:
        """Whether an older event that comes late may replace a newer one, for example as the row of its key."""
        return False

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        """`behind_log`: a source that resends is upstream; it forgets every event that this sink acks."""
        raise NotImplementedError

    def claims(self) -> Sequence[Claim]:
        """Resources that no other connector may use. Two connectors with the same claim are refused before anything
        starts."""
        return ()

    def needs(self) -> Sequence[Need]:
        """What the start of this instance will need from the machine, for `walflow check --environment`."""
        return ()

    def probe(self) -> Sequence[Objection]:
        """A slow check that starts other programs, for `walflow check --spark`. It changes nothing."""
        return ()

    async def run(self, inlet: "Inlet", out: "Outlet") -> None:
        """Runs both halves until it is cancelled."""
        raise NotImplementedError


class HostSettings(BaseModel):
    """What the head of a pipeline says to its host, as `#!config TYPE = {…}`, and `--spark-config` for all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def parts(self) -> int | None:
        """Into how many parts the groups of windows are dealt. None: as many as walflow thinks right."""
        return None


class PipelineHost(Connector):
    """A connector that keeps what reaches it, and runs a pipeline on that. The entry-point group `walflow.roles`
    names it as `engine`; then its type is a place where pipelines may run."""

    settings: ClassVar[type[HostSettings]]

    @classmethod
    def hosting(cls, settings: HostSettings, pipeline: str, folder: str) -> Self:
        """The instance that runs `pipeline`, a `walflow_kernel.shipped.PackedText`. `settings` are of its `settings`.
        `folder`: where it may keep files, relative to --workdir. Raises pydantic's ValidationError."""
        raise NotImplementedError


@dataclass
class ReplayProgress:
    """Of one process. `first`, `end`: the first and the last position that are wanted, once it has looked.
    `settled_to`: all up to there is acked or rejected, `events` in number. `missed`: events that could not be read.
    `over`: each event has its outcome."""

    first: int = 0
    end: int = 0
    settled_to: int = 0
    events: int = 0
    missed: int = 0
    over: bool = False


class LogReplayer(Connector):
    """A connector that sends again what a log has. The entry-point group `walflow.roles` names it as `replayer`; then
    `walflow replay` puts it in the place of the log."""

    @classmethod
    def replaying(cls, path: str, begin: str | None, end: str | None, speed: float | None) -> Self:
        """The instance that sends what the log in `path` has, and then stops the daemon. `begin`, `end`: places, as
        `LogPlace`. Raises pydantic's ValidationError."""
        raise NotImplementedError

    @property
    def progress(self) -> ReplayProgress:
        raise NotImplementedError


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The functions of an event loop that the runtime uses; tests pass a fake.
    Each run of a connector has its own."""

    def time(self) -> float:
        """Monotonic seconds."""
        ...

    def awake(self) -> float:
        """Monotonic seconds, without the time in which the process was stopped. Timeouts of peers use this clock,
        because a stopped process does not read what its peers send."""
        ...

    def call_soon(self, call: Callable[[], None]) -> None: ...

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer: ...

    def submit(
        self, job: Callable[[], None], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        """Runs `job` on this scheduler's thread, in the order of the calls. Calls `done` on the loop. `urgent`: on a
        second thread, so it does not wait for what is not. Someone waits for its end."""
        ...

    def fetch(self, job: Callable[[], None], done: Callable[[BaseException | None], None], *, of: str = "") -> None:
        """Does the same on another thread, for reads: what is submitted does not wait for them. `of`: the name of who
        reads, if it is not the connector itself but one of its lanes. Each has a thread of its own."""
        ...


class Counter(Protocol):
    """A metric that only grows. It is a plain attribute, because a lock for each increment would cost more than the
    event."""

    value: int


class Histogram(Protocol):
    """A distribution of values. Use it once for each commit or connection, not for each event."""

    def observe(self, value: float) -> None: ...


class FailedPart(NamedTuple):
    """Neighbours that failed together and wait to be sent again. `position`: of the first, in its log or since the
    start. `tries`: how often they failed; `attempts`: those that count (docs/concepts/contraflow.md).
    `seconds`: until the next try."""

    position: int
    events: int
    sink: str
    tries: int
    attempts: int
    seconds: float
    cause: str


class FailedEvents(NamedTuple):
    """`events`: how many have failed and wait; `parts`: the oldest of them."""

    events: int
    parts: "Sequence[FailedPart]"


class Gate(Protocol):
    """The reasons why a source may not send, each under a key: the restore of one sink never cancels the trigger of
    another."""

    @property
    def shut(self) -> bool: ...

    def watch(self, on_shut: Callable[[], None], on_open: Callable[[], None]) -> None:
        """Sets the functions to call when the gate shuts and opens. They replace earlier ones."""
        ...

    def trigger(self, key: str, reason: str) -> None: ...

    def restore(self, key: str) -> None: ...


class MetricValue(NamedTuple):
    """A counter or a gauge of the process, by the name that Prometheus has."""

    name: str
    labels: Mapping[str, str]
    value: float


class Half(Protocol):
    """The part of the interface that both halves of a connector share.

    A run counts as up from its first call of `serve`, `take`, `stream`, `ready` or `on_ready`. So call them only when
    the connector listens or has its files open. The daemon is ready when every connector is up.
    """

    name: str  # flow::connector, as logs and metrics have it
    linked: bool  # something is linked to this half; the other half may run alone
    log: "FilteringBoundLogger"

    @property
    def scheduler(self) -> Scheduler: ...

    def explain(self, tell: Callable[[], str]) -> None:
        """`tell` says in words what the run waits for, for `walflow status` and `/readyz`: a peer that is away before
        the run is up, or another program that starts. "": nothing. Call it again when that changes."""
        ...

    def counter(self, name: str, **labels: str) -> Counter:
        """`name` in base units with `_total`, for instance "orphaned_events_total".
        `Connector.families` has its help. `labels`: as of `gauge`."""
        ...

    def gauge(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """`read` is called at each scrape of the metrics until this run ends. It must not block. `labels` tell
        several gauges of the same name apart; they must have few values."""
        ...

    def histogram(self, name: str, bounds: Sequence[float], **labels: str) -> Histogram: ...

    def metrics(self) -> Sequence[MetricValue]:
        """The present values of all components of the process."""
        ...

    def fatal(self, error: WalflowError) -> NoReturn:
        """Ends the process at once, with the error's line and its exit code. For a log whose acks would not be true
        any more."""
        ...

    def stop(self, *, graceful: bool) -> None:
        """Asks the daemon to stop with exit code 0: after a drain, as on SIGTERM, or at once. It returns; the run is
        cancelled later."""
        ...


class Upstream(NamedTuple):
    """What is known of the sources whose events come to a sink, and of the ways by which they come.

    `behind_log`: a source that resends is upstream: it forgets events that are acked. `sole_path`: each block comes
    at most once (no second way here from the same source). `straight`: and each log upstream comes here by links and
    stateless selects alone: what it settles, this sink has. `straight_files`: and so does each file upstream that is
    followed.

    `replaceable`: others can take what this sink cannot deliver now: it is reached by ways that choose alone (a round
    robin). Then it triggers until it can deliver, from the start, and on triggering it fails what it holds instead of
    holding it. If only a try shows whether it can, it restores after a backoff, and triggers again when the try
    fails.

    `recalled_by`: for a log, the sources of which it is the only sink, by one way, and `Traits.recalls` of each.
    `sources`: how many there are.
    """

    behind_log: bool = False
    sole_path: bool = True
    straight: bool = False
    straight_files: bool = False
    replaceable: bool = False
    recalled_by: Mapping[str, tuple[str, str]] = MappingProxyType({})
    sources: int = 0


class Inlet(Half, Protocol):
    """The interface of the sink half. Blocks arrive in the connector's own codec and framing (with
    CodecUse.FORBIDDEN: unchanged). So their `frames.data` is what to write. For every block taken, the sink must call
    exactly one of ack, fail and reject, in any order. When a run ends, its remaining blocks are failed."""

    encoded: bool  # postprocessors change the bytes of the events: they are no longer what the codec writes

    @property
    def upstream(self) -> Upstream: ...

    async def take(self) -> list[Block]:
        """All waiting blocks, at least one."""
        ...

    def serve(self, accept: Callable[[Block], None]) -> None:
        """An alternative to `take`: `accept` is called directly for each block, first for blocks that are already
        waiting. It must not block or raise."""
        ...

    def messages(self, block: Block) -> list[bytes]:
        """The message to send for each event of the block: the event, or the event with its frame if postprocessors
        are named."""
        ...

    def share(self) -> tuple[int, int | None]:
        """For a sink with many peers. Returns how many bytes (`Block.weight`) and events may wait for all peers
        without being settled; None: any number. It is a quarter of the smallest window upstream, divided among the
        sinks that ask for it. The rest is left to peers that do not make it wait."""
        ...

    def ack(self, block: Block) -> None: ...

    def fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        """The block may succeed later. Its first `done` events are delivered."""
        ...

    def reject(self, block: Block, reason: str) -> None:
        """The block can never succeed. Each of its events leaves by the err port, as a record of the reason and the
        event. The path from there decides their outcome."""
        ...

    def trigger(self, reason: str) -> None:
        """Triggers this sink's breaker: every source upstream stops reading until `restore`. The sink keeps the
        blocks that it has."""
        ...

    def half_open(self) -> None:
        """While the breaker is triggered: the sources may send until the next `trigger`. The reason stays. For a sink
        that has only events that failed, perhaps by their own fault: the next one shows it."""
        ...

    def restore(self) -> None: ...

    def failed_try(self, cause: str, block: Block | None = None) -> None:
        """For a sink that tries events again itself: one try has failed, of this block. Others need not call it: a
        block that fails, and a breaker that triggers, are failures."""
        ...

    def retries(self, tell: Callable[[int], "FailedEvents"]) -> None:
        """For a sink that tries events again itself: `tell` says which ones have failed,
        so many parts at the most."""
        ...

    def remember(self, source: str, events: Sequence[Recalled]) -> None:
        """For a log, before it takes events: what it has of one of `Upstream.recalled_by`."""
        ...

    def on_reopen(self, call: Callable[[], None]) -> None:
        """Calls `call` on SIGHUP, so that renamed files are opened again under their first name."""
        ...


class Marked(NamedTuple):
    """What happened to the events between two marks of a stream. `unended`: how many bytes before the later mark
    belong to an event that had not ended there. `cause`: the first failure; None: each event is acked or rejected."""

    unended: int
    cause: BaseException | None


class Stream(Protocol):
    """One connection or open file of a source. All methods are synchronous and never raise for bad data."""

    id: StreamId

    def feed(self, data: bytes) -> None:
        """Bytes in the order they were read. They are divided into events, validated and sent. Events that cannot be
        decoded leave by err."""
        ...

    def feed_messages(self, messages: Sequence[bytes]) -> None:
        """The messages of one read. Each is an event, or, if preprocessors are named, bytes for them."""
        ...

    def reject(self, reason: str) -> None:
        """Rejects an event that was not even read, for example because it is too large. It leaves by err."""
        ...

    def emit(self, values: Sequence[object]) -> None:
        """Events that are already values, for example of a timer."""
        ...

    def eof(self, *, complete: bool) -> None:
        """No more bytes will come; ends the stream. `complete`: this is known to be the end (of a file), so a last
        event without an end counts. Otherwise (a connection) it counts only if no longer event could begin with it;
        if one could, it is rejected."""
        ...

    def close(self) -> None:
        """Ends the stream. A last event without an end is dropped and counted."""
        ...

    def mark(self, settled: Callable[[Marked], None]) -> None:
        """For a stream with `marks`. `settled` is called once, when every event that was fed since the last mark has
        its outcome; possibly within this call. The last mark may be made after `eof`."""
        ...

    @property
    def open_lines(self) -> int:
        """Bytes of whole lines whose event may go on, where several lines are one (`multiline`)."""
        ...

    @property
    def patience(self) -> float:
        """Seconds after which they are an event.
        A source of a stream with `marks` sees to that itself: it knows whether more is there."""
        ...

    def end_event(self) -> None:
        """Makes these lines an event; what follows is a new one."""
        ...

    def abandon(self) -> None:
        """Ends the stream without an error for a last event without an end: its source reads that again."""
        ...

    def rest(self) -> bytes | None:
        """What was fed and is no event yet. None: more than these bytes has to be known to go on (a preprocessor's
        state, an event that is too large, bytes that wait for their turn)."""
        ...


class MessagePiece(NamedTuple):
    """What `Outlet.cut` came upon: an event, the reason why there is none (`refused`), or neither yet. `size`: bytes
    that were decoded for it. With `refused`, `event` has the bytes that are none, as far as they are known."""

    size: int
    event: bytes | None = None
    refused: str | None = None


REJECTED_FOR: Final = "rejected_for"


class LetterKeeper(Protocol):
    """The letters of one sink of a log, for who looks after them: numbers are their positions."""

    logs: Sequence[str]  # the ids of the log, and of its letters once they are open
    path: str  # directory of the letters

    def keep(self, block: Block) -> None:
        """Settles its receipt once its events are on disk, or given up. The metadata of each says in `REJECTED_FOR`
        why it was rejected."""
        ...

    def retry(
        self, ranges: Sequence[Range], mended: Mapping[int, bytes], done: Callable[["LetterAnswer"], None]
    ) -> None:
        """Sends letters to the sink again; of very many the first. `mended`: by number, JSON that goes instead of the
        event."""
        ...

    def drop(self, ranges: Sequence[Range], done: Callable[["LetterAnswer"], None]) -> None: ...

    def state(self) -> "LetterAnswer":
        """`taken` is 0."""
        ...


class LetterAnswer(NamedTuple):
    """`taken`: letters that this call has done something with, durably. The rest is how it stands now. `kept`: the
    letters. `going`: those that the sink gets again and has not settled. `delivered`, `rejected`: what became of
    those that went, since `run`: when these letters were taken up, ns since the epoch. `refusal`: why nothing was
    done."""

    taken: int = 0
    kept: int = 0
    going: int = 0
    delivered: int = 0
    rejected: int = 0
    refusal: str = ""
    run: int = 0


class LetterWay(Protocol):
    """From one sink to the letters of a log, and back. `sink`: its name in the flow. `receiver`: the name under which
    it acks. `name`: under which what arrives is acked. `gives_up`: what fails too often is a letter too.
    `straight`: an event of the log comes to the sink once, as one event. `out` leads to that sink alone."""

    sink: str
    receiver: str
    name: str
    gives_up: bool
    straight: bool

    @property
    def out(self) -> "Outlet": ...

    def serve(self, keeper: LetterKeeper) -> None: ...


class RunningFlow(NamedTuple):
    """`hash`: of its configuration, the same in each process. `walflow`: the version."""

    hash: str
    walflow: str


class Outlet(Half, Protocol):
    """The interface of the source half.

    Back-pressure is a window of unsettled bytes: a synchronous send cannot refuse, so the limit is at the source.
    `window` and `max_event_bytes` may be set before the first stream or block. A source that limits its unsettled
    events sets that number as `window_events`.
    """

    run: int  # drawn at random at each start
    codec: Codec  # what the flow file says events look like; for sources that make their blocks themselves
    form: str  # how bytes become events, in words: with another codec, framing or walflow it is another one
    flow: "RunningFlow | None"  # of a log that remembers it
    framed: bool  # preprocessors are named: of a source of messages, a message is bytes for them, and no event
    window: int
    window_events: int | None
    max_event_bytes: int  # a larger event is rejected, and the stream goes on behind it

    @property
    def lanes(self) -> Mapping[str, "Outlet"]:
        """By name. An outlet for each lane, with a window and a breaker of its own, if the connector `parts` and its
        sinks can be reached apart; send each event by each of them. Otherwise this outlet alone."""
        ...

    @property
    def letters(self) -> Sequence["LetterWay"]:
        """For a log that `keeps_letters`: a way for each of its sinks. Of a lane: none."""
        ...

    @property
    def sinks(self) -> Sequence[str]:
        """Of one of several lanes: the names of its sinks. A sink keeps what it has acked when other links put it
        into another lane. Without a sink, the places at which the lane begins."""
        ...

    def stream(
        self,
        meta: Mapping[str, object],
        *,
        pause: Callable[[], None] = ...,
        resume: Callable[[], None] = ...,
        broken: Callable[[], None] = ...,
        marks: bool = ...,
        place: ReadPlace | None = ...,
    ) -> Stream:
        """For sources that are called with data. `pause` and `resume` alternate, beginning with `pause`, possibly
        before this returns. `broken` is called, possibly within `feed`, if no later data can be read either (damaged
        compressed data). The source then has to close the connection. The error leaves by err; data that is fed after
        it is dropped and counted. `marks`: the source learns by `Stream.mark` what happened to its events. It sends
        failed events again, so they are not counted as lost. `place`: where in a file the bytes are, so that a log
        recognises what comes again."""
        ...

    def send(self, block: Block) -> bool:
        """For sources that wait for the outcome of each block, with `block.receipt.settled` set. False: nothing was
        sent, because the window is full or a breaker has triggered; wait for the call of `on_ready`. A block larger
        than the window is sent alone.
        """
        ...

    def on_ready(self, call: Callable[[], None]) -> None:
        """Calls `call` whenever `send` may succeed again, possibly directly: guard against re-entry."""
        ...

    async def ready(self) -> None:
        """For sources that read at their own pace (a file):
        waits while the window is full or a breaker has triggered."""
        ...

    def reject(self, block: Block, reason: str, told: Mapping[str, object] = ...) -> None:
        """As `Inlet.reject`, by the same err port. `told`: what the error record says beside the reason."""
        ...

    def note_rejected(self, block: Block, reason: str, told: Mapping[str, object]) -> None:
        """Counts and shows it as `reject` does. What becomes of the block is settled elsewhere."""
        ...

    def retries(self, tell: Callable[[int], "FailedEvents"]) -> None:
        """For a source that sends failed events again: `tell` says which ones wait, so many parts at the most."""
        ...

    def waits(self) -> None:
        """For a source that sends nothing more until something is settled, although it could: who holds events to
        send them together lets them go."""
        ...

    def next_turn(self, call: Callable[[], None]) -> None:
        """For long work: calls `call` in a later turn of the loop. Of all callers, one is called in each turn, in
        their order."""
        ...

    def cut(self, message: bytes) -> Iterator["MessagePiece"]:
        """The events of one whole message, for a source that takes all of it or nothing: as the preprocessors tell
        them apart, without them the message itself. Nothing is judged or sent. What is not taken from the iterator is
        not decoded: a caller can stop where it gets too much."""
        ...

    def recalled(self) -> Sequence[Recalled]:
        """For a source with `recalls`, once it may send: events of earlier runs that the log behind it still has, the
        newest 64 MiB of it. Empty unless that log is its only sink and one way leads to it."""
        ...

    def backlog(self, count: Callable[[], int], waits_for: Callable[[], str] = ...) -> None:
        """`count`: the number of events that this source still has for its sinks. A drain waits until it is 0.
        `waits_for`: why it sends none of them now, in words ("a read of FILE, for 12 s", "its next try, in 3 s"); "":
        for no reason of its own. Both are called once a second."""
        ...
