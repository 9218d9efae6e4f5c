"""What a sender has in hand: positions of a source of events, and where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from walflow.event import Block
from walflow.outage import NO_BLAME, Blame
from walflow.receipt import Delivered, Receipt

S = TypeVar("S")


class SendLimits(NamedTuple):
    """`events`: how many may be sent and not settled; None: no limit but the outlet's window. `attempts`: how many
    counted failures a single event may have before it is rejected; None: no limit. `letters`: the sinks that keep
    what is rejected, and so what is given up."""

    events: int | None = None
    attempts: int | None = None
    letters: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class InFlight(Generic[S]):
    """Positions `first` to `last` of a source of events."""

    first: int
    last: int
    source: S
    size: int = 0  # bytes, once it was sent
    sent: int = 0  # how many outcomes there were as it was sent last
    delivered: Delivered | None = None  # who has which of them
    failures: int = 0  # in a row, of these events in a block of this size
    blame: Blame = NO_BLAME  # since it failed
    failed_at: float = 0.0  # for the first time
    proven: bool = False  # its sink has taken others while it failed: it is not, or not only, an outage
    halved: bool = False
    untried: bool = False  # since it was cut out of a larger part
    shared: bool = False  # it failed with others for one reason: it goes again apart from what has failed
    alone: bool = False  # it goes with nothing else under way, so that its failure says that it is to blame
    holds: bool = False  # newer events wait until it was tried again; what failed once, or because its peer was away
    due: float = 0.0
    sinks: frozenset[str] = frozenset()  # that failed it last
    sink: str = ""  # the same, for people
    failed_by: frozenset[str] = frozenset()  # the same, with the ways to them
    cause: str = ""
    verdict: str = ""  # why it is rejected and not sent
    kept: bool = False  # its sinks are told to reject it, because they keep that
    told: Mapping[str, object] | None = None  # what its error record says beside that

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def cut(self, count: int) -> "tuple[InFlight[S], InFlight[S]]":
        """Of what was not sent yet: its first `count` events (fewer than it has), and the rest."""
        middle = self.first + count
        return InFlight(self.first, middle - 1, self.source), InFlight(middle, self.last, self.source)


class Supply(Protocol[S]):
    """Whose events are sent."""

    def fill(self) -> bool:
        """Adds parts to `Sender.ready` if it has none. False: there is nothing to send now."""
        ...

    def block(self, part: InFlight[S], receipt: Receipt) -> Block | None:
        """`part.size` is set. None: these events are not sent, and the supply has said why; the receipt is
        withdrawn."""
        ...

    def cut(self, part: InFlight[S], first: int, last: int) -> S:
        """A source with these events of the part alone, so that the rest of what they came with need not be kept."""
        ...

    def sent(self, part: InFlight[S]) -> None:
        """It is about to be sent, or rejected."""
        ...

    def returned(self, part: InFlight[S]) -> None:
        """It has an outcome, whichever; or it was not sent after all."""
        ...

    def acked(self, part: InFlight[S], first: int, last: int) -> None:
        """They are settled: delivered, or rejected and their error records delivered."""
        ...

    def failed(self, part: InFlight[S], first: int, last: int) -> None:
        """They will be sent again. Called before `cut`."""
        ...

    def given_up(self, part: InFlight[S]) -> None:
        """It is rejected."""
        ...

    def is_held_up(self, events: int, *, passed: bool) -> bool:
        """Whether newer events wait for room that these hold, which are all that is left, and which others have
        passed: in this run (`passed`), or as far as it has kept."""
        ...

    def place(self, part: InFlight[S]) -> str:
        """Where the event came from, for the reason in its error record; "" if nothing is known."""
        ...
