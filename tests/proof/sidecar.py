"""Lives of an output file and its sidecar, and of other processes at that file: the power is cut at any operation,
and each event is in the file once."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from random import Random
from typing import Final, Self

from connectors.file.appended_file import AppendedFile
from connectors.file.output import GRACE, CannotWrite, FileBatch
from tests.proof.judge import Broken
from tests.proof.proof import USUAL, Effort, Story
from walflow.disk import Landed
from walflow.positions import WrittenPositions
from walflow.testing.cuts import power_cut
from walflow.testing.disk import MemoryDisk, PowerCut, SimulatedDisk

PATH: Final = "/out.log"
LOG: Final = "of this log"


class FilePromises:
    """`events` by position, as they come from a log; those up to `cursor` do not come again. `acked`: by the sink.
    `twice`: those that may be there twice, since an editor put a copy in the file's place. `others`: lines that other
    processes appended and synced; the first `named` of them to a file whose name was synced too."""

    def __init__(self) -> None:
        self.events: dict[int, bytes] = {}
        self.acked: set[int] = set()
        self.twice: set[int] = set()
        self.others: list[bytes] = []
        self.named = 0
        self.cursor = 0
        self.boots = 0

    @property
    def key(self) -> Hashable:
        return len(self.events), frozenset(self.acked), len(self.twice), self.named, self.cursor

    def copy(self) -> Self:
        other = type(self)()
        other.events = dict(self.events)
        other.acked = set(self.acked)
        other.twice = set(self.twice)
        other.others = list(self.others)
        other.named = self.named
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

    def deliver(self, output: AppendedFile, positions: list[int]) -> None:
        """As the sink does: what is known is acked, the others are written together."""
        unknown = [position for position in positions if not is_known(output.known, position)]
        if unknown:
            batch = FileBatch(acked_below={LOG: self.cursor + 1})
            for position in unknown:
                batch.parts.append(self.events[position])
                batch.adds.add(LOG, position, position)
            output.write(batch)
        self.acked.update(positions)

    def intact(self, disk: MemoryDisk) -> None:
        """Every acked event is there, none twice, and nothing that is none; and every line of others somewhere."""
        theirs = set(self.others)
        named = set(self.others[: self.named])
        if named and (gone := named.difference(*(lines_of(disk, path) for path in disk.sizes()))):
            raise Broken(f"{min(gone)!r} of another process is gone")
        lines = [line for line in written(disk) if line not in theirs]
        there = set(lines)
        again = set() if len(there) == len(lines) else {line for line in there if lines.count(line) > 1}
        if again := again - {self.events[position] for position in self.twice}:
            raise Broken(f"{min(again)[:40]!r} is there twice")
        for position in self.acked:
            if self.events[position] not in there:
                raise Broken(f"event {position} was acked and is not in the file")
        if strange := there - set(self.events.values()):
            raise Broken(f"{min(strange)[:40]!r} is no event")


def opened(disk: MemoryDisk, boot: int) -> AppendedFile:
    output = AppendedFile(PATH, disk, sync=True, boot=lambda: f"boot {boot}")
    try:
        output.open()
    except (CannotWrite, OSError) as error:
        raise Broken(f"it does not open: {error}") from error
    return output


def is_known(known: WrittenPositions, position: int) -> bool:
    return known.runs(LOG, position, position)[0].known


def written(disk: MemoryDisk) -> Iterator[bytes]:
    """The lines of the file, and of those it was renamed to."""
    for path in disk.sizes():
        if path == PATH or path.removeprefix(f"{PATH}.").isdigit():
            yield from lines_of(disk, path)


def lines_of(disk: MemoryDisk, path: str) -> list[bytes]:
    return disk.content(path).splitlines(keepends=True)


class SharedDisk(SimulatedDisk):
    """Another process gets in right before a batch."""

    def __init__(self) -> None:
        self.others: Callable[[], None] | None = None
        super().__init__()

    def append(self, fd: int, parts: Sequence[bytes]) -> Landed:
        others, self.others = self.others, None
        if others is not None:
            others()
        return super().append(fd, parts)


class Sidecar:
    """What its seed says: batches of all sizes, kills, a disk that is full; the file is renamed, edited and appended
    to by others, with walflow's knowledge and without."""

    def __init__(self, seed: int, steps: int = 25, effort: Effort = USUAL) -> None:
        self.name = f"sidecar {seed}"
        self.kind = "sidecar"
        self.disk = SharedDisk()
        self.effort = effort
        self.promises = FilePromises()
        self._dice = Random(seed)
        self._steps = steps
        self._output: AppendedFile | None = None
        self._rotated = 0
        self._now = 0.0

    def live(self) -> None:
        acts = [self._write] * 6 + [self._trim] * 2 + [self._kill, self._close, self._rotate, self._fill, self._cut]
        acts += [self._rename, self._edit, self._append_theirs, self._append_theirs_later]
        for _ in range(self._steps):
            try:
                self._dice.choice(acts)()
            except (CannotWrite, OSError):
                self.disk.capacity = None  # the batch comes again
            except PowerCut:
                self._power_cut()

    def _opened(self) -> AppendedFile:
        """What was not acked comes again, and so does what the log's cursor has not heard of."""
        if self._output is None:
            output = AppendedFile(PATH, self.disk, sync=True, boot=self._boot, clock=self._time)
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

    def _boot(self) -> str:
        return f"boot {self.promises.boots}"

    def _time(self) -> float:
        return self._now

    def _rotate(self) -> None:
        output = self._opened()
        self._rename()
        output.reopen()

    def _rename(self) -> None:
        """And walflow does not hear of it, while it runs or while it does not."""
        if not self.disk.is_file(PATH):
            return
        self._rotated += 1
        self._now += self._dice.choice((0, GRACE))
        self.disk.rename(PATH, f"{PATH}.{self._rotated}")
        if self._dice.random() < 0.5:
            self.disk.close(self.disk.open(PATH, create=True))

    def _edit(self) -> None:
        """As `sed -i` does; half of the time it is over before the next batch, else walflow is killed first."""
        output = self._opened()
        if not self.disk.is_file(PATH) or self.promises.events.keys() - self.promises.acked or output._torn:
            return
        # those are in the copy; a walflow that was killed does not find the file that it knew
        self.promises.twice |= {position for position in self.promises.events if position > self.promises.cursor}
        content = self.disk.content(PATH)
        new = self.disk.open(f"{PATH}.new", create=True)
        self.disk.truncate(new, 0)
        self.disk.write(new, [content], 0)
        self.disk.sync(new)
        self.disk.close(new)
        self.disk.rename(f"{PATH}.new", PATH)
        if self._dice.random() < 0.5:
            self._kill()

    def _append_theirs(self) -> None:
        """One write that is on disk at once, and all that was in the file before with it."""
        inode = self.disk.inodes.get(PATH)
        if inode is None or inode.data is None or self.disk.capacity is not None:
            return
        line = b"theirs %d %s\n" % (len(self.promises.others), b"t" * self._dice.choice((0, 30, 600, 5000)))
        self.promises.others.append(line)
        self.disk._put(inode, line, len(inode.data))
        inode.sync()
        self.disk.sync_directory("/")
        self.promises.named = len(self.promises.others)

    def _append_theirs_later(self) -> None:
        self.disk.others = self._append_theirs

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
