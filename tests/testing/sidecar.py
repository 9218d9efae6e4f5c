"""Lives of an output file and its sidecar: the power is cut at any operation, and each event is in the file once."""

from collections.abc import Callable, Hashable, Iterator
from random import Random
from typing import Final, Self

from connectors.file.appending import Appending
from connectors.file.output import Batch, CannotWrite
from connectors.file.ranges import Ranges
from walflow.testing.cuts import power_cut
from walflow.testing.disk import MemoryDisk, PowerCut, SimulatedDisk
from walflow.testing.judge import Broken
from walflow.testing.proof import USUAL, Effort, Story

PATH: Final = "/out.log"
LOG: Final = "of this log"


class FilePromises:
    """`events` by position, as they come from a log; those up to `cursor` do not come again. `acked`: by the sink.
    `twice`: those that may be there twice, since somebody renamed the file and walflow never heard of it."""

    def __init__(self) -> None:
        self.events: dict[int, bytes] = {}
        self.acked: set[int] = set()
        self.twice: set[int] = set()
        self.cursor = 0
        self.boots = 0

    @property
    def key(self) -> Hashable:
        return len(self.events), frozenset(self.acked), len(self.twice), self.cursor

    def copy(self) -> Self:
        other = type(self)()
        other.events = dict(self.events)
        other.acked = set(self.acked)
        other.twice = set(self.twice)
        other.cursor = self.cursor
        other.boots = self.boots
        return other

    def judge(self, disk: MemoryDisk) -> None:
        """After a power cut. What is not known to be in the file comes again."""
        self.boots += 1
        output = opened(disk, self.boots)
        self.intact(disk)
        self.deliver(output, [position for position in self.events if position > self.cursor])
        self.deliver(output, [self.append(b"fresh")])
        output.close()
        self.intact(disk)
        missing = self.events.keys() - self.acked
        if missing:
            raise Broken(f"event {min(missing)} was never acked")

    def append(self, body: bytes) -> int:
        position = len(self.events) + 1
        self.events[position] = b"%d %s\n" % (position, body)
        return position

    def deliver(self, output: Appending, positions: list[int]) -> None:
        """As the sink does: what is known is acked, the others are written together."""
        unknown = [position for position in positions if not is_known(output.known, position)]
        if unknown:
            batch = Batch(acked_below={LOG: self.cursor + 1})
            for position in unknown:
                batch.parts.append(self.events[position])
                batch.adds.add(LOG, position, position)
            output.write(batch)
        self.acked.update(positions)

    def intact(self, disk: MemoryDisk) -> None:
        """Every acked event is there, none twice, and nothing that is none."""
        lines = list(written(disk))
        there = set(lines)
        again = set() if len(there) == len(lines) else {line for line in there if lines.count(line) > 1}
        if again := again - {self.events[position] for position in self.twice}:
            raise Broken(f"{min(again)[:40]!r} is there twice")
        for position in self.acked:
            if self.events[position] not in there:
                raise Broken(f"event {position} was acked and is not in the file")
        if strange := there - set(self.events.values()):
            raise Broken(f"{min(strange)[:40]!r} is no event")


def opened(disk: MemoryDisk, boot: int) -> Appending:
    output = Appending(PATH, disk, sync=True, boot=lambda: f"boot {boot}")
    try:
        output.open()
    except (CannotWrite, OSError) as error:
        raise Broken(f"it does not open: {error}") from error
    return output


def is_known(known: Ranges, position: int) -> bool:
    return known.runs(LOG, position, position)[0].known


def written(disk: MemoryDisk) -> Iterator[bytes]:
    """The lines of the file, and of those it was renamed to."""
    for path in disk.sizes():
        if path == PATH or path.removeprefix(f"{PATH}.").isdigit():
            yield from disk.content(path).splitlines(keepends=True)


class Sidecar:
    """What its seed says: batches of all sizes, kills, rotation, a disk that is full."""

    def __init__(self, seed: int, steps: int = 25, effort: Effort = USUAL) -> None:
        self.name = f"sidecar {seed}"
        self.kind = "sidecar"
        self.disk = SimulatedDisk()
        self.effort = effort
        self.promises = FilePromises()
        self._dice = Random(seed)
        self._steps = steps
        self._output: Appending | None = None
        self._rotated = 0

    def live(self) -> None:
        acts = [self._write] * 6 + [self._trim] * 2 + [self._kill, self._close, self._rotate, self._fill, self._cut]
        for _ in range(self._steps):
            try:
                self._dice.choice(acts)()
            except (CannotWrite, OSError):
                self.disk.capacity = None  # the batch comes again
            except PowerCut:
                self._power_cut()

    def _opened(self) -> Appending:
        """What was not acked comes again, and so does what the log's cursor has not heard of."""
        if self._output is None:
            output = Appending(PATH, self.disk, sync=True, boot=lambda: f"boot {self.promises.boots}")
            output.open()
            self._output = output
            self._deliver(self.promises.cursor + 1)
        return self._output

    def _deliver(self, first: int) -> None:
        assert self._output is not None
        waiting = range(first, len(self.promises.events) + 1)
        self.promises.deliver(self._output, list(waiting))

    def _write(self) -> None:
        self._opened()
        for _ in range(self._dice.choice((1, 1, 2, 5))):
            size = self._dice.choice((0, 1, 20, 100, 500, 511, 512, 600, 1500, 4090, 5000))
            self.promises.append(bytes(self._dice.choices(b"abcdefgh", k=size)))
        self._deliver(min(self.promises.events.keys() - self.promises.acked))

    def _trim(self) -> None:
        """The log hears of what was acked, or of some of it."""
        if not self.promises.events.keys() - self.promises.acked:
            self.promises.cursor = self._dice.randint(self.promises.cursor, len(self.promises.events))

    def _kill(self) -> None:
        self.disk.after_kill(writeback_fails=False)
        self._gone()

    def _close(self) -> None:
        self._opened().close()
        self._gone()

    def _rotate(self) -> None:
        output = self._opened()
        self._rotated += 1
        before = set(self.promises.twice)
        self.promises.twice |= self.promises.acked
        self.disk.rename(PATH, f"{PATH}.{self._rotated}")
        output.reopen()
        self.promises.twice = before

    def _fill(self) -> None:
        self.disk.capacity = self.disk.used() + self._dice.choice((0, 300, 2000))

    def _cut(self) -> None:
        self.disk.operations_left = self._dice.randint(0, 8)

    def _power_cut(self) -> None:
        self.disk.capacity = None
        power_cut(self.disk, self._dice)
        self.promises.boots += 1
        self._gone()

    def _gone(self) -> None:
        self._output = None


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"sidecar": Sidecar}
