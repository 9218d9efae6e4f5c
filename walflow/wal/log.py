"""The log: bytes at positions. They are on disk before they are acked, and deleted when all sinks have acked them.

One thread owns the log and calls everything but the two flushes. Work that blocks has three steps, so no lock is
needed and a test can stop between any two steps:

    position = log.append(tag, payload, count, ingest_ns)    the owner: a place in a chunk, nothing written
    commit = log.commit()                                    the owner: all that was appended
    commit.flush()                                           any thread: written and synced
    log.committed(commit)                                    the owner: durable, and readable from here on

and the same for acks: `ack`, `checkpoint`, `flush`, `checkpointed`; then space is free. All flushes but that of a
commit run one after the other, in the order in which they were begun.

In a relaxed log (`sync` is "interval" or "never"), "durable" means written: a record survives the death of the
process, but not of the machine. Records up to `synced_up_to` are synced too. `sync`, `flush`, `synced` advance it;
the owner decides when.

The budget limits all chunks and spares together (space.py).
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from walflow import world
from walflow.clock import Clocks
from walflow.disk import Disk
from walflow.errors import DiskFull, FailStop, LogFull, ReadFailed, Unusable
from walflow.wal.arrivals import UpstreamPositions
from walflow.wal.cache import Cache
from walflow.wal.chunk import Chunk, Pages
from walflow.wal.commit import COMMIT_BYTES, Commit, Sync
from walflow.wal.cursor import Checkpoint, CursorFile
from walflow.wal.directory import Directory
from walflow.wal.format import (
    BEGINS,
    CHECKSUM,
    CHUNK_START,
    MAX_COUNT,
    MAX_LENGTH,
    MAX_TAG,
    MODES,
    PADS,
    RECORD_HEADER,
    RECORD_START,
    RELAXED,
    SKIP,
    SYNC,
    SYNCED,
    ChunkHeader,
    Record,
    Slot,
    crc,
    pack_chunk_header,
    random_salt,
    record_size,
)
from walflow.wal.history import LogHistory
from walflow.wal.log_time import LogTime
from walflow.wal.mark_file import MarkFile
from walflow.wal.marks import Mark
from walflow.wal.opening.note import Note
from walflow.wal.opening.recovery import Recovery, recover, write_meta
from walflow.wal.quarantine import Gap, Losses
from walflow.wal.reader import Reader
from walflow.wal.space import Space
from walflow.wal.trail import DAMAGED, DROPPED, Trail
from walflow.wal.unsynced import Unsynced

BLOCK_CAP: Final = 256 << 10
WINDOW: Final = 8 << 20

_pack_header = RECORD_HEADER.pack
_pack_checksum = CHECKSUM.pack


class LogOptions(NamedTuple):
    """`chunk_size` is the size after which a new chunk begins, not a limit for a record. Together with `max_chunks`
    it is the budget: chunks and spares on disk never have more bytes. `cache_bytes` limits the newest records in
    memory.
    `sync`: whether a commit waits for the disk, a later `Log.sync` syncs it, or only the close of the log does.
    `retain_bytes`: how much of what is acked is kept beside the budget, the newest; 0: nothing. `retain_ns`: no
    longer than that; None: no limit. `gives_up`: what the disk cannot read is lost, because an operator has said
    so."""

    path: str
    chunk_size: int = 64 << 20
    max_chunks: int = 16
    cache_bytes: int = 8 << 20
    sync: Literal["always", "interval", "never"] = "always"
    gives_up: bool = False
    retain_bytes: int = 0
    retain_ns: int | None = None


class Dropped(NamedTuple):
    """A chunk that was dropped because the log was full. `events`: its positions that were not acked; `bytes`: their
    share of the chunk; `of_lanes`: of several lanes, how many of its positions each had not acked."""

    first: int
    last: int
    events: int
    bytes: int
    of_lanes: Sequence[int] = ()


class Log:
    """Raises DirectoryLocked if a process has it, Unusable if its files are not what they must be."""

    def __init__(self, options: LogOptions, disk: Disk | None = None, clock: Clocks | None = None) -> None:
        if options.chunk_size < 1024 or options.max_chunks < 1:
            raise ValueError(f"a log needs chunks of at least 1024 bytes, and one of them: {options}")
        self.disk: Disk = disk or world.disk()
        self.clock: Clocks = clock or world.clocks()
        self.directory = Directory(options.path, self.disk, gives_up=options.gives_up)
        self.space = Space(options.chunk_size, options.max_chunks, preallocates=self.disk.preallocates)
        self.budget = self.space.budget
        self.max_record = min((self.budget & ~7) - CHUNK_START - RECORD_START, MAX_LENGTH)
        self.block_cap = min(BLOCK_CAP, self.budget // 16)
        self.window = min(WINDOW, self.budget // 4)
        self.cache = Cache(options.cache_bytes)
        self.history = LogHistory(options.retain_bytes, options.retain_ns)
        self._unsynced = Unsynced(self.directory, MODES[options.sync])
        self.relaxed = self._unsynced.relaxed
        self._readers: list[Reader] = []
        self._queue: deque[Commit] = deque()
        self._open: Commit | None = None  # the last of the queue, while it takes records
        self._flying: Commit | None = None
        self._closing = self._closed = False
        self._start()

    def _start(self) -> None:
        found = recover(self.directory)
        self._uuid = found.uuid
        self._cursor = CursorFile(self.directory, found.cursor, found.uuid, found.generation)
        self.recovery: Recovery = found.recovery
        # the first of the records found at the start that a power cut may take: the disk had failed to write them,
        # and had no room for a copy. They are delivered; a source must not be told that the log has them
        self.unsafe_from = found.unsafe_from
        self.acked = found.acked
        self.durable = found.durable
        self._unsynced.up_to = found.durable
        self.next = found.durable + 1
        hole = found.durable - found.chunks[-1].last if found.chunks else 0
        self._skipped = hole if hole <= MAX_COUNT else 0  # to be told by the next chunk's header
        self.dropped_events, self.dropped_bytes = found.dropped
        self.chunks = found.chunks
        self._number = found.commit
        self.time = LogTime(self.clock, found.last_ns)
        self._tail: Chunk | None = None  # recovery leaves nothing to append to
        if self.chunks:
            self.chunks[-1].until_ns = found.last_ns
        self.space.occupy(self.chunks)
        self._losses: Losses = found.losses
        self._mark_file = MarkFile(self.directory, self._uuid)
        self._arrivals = UpstreamPositions(self.directory, self._uuid)
        self.trail = Trail(self.directory, self._uuid, self.clock)
        self._remembers = False
        self._unread = True
        try:
            self._say_history(said=found.history)
            self._keep(self._acked_chunks())
            self._mark_file.read(found.known)
            self._arrivals.read(found.known)
            self._read_trail()
            if not found.settled or self.relaxed:
                # Durable before the next commit is, for that would prove that what was torn had been promised.
                self._write_cursor()
        except ReadFailed as error:
            self.abandon()
            raise Unusable(str(error)) from error
        except BaseException:
            self.abandon()
            raise

    def _read_trail(self) -> None:
        self.trail.read(self.durable)
        if self.trail.broken:
            what = f"cannot be read, and is left as it is: {self.trail.broken}"
            self.recovery.notes.append(Note("trail", what, damage=False, stays=True))
        for gap in self._losses.gaps:
            self.trail.gone("", DAMAGED, gap.first, gap.last)

    def _say_history(self, *, said: bool) -> None:
        """Before anything is kept, and once nothing is: an older walflow deletes what is acked."""
        has = self.history.keeps or any(chunk.last <= self.low for chunk in self.chunks)
        if self.history.keeps and not said:
            try:
                write_meta(self.directory, self._uuid, history=True)
            except DiskFull:  # then nothing is kept, until the next start
                self.history = LogHistory(0, None)
        elif said and has and not self.history.keeps:
            what = "keeps what is acked, and nothing is to be kept any more (no `retain`): that is deleted"
            self.recovery.notes.append(Note("", what, damage=False))
        elif said and not has:
            with suppress(DiskFull):
                write_meta(self.directory, self._uuid)

    def __repr__(self) -> str:
        return (
            f"<Log {self.directory.path!r} acked {self.low} durable {self.durable} next {self.next}, "
            f"{len(self.chunks)} chunks, {self.used} of {self.budget} bytes>"
        )

    @property
    def uuid(self) -> str:
        return self._uuid.hex()

    @property
    def path(self) -> str:
        return self.directory.path

    @property
    def failure(self) -> FailStop | None:
        """The error after which nothing can be written, if there is one; also one of a close."""
        return self.directory.failure

    @property
    def used(self) -> int:
        """Bytes that count in the budget, with spares."""
        return self.space.used

    @property
    def low(self) -> int:
        """All positions up to this one are acked."""
        return self.acked.low

    @property
    def synced_up_to(self) -> int:
        """All positions up to this one are synced: a power cut cannot take them."""
        return self._unsynced.up_to if self.relaxed else self.durable

    @property
    def gaps(self) -> list[Gap]:
        """Losses found when it was opened, and since then."""
        return self._losses.gaps

    @property
    def fill(self) -> float:
        """The share of the budget that records take, 0 to 1."""
        return self.space.fill(self._tail)

    # Writing

    def fits(self, tag_bytes: int, payload_bytes: int) -> bool:
        """Whether a record of that size may be appended now."""
        length = tag_bytes + payload_bytes
        return length <= self.max_record and self.space.fits(record_size(length), self._tail)

    def append(self, tag: bytes, payload: bytes, count: int, ingest_ns: int, ref: object = None) -> int:
        """Appends a record and returns its first position. Raises LogFull: nothing was written; ack some positions,
        write a checkpoint, append again. The stamp is that of log time (log_time.py): never older than the one before
        it, also when the clock went back between two starts, because windows are closed by these stamps."""
        if len(tag) > MAX_TAG or not 0 < count <= MAX_COUNT:
            raise ValueError(f"no record can have {count} positions and a tag of {len(tag)} bytes")
        length = len(tag) + len(payload)
        size = record_size(length)
        chunk = self._tail
        roll = chunk is None or chunk.end + size > chunk.capacity
        if roll and not self.fits(len(tag), len(payload)):
            raise LogFull(f"{length} bytes do not fit: {self.used} of {self.budget} bytes are used")
        commit = self._open
        if commit is None or commit.size >= COMMIT_BYTES:
            commit = self._begin_commit()
        if chunk is None or roll:
            chunk = self._begin_chunk(size, commit)
        part = commit.parts[-1] if commit.parts else None
        if part is None or part.chunk is not chunk:
            part = commit.begin_part(chunk)
        seed = chunk.seed
        position = self.next
        time = self.time
        if time.lead_ns or ingest_ns < time.last_ns:
            ingest_ns = time.stamp(ingest_ns)
        else:
            time.last_ns = ingest_ns
        if roll:
            chunk.since_ns = ingest_ns
        body_crc = crc(crc(seed, tag), payload)
        header = _pack_header(SYNC, length, position, ingest_ns, commit.number, count, 0, len(tag), body_crc)
        slices = part.slices
        part.head = len(slices)
        head = header + _pack_checksum(crc(seed, header)) + tag
        slices += (head, payload, PADS[length & 7]) if length & 7 else (head, payload)
        chunk.end = end = chunk.end + size
        self.next = after = position + count
        chunk.last = commit.last = after - 1
        commit.size += size
        commit.entries.append((Record(position, count, tag, payload, ingest_ns), chunk, end))
        commit.refs.append(ref)
        return position

    def commit(self) -> Commit | None:
        """A commit of all appended records, up to a few MiB.
        None: no record waits, or a commit is running already."""
        if self._flying is not None or not self._queue:
            return None
        self._flying = commit = self._queue.popleft()
        if commit is self._open:
            self._close_commit()
        self._unsynced.slow_down(commit, self.chunks)
        return commit

    def pending(self) -> list[object]:
        """What came with the records that were appended and are not handed back as durable, in their order."""
        flying = [self._flying] if self._flying is not None else []
        return [ref for commit in (*flying, *self._queue) for ref in commit.refs]

    def committed(self, commit: Commit) -> None:
        """Call it after the commit's flush: its records are durable (in a relaxed log: written), and may be read and
        acked."""
        if commit is not self._flying or not commit.flushed:
            raise ValueError(f"{commit!r} is not what was flushed")
        self._flying = None
        self.durable = commit.last
        for _, chunk, end in commit.entries:
            chunk.synced = end
        self.cache.put(commit.entries)
        self._unsynced.sealed(commit.sealed)
        if commit.overdue is not None:
            self._unsynced.ended(commit.overdue)
            self._close_full()

    def sync(self) -> Sync | None:
        """A sync of the records that are durable and not synced.
        None: there are none, or a sync is running already."""
        if self._unsynced.running is not None or self.synced_up_to >= self.durable:
            return None
        return self._unsynced.begin([chunk for chunk in self.chunks if chunk.synced], self.durable)

    def synced(self, sync: Sync) -> None:
        """Call it after the sync's flush."""
        if sync is not self._unsynced.running or not sync.flushed:
            raise ValueError(f"{sync!r} is not what was flushed")
        self._unsynced.running = None
        self._unsynced.ended(sync)
        self._close_full()

    def _close_full(self) -> None:
        """Closes none that a running flush may use."""
        if self._unsynced.running is None and (self._flying is None or self._flying.overdue is None):
            self._unsynced.close_full(self.low)

    def _begin_commit(self) -> Commit:
        if self._open is not None:
            self._close_commit()
        self.time.look()
        self._open = commit = Commit(
            self.directory, self._number, preallocate=self.space.preallocate, relaxed=self.relaxed
        )
        self._number += 1
        self._queue.append(commit)
        return commit

    def _close_commit(self) -> None:
        assert self._open is not None
        self._open.seal()
        self._open = None

    def _begin_chunk(self, size: int, commit: Commit) -> Chunk:
        """For a record of `size` bytes; it fits."""
        before = self.chunks[-1] if self.chunks else None
        needed = CHUNK_START + size
        if self._tail is not None:
            self._tail.until_ns = self.time.last_ns
            commit.sealed.append(self._tail)
            self.space.seal(self._tail, needed)
        spare, capacity = self.space.take(needed, commit.unneeded)
        flags = (0 if commit.refs else BEGINS) | (RELAXED if self.relaxed else 0)
        known = (before.first, before.end, before.salt) if before is not None else (0, 0, 0)
        header = ChunkHeader(self.next, commit.number, random_salt(), flags, *known, self._skipped)
        self._skipped = 0
        self._tail = chunk = Chunk(self._uuid, header, capacity)
        chunk.spare = spare
        self.chunks.append(chunk)
        commit.begin_chunk(chunk, pack_chunk_header(self._uuid, header))
        return chunk

    # Reading

    def reader(self, position: int | None = None) -> Reader:
        """A reader from `position`, or from the first position that is not acked."""
        reader = Reader(self, self.low + 1 if position is None else position)
        self._readers.append(reader)
        return reader

    def has_closed(self, reader: Reader) -> None:
        self._readers = [one for one in self._readers if one is not reader]

    def term(self, position: int) -> int | None:
        """The salt of the chunk with this position; None: it is deleted. If the position was given to two events, one
        after the other, because files were lost or restored, they have different terms."""
        chunks = self.chunks
        if chunks and chunks[-1].first <= position <= chunks[-1].last:  # at the head, as nearly always
            return chunks[-1].salt
        at = bisect_right(chunks, position, key=_first) - 1
        return chunks[at].salt if at >= 0 and position <= chunks[at].last else None

    def spans(self) -> dict[int, tuple[int, int]]:
        """By term: the first and the last position that is still there. An import may make several chunks of one."""
        found: dict[int, tuple[int, int]] = {}
        for chunk in self.chunks:
            if chunk.last >= chunk.first:
                first, _ = found.get(chunk.salt, (chunk.first, 0))
                found[chunk.salt] = first, chunk.last
        return found

    def newest(self, size: int) -> int:
        """The first position of a chunk; it and the chunks behind it have at least `size` bytes,
        or it is the first chunk."""
        for chunk in reversed(self.chunks):
            size -= chunk.end
            if size <= 0:
                return chunk.first
        return self.low + 1

    def lose(self, gap: Gap, pages: Pages | None) -> bool:
        """Reports positions that a reader could not read as lost. False: they were acked, so nothing is lost."""
        lost = self._losses.add(gap, pages)
        if lost:
            self.trail.gone("", DAMAGED, gap.first, gap.last)
        return lost

    def remember_arrivals(self) -> UpstreamPositions:
        """What it has of logs upstream. To be called before anything is appended; from here on it is kept. The caller
        adds what is committed."""
        self._remembers = True
        self._unread = False
        return self._arrivals

    # Acks

    def part(self, lanes: Sequence[Sequence[str]], begins: Mapping[str, int | None] = {}) -> Sequence[Mark]:
        """A mark for each lane; they read and ack on their own. `lanes`: the names of the sinks of each; no sink is
        in two. `begins`: of sinks that are new, the first position that they want; None: the next one that is
        appended. To be called once, before anything is read."""
        self.cache.shared = len(lanes) > 1
        names = [name for sinks in lanes for name in sinks]
        new = {name: self.durable + 1 if first is None else first for name, first in begins.items()}
        self.trail.linked(names, {name: new.get(name, self.low + 1) for name in names}, self.durable)
        lows = {
            name: self.durable if first is None else min(first - 1, self.durable) for name, first in begins.items()
        }
        return self.acked.part(self._mark_file.part(lanes, lows))

    def ack(self, first: int, last: int) -> None:
        """Acks positions for all lanes, both ends included, in any order, overlapping or repeated."""
        self.acked.add(first, min(last, self.durable))

    def unacked(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of that range that are not acked yet."""
        return self.acked.missing(first, last)

    def checkpoint(self, *, force: bool = False, short: bool = False) -> Checkpoint | None:
        """A checkpoint: the acked positions, and the chunks that may be deleted. None: nothing is new, or one is
        running. `short`: room is wanted for events, so no file is made for marks, and none for the trail."""
        if self._cursor.running is not None:
            return None
        dropped: list[Chunk] = []
        kept: Sequence[Chunk] = ()
        if not (force and self._unread and not self._arrivals.missing):  # otherwise their tags are still to be read
            self._unread = False
            dropped, kept = self._droppable()
        saves = self.acked.lanes and not (short and self._mark_file.missing)
        marks = self._mark_file.save(self.acked.lanes, self.acked.changes) if saves else None
        arrivals = (
            self._arrivals.save(self.durable, wanted=force or bool(dropped or kept)) if self._remembers else None
        )
        trail = None if short and self.trail.missing else self.trail.save()
        spares = self.space.choose_spares(dropped, kept=self.history.keeps)
        return self._cursor.checkpoint(self._slot(), dropped, spares, trail, arrivals, marks, kept, force=force)

    def _slot(self) -> Slot:
        sync, written = self._unsynced.mode, self.durable
        if not self.relaxed or (self._closing and self._unsynced.up_to == self.durable):
            sync, written = SYNCED, 0
        return Slot(
            0, self.low, self.synced_up_to, self.acked.ranges, sync, written, self.dropped_events, self.dropped_bytes
        )

    def checkpointed(self, checkpoint: Checkpoint) -> None:
        """Call it after the checkpoint's flush: the space of the deleted chunks is free."""
        if self._closing and checkpoint is not self._cursor.running:
            return
        if checkpoint is not self._cursor.running or not checkpoint.flushed:
            raise ValueError(f"{checkpoint!r} is not what was flushed")
        self._cursor.running = None
        self.space.free(checkpoint.dropped, checkpoint.spares, kept=self.history.keeps)
        if self.history.keeps:
            self.history.left(checkpoint.dropped)
            self._keep(checkpoint.kept)
        if self._unsynced.full:
            self._close_full()

    def drop_oldest(self, tag_bytes: int, payload_bytes: int) -> list[Dropped]:
        """Drops as many of the oldest chunks as a record of that size needs. Their positions count as acked. There is
        room after the next checkpoint. Empty: enough chunks are being deleted already, or the next chunk is not
        durable yet."""
        needed = CHUNK_START + record_size(tag_bytes + payload_bytes)
        leaving = self._cursor.running.dropped if self._cursor.running is not None and not self.history.keeps else []
        room = self.space.room(self._tail) + sum(chunk.capacity for chunk in leaving)
        dropped: list[Dropped] = []
        for chunk in self.chunks[self.history.count :]:
            if room >= needed or chunk.last > self.durable:
                break
            if chunk.last > self.low:
                dropped.append(self._give_up(chunk))
            room += chunk.end if chunk is self._tail else chunk.capacity
        return dropped

    def _give_up(self, chunk: Chunk) -> Dropped:
        positions = chunk.last - chunk.first + 1
        if positions > chunk.end:  # an event has a byte at least: the rest was skipped at a start behind lost syncs
            positions -= -(-(positions - chunk.end) // SKIP) * SKIP
        missing = self.acked.missing(chunk.first, chunk.last)
        events = sum(last - first + 1 for first, last in missing)
        for one in missing:
            self.trail.gone("", DROPPED, *one)
        of_lanes = self.acked.lacking(chunk.first, chunk.last)
        dropped = Dropped(chunk.first, chunk.last, events, round(chunk.end * events / positions), of_lanes)
        self.acked.add(chunk.first, chunk.last)
        self.dropped_events += dropped.events
        self.dropped_bytes += dropped.bytes
        return dropped

    def _droppable(self) -> tuple[list[Chunk], Sequence[Chunk]]:
        """The chunks at the front whose events are all acked: those that are deleted, and those that go over to the
        history. The last chunk is included only if its space is needed or half of it is used: otherwise a new chunk
        would cost more than it saves."""
        tail = self._tail
        if tail is not None and tail.last <= self.low and self._is_worth_ending(tail):
            if self.relaxed:
                self._unsynced.full.append(tail)
            else:
                tail.close(self.disk)
            self.space.end(tail)
            tail.until_ns = self.time.last_ns
            self._tail = None
        acked = self._acked_chunks()
        if self.history.keeps:
            kept, size = acked, sum(chunk.capacity for chunk in acked)
            count = self.history.leaves(self.chunks, size, self.time.last_ns, self.time.now_ns())
        else:
            kept, count = (), len(acked)
        dropped = self.chunks[:count]
        del self.chunks[:count]
        return dropped, kept

    def _is_worth_ending(self, tail: Chunk) -> bool:
        if self.space.pressed:
            return True
        if self.history.keeps:  # it goes nowhere
            return self.history.is_long_enough(tail.since_ns, self.time.now_ns())
        return tail.end >= tail.capacity // 2

    def _acked_chunks(self) -> Sequence[Chunk]:
        """At the front, behind the history."""
        first = count = self.history.count
        while (
            count < len(self.chunks) and self.chunks[count].last <= self.low and self.chunks[count] is not self._tail
        ):
            count += 1
        return self.chunks[first:count]

    def _keep(self, chunks: Sequence[Chunk]) -> None:
        """They go over to the history: the cursor on disk says that they are acked. So the next start does the
        same."""
        if self.history.keeps:
            for chunk in chunks:
                self.space.keep(chunk)
                self.history.add(chunk)

    def make_room(self) -> bool:
        """The disk is full: the oldest chunk of the history goes with the next checkpoint. False: there is none."""
        return self.history.shrink()

    def close(self) -> None:
        """Closes the log, with a cursor that says what is durable. Records that were appended and not committed are
        dropped; they were never acked."""
        self._closing = True
        if self._cursor.running is not None and self._cursor.running.flushed:
            self._cursor.running = None  # written, and its caller has not said so; if it does now, it comes too late
        if not self._closed:
            with suppress(DiskFull, FailStop):  # what was not synced is known for that at the next start
                self._sync_all()
            with suppress(DiskFull, FailStop):  # an older cursor stands, and some events will come twice
                self._write_cursor()
        self.abandon()

    def abandon(self) -> None:
        """Closes its files and leaves the directory as it is, as a crash would."""
        if self._closed:
            return
        self._closed = True
        for reader in self._readers[:]:
            reader.close()
        commits = [*self._queue, self._flying] if self._flying is not None else self._queue
        for chunk in [*self.chunks, *self._unsynced.full, *(chunk for commit in commits for chunk in commit.sealed)]:
            chunk.close(self.disk)
        self._cursor.close()
        self._mark_file.close()
        self._arrivals.close()
        self.trail.close()
        self.directory.release()

    def _sync_all(self) -> None:
        self._unsynced.running = None  # flushed, and its caller has not said so
        sync = self.sync()
        if sync is not None:
            sync.flush()
            self.synced(sync)

    def _write_cursor(self) -> None:
        checkpoint = self.checkpoint(force=True)
        if checkpoint is not None:
            checkpoint.flush()
            self.checkpointed(checkpoint)


def _first(chunk: Chunk) -> int:
    return chunk.first
