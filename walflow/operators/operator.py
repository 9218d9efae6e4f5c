"""What an operator is, and what it is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from walflow.contract import Claim, Counter, Gate, Ports, Scheduler
from walflow.event import Block, Node
from walflow.families import Families, Family

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

HELD: Final[Families] = {
    "held_events": Family(
        "gauge", "Events that the operator holds until a batch is full, or while no output accepts any."
    ),
}
OVERFLOW: Final[Families] = {
    "overflow_events_total": Family("counter", "Events that an operator sent to its port `overflow`."),
}


class RejectionDetails(Protocol):
    """What else is known of rejected events. Asked by number, and only where it is of use."""

    def at(self, number: int) -> str | None:
        """The place in a flow file that failed, as `file:line:column`."""
        ...

    def event(self, number: int) -> bytes | None:
        """The value of the event as JSON."""
        ...

    def raw(self, number: int) -> bytes:
        """The bytes of an event that has no value or no JSON form; b"": they are not known."""
        ...


class OperatorErr(Protocol):
    """Where rejected events go, one reason an event."""

    def take(self, block: Block, reasons: Sequence[str], details: RejectionDetails | None = None) -> None: ...


class OutPort(NamedTuple):
    """One output. `gate` is shut while a sink behind it takes no more; it is there only for an operator that
    `chooses`, every other's sinks stop the sources themselves."""

    to: Node
    gate: Gate


class WindowLimits(Protocol):
    """How much a source upstream may have unsettled."""

    def limits(self) -> tuple[int, int | None]:
        """Bytes; events, None for any number."""
        ...

    def waiting(self) -> int:
        """Events that it has and has not sent, or that are not acked."""
        ...

    @property
    def transactional(self) -> bool:
        """It is a log, which holds events before it sends them."""
        ...

    @property
    def full(self) -> bool:
        """Nothing more comes before something is settled."""
        ...

    def on_full(self, call: Callable[[], None]) -> None:
        """Called whenever it becomes so."""
        ...


@dataclass(frozen=True)
class OperatorContext:
    """Where one operator stands. `upstream`: the gates of all that sends to it, for one that chooses. `windows`: of
    the sources upstream. `forgetful`: the names of those that do not send again what fails. They are filled in once
    the whole graph stands."""

    name: str  # flow::pipeline/operator
    exits: Mapping[str, OutPort]
    err: OperatorErr
    counter: Callable[[str], Counter]
    gauge: Callable[[str, Callable[[], float]], None]
    log: "FilteringBoundLogger"
    upstream: list[Gate] = field(default_factory=list[Gate])
    windows: list[WindowLimits] = field(default_factory=list[WindowLimits])
    forgetful: list[str] = field(default_factory=list[str])


@runtime_checkable
class Running(Protocol):
    """A node that has a life of its own: timers, files."""

    def accept(self, block: Block) -> None: ...

    def begin(self, scheduler: Scheduler) -> None:
        """Before the first block. May raise WalflowError: then the daemon does not start."""
        ...

    def drain(self) -> None:
        """No more will be read: what is held goes on now, and from here on nothing is held."""
        ...

    def end(self) -> None:
        """The sinks are gone: what is still held fails, files are closed."""
        ...


class StandIn(NamedTuple):
    """The connector an operator is run as: its role (`walflow.registry.Role`) and its configuration."""

    role: Literal["buffer", "log"]
    config: Mapping[str, object]


class Operator(BaseModel):
    """Its fields are its configuration (what stands behind `with`); their descriptions, its docstring and `example`
    are the reference.

    `chooses`: each event leaves by one of its outputs, and which one depends on their breakers; so the sinks behind
    them stop it and not its sources, and it stops the sources itself. `needs_log`: without a log on disk upstream it
    rejects all.
    `whole`: it takes no event out of a block; what leaves is all of it, or parts in a row with their positions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    example: ClassVar[str]  # statements of a pipeline with the outputs out and err
    ports: ClassVar[Ports] = Ports(("in",), ("out",))
    families: ClassVar[Families] = {}  # what it counts
    chooses: ClassVar[bool] = False
    needs_log: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    def ports_used(self) -> Ports:
        """The ports of this very instance, where its configuration decides."""
        return self.ports

    def claims(self) -> Sequence[Claim]:
        """What it must have alone, as a connector's."""
        return ()

    def choice(self, source: str, sinks: str, operator: str) -> str:
        """For `walflow check`, of one that chooses: which of the sinks gets events of this source, and when."""
        raise NotImplementedError

    def stands_for(self) -> StandIn | None:
        """An operator that ends an ack domain is a connector within a pipeline, and is run as one."""
        return None

    def node(self, place: OperatorContext) -> Node:
        """What takes the events that come to it; a `Running`, if it has a life of its own."""
        raise NotImplementedError
