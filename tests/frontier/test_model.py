"""Writers, copies of their log, and a receiver, with every crash and every lost answer between two steps."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Final

from hypothesis import event, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from tests.examples import examples
from tests.frontier.world import LogDirectory, Receiver, Transaction, World, Writer
from walflow.frontier import Accepts

CHOICES: Final[Sequence[Accepts]] = ("resend", "keep")
LIMIT = 200  # steps until a writer that nothing disturbs writes, or is refused


class FrontierModel(RuleBasedStateMachine):
    """A directory has one process at most: its lock says so. Copies of it have their own."""

    directories = Bundle("directories")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.writers: dict[int, Writer] = {}
        self.kept: Receiver | None = None  # a backup of the receiver
        self.all: list[LogDirectory] = []
        self.delivered: set[int] = set()  # events that some log will not send again

    @property
    def receiver(self) -> Receiver:
        return self.world.receiver

    @initialize(target=directories, events=st.integers(0, 5), relaxed=st.booleans())
    def make(self, events: int, relaxed: bool) -> LogDirectory:
        directory = LogDirectory(self.world.term(), relaxed=relaxed)
        self.all.append(directory)
        for _ in range(events):
            directory.append(self.world.event())
        return directory

    @rule(target=directories, of=directories)
    @precondition(lambda self: len(self.all) < 4)
    def copy(self, of: LogDirectory) -> LogDirectory:
        """Of a directory in use, too: a snapshot of the volume."""
        directory = of.copied(self.world.term())
        self.all.append(directory)
        return directory

    @rule(directory=directories, events=st.integers(1, 4))
    def append(self, directory: LogDirectory, events: int) -> None:
        for _ in range(events):
            directory.append(self.world.event())

    @rule(directory=directories)
    def recover(self, directory: LogDirectory) -> None:
        """The log is opened again."""
        self.writers.pop(id(directory), None)
        directory.term = self.world.term()

    @rule(directory=directories, events=st.integers(1, 4))
    def power_cut(self, directory: LogDirectory, events: int) -> None:
        """A relaxed log loses its last events."""
        self.writers.pop(id(directory), None)
        if directory.relaxed:
            directory.lose(events)
        directory.term = self.world.term()

    @rule(directory=directories, how=st.sampled_from(CHOICES))
    def accept(self, directory: LogDirectory, how: Accepts) -> None:
        """An operator, for the next start, once the sink was refused."""
        refusal = directory.keys.refusal
        writer = self.writers.get(id(directory))
        if refusal is None or (writer is not None and writer.end is None):
            return
        self.writers.pop(id(directory), None)
        if refusal.went_back == "receiver":
            directory.keys = replace(directory.keys, accepts=how)
            event(how)
            if how == "resend":
                forgotten = refusal.seen.forgotten if refusal.seen is not None else 0
                directory.acked = {position for position in directory.acked if position <= forgotten}
        else:
            event(refusal.went_back)
            directory.keys = replace(directory.keys, accepts="log" if refusal.went_back == "log" else "", takes=True)

    @rule(directory=directories, blocks=st.integers(0, 6))
    def serve(self, directory: LogDirectory, blocks: int) -> None:
        """A day on which nothing goes wrong."""
        self.start(directory)
        writer = self.writers[id(directory)]
        for _ in range(LIMIT):
            if writer.step is not None:
                writer.advance()
        for _ in range(blocks):
            self.deliver(directory, 0, 4, "answered", told=True)

    @rule(directory=directories)
    def delete(self, directory: LogDirectory) -> None:
        """Chunks of which all is acked."""
        for term, (first, last) in directory.view().spans.items():
            if last <= directory.low and term != directory.term:
                for position in range(first, last + 1):
                    directory.places.pop(position, None)

    @rule(directory=directories)
    def start(self, directory: LogDirectory) -> None:
        if id(directory) not in self.writers:
            self.writers[id(directory)] = Writer(directory, self.receiver, self.world)

    @rule(directory=directories, steps=st.integers(1, 8), lands=st.booleans())
    def go(self, directory: LogDirectory, steps: int, lands: bool) -> None:
        self.world.lands = lands
        writer = self.writers.get(id(directory))
        for _ in range(steps):
            if writer is not None and writer.step is not None:
                writer.advance()

    @rule(directory=directories, performed=st.booleans())
    def crash(self, directory: LogDirectory, performed: bool) -> None:
        """`performed`: the step that it was at is done, and the answer is lost."""
        writer = self.writers.pop(id(directory), None)
        if performed and writer is not None and writer.step is not None:
            writer.advance()

    @rule(
        directory=directories,
        at=st.integers(0, 5),
        size=st.integers(1, 4),
        how=st.sampled_from(["answered", "landed", "died", "late"]),
        told=st.booleans(),
    )
    def deliver(self, directory: LogDirectory, at: int, size: int, how: str, told: bool) -> None:
        """Some unacked events, in any order of blocks.
        `told`: what is confirmed gets to the disk before the next crash."""
        writer = self.writers.get(id(directory))
        unacked = directory.unacked()
        if writer is None or writer.taken is None or writer.unsure or at >= len(unacked):
            return
        positions = [unacked[at]]
        for position in unacked[at + 1 : at + size]:
            if (
                position != positions[-1] + 1
                or directory.places[position].term != directory.places[positions[0]].term
            ):
                break
            positions.append(position)
        known, transaction = writer.parts(positions)
        for position in known:
            directory.acked.add(position)
            if not self.receiver.rows[directory.places[position].event]:  # it went back since the writer looked
                found = self.receiver.frontier
                assert found is None or found.lacks(writer.taken.keys.confirmed), "the writer will not notice"
            else:
                self.delivered.add(directory.places[position].event)
        if transaction is None:
            return
        if how == "late":
            if self.receiver.late is None:
                self.receiver.late = transaction
            writer.unsure = True
            return
        self.world.waits_for_late()
        if how == "died":
            writer.unsure = True
        elif how == "landed":
            self.receiver.land(transaction)
            writer.unsure = True
        else:
            self._committed(writer, transaction, told=told)

    def _committed(self, writer: Writer, transaction: Transaction, *, told: bool) -> None:
        if not self.receiver.land(transaction):
            writer.read_again()
            return
        assert writer.taken is not None
        assert self.receiver.frontier is not None
        writer.taken = writer.taken._replace(
            frontier=self.receiver.frontier, keys=writer.taken.keys.told(self.receiver.frontier)
        )
        if told:
            writer.directory.keys = writer.taken.keys
        for position in range(transaction.batch.first, transaction.batch.last + 1):
            self._acked(writer.directory, position)

    def _acked(self, directory: LogDirectory, position: int) -> None:
        directory.acked.add(position)
        self.delivered.add(directory.places[position].event)

    @rule(directory=directories, lands=st.booleans())
    def read_again(self, directory: LogDirectory, lands: bool) -> None:
        writer = self.writers.get(id(directory))
        if writer is not None and writer.taken is not None:
            self.world.lands = lands
            writer.read_again()

    @rule(lands=st.booleans())
    def late_commit(self, lands: bool) -> None:
        self.receiver.resolve(lands=lands)

    @rule(seconds=st.sampled_from([1.0, 30.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.world.time += seconds

    @rule()
    def back_up(self) -> None:
        self.kept = deepcopy(self.receiver)

    @rule()
    def restore(self) -> None:
        """The receiver goes back, or is emptied. Whoever had it confirm more is refused;
        what it does not have any more was lost by it, not by us."""
        if self.kept is None:
            self.kept = Receiver()
        self.receiver.frontier = self.kept.frontier
        self.receiver.rows = self.kept.rows.copy()
        self.receiver.late = None
        self.delivered &= set(self.receiver.rows)

    @invariant()
    def once(self) -> None:
        assert all(count == 1 for count in self.receiver.rows.values()), self.receiver.rows

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.delivered <= set(self.receiver.rows)

    @invariant()
    def within_its_bounds(self) -> None:
        assert self.receiver.frontier is None or self.receiver.frontier.within_bounds(0) is not None

    def teardown(self) -> None:
        """All is well again, and one directory is left, in use:
        its events are in the receiver once, or the sink says why it does not write."""
        self.receiver.resolve(lands=True)
        self.writers.clear()
        for directory in self.all:
            writer = Writer(directory, self.receiver, self.world)
            for _ in range(LIMIT):
                if writer.step is None:
                    break
                writer.advance()
            assert writer.step is None, f"it waits for ever: {writer.step}"
            if writer.taken is None:
                assert writer.end is not None
                continue
            while unacked := directory.unacked():
                before = len(unacked)
                self.writers[id(directory)] = writer
                self.deliver(directory, 0, 4, "answered", told=True)
                assert len(directory.unacked()) < before
            assert {place.event for place in directory.places.values()} <= {
                *self.receiver.rows,
                *self._lost(directory),
            }
            self.once()

    def _lost(self, directory: LogDirectory) -> set[int]:
        """What was acked before the receiver went back without its being noticed:
        what it had confirmed was not on disk yet."""
        return {place.event for at, place in directory.places.items() if at in directory.acked} - self.delivered


TestFrontierModel = FrontierModel.TestCase
TestFrontierModel.settings = settings(max_examples=examples(4000), stateful_step_count=40, deadline=None)
