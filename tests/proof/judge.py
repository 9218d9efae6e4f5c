"""Whether a log holds what it promised: it is opened on whatever a power cut, a kill or a damage has left, and must
deliver all that was promised, as it was appended, and nothing else; say what it found; stay in its budget; go on."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, Self

from walflow.errors import WalflowError
from walflow.testing.disk import Kept, MemoryDisk, digest, parent
from walflow.wal import Commit, Log, LogOptions, Reader
from walflow.wal.format import SLOT, unpack_slot

EVERYTHING: Final = 1 << 40
FRESH: Final = (b"fresh", b"", b"and again" * 9)

OpenLog = Callable[[LogOptions, MemoryDisk], Log]


class Broken(AssertionError):
    """Which promise, and how it was broken."""


class Promises(Protocol):
    """What one story has promised so far. `key` is another one whenever something else is to be expected of a
    disk. `judge` opens what is on a disk, and raises Broken; what it then promises itself it adds to its own."""

    @property
    def key(self) -> Hashable: ...
    def copy(self) -> Self: ...
    def judge(self, disk: MemoryDisk) -> None: ...


class Appended(NamedTuple):
    """One record as it was appended."""

    positions: int
    tag: bytes
    payload: bytes


class LogPromises:
    """`appended` by first position: what was given it last. `promised`: positions that were committed or delivered,
    and not acked. `told`: that were delivered and never committed, or that the disk failed to write; one may be gone,
    and is then reported.
    `done`: that were acked; those the cursor has not heard of may come again. `damaged`: bytes that
    were synced have changed, so a loss may be, and must be reported. `unsafe`, of a relaxed log: what is committed
    and not synced, and may be lost, but must not be given out again. `skipped` by the operator: what of them does not
    come is kept and reported. `noted`: up to there the cursor says what was durable, so what is missing is reported
    though the newest file vanish. `noted_twice`: both of its slots say it. A start writes the newer slot anew, and a
    cut may garble it then: the older one counts."""

    def __init__(self, options: LogOptions, open_log: OpenLog = Log) -> None:
        self.options = options
        self.open_log = open_log
        self.appended: dict[int, Appended] = {}
        self.promised: set[int] = set()
        self.told: set[int] = set()
        self.done: set[int] = set()
        self.unsafe: set[int] = set()
        self.skipped: set[int] = set()
        self.noted = self.noted_twice = 0
        self.starting = False
        self.newest_lost = False
        self.damaged = False
        self.bad_from: Mapping[str, int] = {}  # as the disk's
        self.judged_without: set[Hashable] = set()  # what was left of a disk without its newest file; of all copies
        self._key: Hashable = None

    def another(self) -> Self:
        """Of the same log, that has promised nothing."""
        return type(self)(self.options, self.open_log)

    def copy(self) -> Self:
        other = self.another()
        other.appended = dict(self.appended)
        other.promised = set(self.promised)
        other.told = set(self.told)
        other.done = set(self.done)
        other.unsafe = set(self.unsafe)
        other.skipped = set(self.skipped)
        other.noted, other.noted_twice = self.noted, self.noted_twice
        other.starting, other.newest_lost = self.starting, self.newest_lost
        other.damaged = self.damaged
        other.bad_from = self.bad_from
        other.judged_without = self.judged_without
        other._key = self._key
        return other

    @property
    def key(self) -> Hashable:
        if self._key is None:
            positions = map(frozenset, (self.promised, self.told, self.done, self.unsafe, self.skipped))
            noted = self.noted, self.noted_twice, self.starting
            self._key = hash((*positions, noted, tuple(self.appended.items())))
        return self._key

    # what happens

    def append(self, log: Log, tag: bytes, payload: bytes, positions: int = 1) -> int:
        first = log.append(tag, payload, positions, log.next * 3 % 7)  # the clock is set back now and then
        given = set(range(first, first + positions)) & (self.done | self.promised | self.unsafe)
        if given:
            raise Broken(f"position {min(given)} is given out again")
        self.heard(first, positions, tag, payload)
        return first

    def heard(self, first: int, positions: int, tag: bytes, payload: bytes) -> None:
        """It was appended, whoever did it."""
        self.appended[first] = Appended(positions, tag, payload)
        self._key = None

    def committed(self, log: Log, commit: Commit) -> None:
        for record, _, _ in commit.entries:
            self.unsafe.update(range(record.position, record.position + record.count))
        self.synced(log)

    def synced(self, log: Log) -> None:
        """Up to there the machine may die; a log that is not relaxed commits nothing else."""
        synced = {position for position in self.unsafe if position <= log.synced_up_to}
        self.unsafe -= synced
        self.promised |= synced
        self._key = None

    def note(self, position: int) -> None:
        """A cursor that was synced says that all up to there was durable."""
        self.noted = max(self.noted, position)
        self._key = None

    def ack(self, log: Log, first: int, last: int) -> None:
        log.ack(first, last)
        acked = {position for position in self.promised | self.unsafe if first <= position <= last}
        self.promised -= acked
        self.unsafe -= acked
        self.done |= acked
        self._key = None

    def skip(self, first: int, last: int) -> None:
        """From now on they are there, or else kept."""
        skipped = {position for position in self.promised if first <= position <= last}
        self.promised -= skipped
        self.done |= skipped
        self.skipped |= skipped
        self._key = None

    def lost_in_the_cache(self) -> None:
        """The disk failed to write what was never synced, and the cache has it still: the next start may find it,
        note that it was there, and lose it with the power all the same."""
        appended = positions((first, first + what.positions - 1) for first, what in self.appended.items())
        self.told |= appended - self.promised - self.done
        self._key = None

    # what must be

    def judge(self, disk: MemoryDisk) -> None:
        disk.bad_from = self.bad_from
        self._heed_the_cursor(disk)
        if self.noted and not self.damaged:
            self._judge_without_the_newest(disk)
        log, _ = self.reopen(disk)
        try:
            self._goes_on(log, disk)
        finally:
            log.abandon()

    def _judge_without_the_newest(self, disk: MemoryDisk) -> None:
        """A copy of the disk, on which the newest file has vanished too, or is empty: now this, now that. Images that
        differ by that file alone are one image then."""
        emptied = len(self.promised) % 2 == 1
        left = without_the_newest(disk.snapshot(), self.options.path, emptied=emptied)
        other = self.copy()
        other.lose_the_newest()
        files = digest((path, kept.data or b"") for path, kept in left.items())
        what = files, other.key, tuple(self.bad_from.items())
        if what in self.judged_without:
            return
        self.judged_without.add(what)
        copy = MemoryDisk(left)
        copy.preallocates = disk.preallocates
        try:
            other.judge(copy)
        except Broken as broken:
            raise Broken(f"{broken} (its newest file is {'empty' if emptied else 'gone'})") from broken

    def lose_the_newest(self) -> None:
        """Of what the cursor does not know no more is expected than that it is not altered."""
        self.damaged = self.newest_lost = True
        # An event that was being skipped may have gone with the file, before its bytes were kept.
        self.skipped.clear()
        for known in (self.promised, self.told, self.done, self.unsafe):
            known -= {position for position in known if position > self.noted}
        self._key = None

    def _heed_the_cursor(self, disk: MemoryDisk) -> None:
        """A start was cut: one slot may be garbled that was sound before."""
        if self.starting and self.noted > self.noted_twice and not has_both_slots(disk, self.options.path):
            self.noted = self.noted_twice
            if self.newest_lost:
                self.lose_the_newest()

    def reopen(self, disk: MemoryDisk, *, killed: bool = False) -> tuple[Log, Reader]:
        """The log, open, and a reader that has read everything. `killed`: the process was and the machine was not, so
        nothing that was written is lost."""
        self._heed_the_cursor(disk)
        self.starting = True
        self._key = None
        try:
            log = self.open_log(self.options, disk)
        except (WalflowError, OSError) as error:
            raise Broken(f"it does not open: {error}") from error
        try:
            reader = log.reader()
            found = self._delivered(reader)
            if killed and not self.unsafe <= found:
                raise Broken(f"position {min(self.unsafe - found)} is gone, and only the process was killed")
            self._check(log, disk, found)
        except BaseException:
            log.abandon()
            raise
        return log, reader

    def _delivered(self, reader: Reader) -> set[int]:
        found: set[int] = set()
        now = 0
        for position, count, tag, payload, ingest_ns in reader.read(EVERYTHING):
            if ingest_ns < now:
                raise Broken(f"position {position} came at {ingest_ns}, and one before it at {now}")
            now = ingest_ns
            expected = self.appended.get(position)
            if expected is None:
                raise Broken(f"position {position} was never appended")
            if expected != (count, tag, payload):
                raise Broken(f"position {position} is not what was appended")
            if position in found:
                raise Broken(f"position {position} comes twice")
            found.update(range(position, position + count))
        return found

    def _check(self, log: Log, disk: MemoryDisk, found: set[int]) -> None:
        missing = self.promised - found
        excused = missing if self.damaged else missing & self.told
        if missing and (missing := missing - (excused & reported(log, disk))):
            raise Broken(f"{len(missing)} promised events are gone, the first at position {min(missing)}: {log}")
        self._kept(log, disk, self.skipped - found)
        lost = positions((gap.first, gap.last) for gap in log.gaps)
        allowed = self.damaged or (log.relaxed and lost.isdisjoint(self.promised)) or lost <= self.told
        if lost and not allowed:
            raise Broken(f"nothing was lost, and it says: {log.gaps[0]}")
        if not lost.isdisjoint(found):
            raise Broken(f"position {min(lost & found)} is called lost, and is delivered")
        self._says_what_is(log, disk, found)
        given = self.promised | self.unsafe | self.done | found
        if log.next <= max(given, default=0):
            raise Broken(f"position {log.next} is the next, and {max(given)} was given out before")
        self._expect(log, found)

    def _kept(self, log: Log, disk: MemoryDisk, skipped: set[int]) -> None:
        if not skipped:
            return
        if skipped - reported(log, disk):
            raise Broken(f"position {min(skipped - reported(log, disk))} was skipped, and no report says so")
        folder = f"{log.directory.path}/quarantine"
        bytes_kept = [disk.content(f"{folder}/{name}") for name in disk.names(folder) if name.endswith(".bytes")]
        for first, (count, _, payload) in self.appended.items():
            if not skipped.isdisjoint(range(first, first + count)) and not any(payload in one for one in bytes_kept):
                raise Broken(f"position {first} was skipped, and its bytes are not kept")

    def _says_what_is(self, log: Log, disk: MemoryDisk, found: set[int]) -> None:
        within_budget(log, disk)
        unacked = log.unacked(1, log.durable)
        backlog = sum(last - first + 1 for first, last in unacked)
        if backlog > len(found) or not positions(unacked) <= found:
            raise Broken(f"of positions {unacked} some are neither delivered nor acked nor called lost")
        if not log.gaps and not self._is_backlog(log, backlog):
            raise Broken(f"it says that {log.recovery.backlog} events will be delivered, and delivers {backlog}")

    def _is_backlog(self, log: Log, events: int) -> bool:
        """Whether it said so when it was opened."""
        return log.recovery.backlog == events

    def _expect(self, log: Log, found: set[int]) -> None:
        """What was delivered once must not be gone after the next cut. What was cut may be given out again."""
        self.done -= self.skipped & found
        self.skipped -= found
        self.told = (found - self.promised - self.unsafe | self.told & found) - self.done
        self.promised = found - self.done
        self.unsafe.clear()
        self.noted = self.noted_twice = log.durable
        self.starting = False
        self.appended = {first: what for first, what in self.appended.items() if first <= log.durable}
        self._key = None

    def _goes_on(self, log: Log, disk: MemoryDisk) -> None:
        """Fresh events are taken and delivered."""
        if not log.fits(0, 200):
            self.ack(log, 1, log.durable)
            checkpoint(log)
        reader = log.reader(log.next)
        fresh = [self.append(log, b"", payload) for payload in FRESH if log.fits(0, len(payload))]
        if not fresh:
            raise Broken(f"it takes no events: {log}")
        commit_all(log, self)
        if [record.position for record in reader.read(EVERYTHING)] != fresh:
            raise Broken(f"fresh events are not delivered: {log}")
        within_budget(log, disk)


def reported(log: Log, disk: MemoryDisk) -> set[int]:
    """Positions that were called lost, now or before: the reports stay."""
    lost = [(gap.first, gap.last) for gap in log.gaps]
    folder = f"{log.directory.path}/quarantine"
    for name in disk.names(folder):
        if name.endswith(".json"):
            report = json.loads(disk.content(f"{folder}/{name}"))
            lost.append((report["first"], report["last"]))
    return positions(lost)


def has_both_slots(disk: MemoryDisk, path: str) -> bool:
    cursor = disk.content(f"{path}/cursor") if disk.is_file(f"{path}/cursor") else b""
    return all(unpack_slot(cursor[at : at + SLOT]) is not None for at in (0, SLOT))


def without_the_newest(files: Mapping[str, Kept], path: str, *, emptied: bool) -> dict[str, Kept]:
    """The files of a log but for the chunk with the highest first position."""
    left = dict(files)
    chunks = [name for name in files if name.endswith(".wal") and parent(name) == path]
    if chunks:
        newest = left.pop(max(chunks))
        if emptied:
            left[max(chunks)] = newest._replace(data=b"")
    return left


def within_budget(log: Log, disk: MemoryDisk) -> None:
    on_disk, used = charged(disk, log.directory.path) - log.history.bytes, log.used  # a history has its own bound
    if any("no `retain`" in note.what for note in log.recovery.notes):  # what was kept goes with the next checkpoint
        kept = sum(chunk.capacity for chunk in log.chunks if chunk.last <= log.low)
        on_disk, used = on_disk - kept, used - kept
    # A relaxed log does not sync the cut of a chunk that made room, so it may have its size back after a power cut.
    # It was cut for want of room for the next record, so by less than that one has: together, by less than all
    # records.
    cuts = log.relaxed and disk.preallocates
    bound = 2 * log.budget - 1 if cuts else log.budget
    if max(on_disk, used) > bound:
        raise Broken(f"{on_disk} bytes are on disk: {log}")


def charged(disk: MemoryDisk, path: str) -> int:
    """Bytes of chunks and spares in that directory."""
    end = len(path)
    return sum(
        [
            len(inode.data)
            for name, inode in disk.inodes.items()
            if (name.endswith(".wal") or name.startswith("spare.", end + 1))
            and name.rfind("/") == end
            and inode.data is not None
        ]
    )


def commit_all(log: Log, promises: LogPromises) -> None:
    while (commit := log.commit()) is not None:
        commit.flush()
        log.committed(commit)
        promises.committed(log, commit)


def checkpoint(log: Log, *, force: bool = False) -> None:
    one = log.checkpoint(force=force)
    if one is not None:
        one.flush()
        log.checkpointed(one)


def positions(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {at for first, last in ranges for at in range(first, last + 1)}
