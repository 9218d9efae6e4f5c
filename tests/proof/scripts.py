"""Lives of a log that are written down: what a seed would come by too seldom, or never."""

import errno
from collections.abc import Callable
from random import Random
from typing import Final, Literal

from tests.proof.judge import Broken, LogPromises, OpenLog, checkpoint
from tests.proof.proof import DEEP, Effort, Story
from tests.proof.stories import Life, Once
from walflow.errors import DirectoryLocked, DiskFull, FailStop, LogFull, ReadFailed, Unusable, WalflowError
from walflow.testing.disk import Kept, SimulatedDisk
from walflow.wal import Log, LogOptions
from walflow.wal.format import (
    CHECKSUM,
    CHUNK_COPY,
    CHUNK_START,
    RECORD_START,
    chunk_name,
    crc,
)
from walflow.wal.tools.skip import skip

Body = Callable[[Life], None]
Files = dict[str, bytes]
Sync = Literal["always", "interval", "never"]

SHALLOW: Final = Effort((6, 3, 2, 2), (0.05, 0.05, 0.05))
HEAVY: Final = Effort((3, 2), (0.02,))

SCRIPTS: Final[list[Callable[[int, OpenLog], "Script"]]] = []


class Script:
    """Its seed decides only which cuts are tried."""

    kind = "scripted"

    def __init__(self, body: Body, options: LogOptions, seed: int, open_log: OpenLog, effort: Effort) -> None:
        self.name = f"{body.__name__} (script {seed % len(SCRIPTS)})"
        self.disk = SimulatedDisk()
        self.disk.preallocates = options.chunk_size >= 1 << 16
        self.effort = effort
        self._body = body
        self._life = Life(self.disk, options, Random(seed), open_log)

    @property
    def promises(self) -> LogPromises:
        return self._life.promises

    def live(self) -> None:
        self._body(self._life)


def script(
    chunk_size: int,
    max_chunks: int,
    *,
    effort: Effort = SHALLOW,
    path: str = "/log",
    sync: Sync = "always",
    gives_up: bool = False,
    retain_bytes: int = 0,
) -> Callable[[Body], Body]:
    """Of a log of so many bytes a chunk, and so many chunks."""

    def register(body: Body) -> Body:
        options = LogOptions(path, chunk_size, max_chunks, 0, sync, gives_up, retain_bytes)
        SCRIPTS.append(lambda seed, open_log: Script(body, options, seed, open_log, effort))
        return body

    return register


def scripted(seed: int, open_log: OpenLog = Log) -> Script:
    return SCRIPTS[seed % len(SCRIPTS)](seed, open_log)


def must(held: object, what: str) -> None:
    if not held:
        raise Broken(what)


# at work


@script(1024, 3, effort=DEEP, path="/srv/one/log")
def begins(life: Life) -> None:
    """Its directory, too, is made on the way."""
    life.put(b"one")
    life.put(b"two", b"three")
    life.ack(1, 1)
    life.checkpoint()
    life.close()
    life.put(b"four")


@script(1024, 4)
def sizes(life: Life) -> None:
    """Around the edges of records, sectors, chunks and the budget."""
    edges = [0, 8, 512 - RECORD_START, 1024 - CHUNK_START - RECORD_START, life.log.max_record]
    for size in sorted({max(0, edge + delta) for edge in edges for delta in (-9, -8, -1, 0, 1, 8)}):
        if life.append(bytes([size & 255]) * size):
            life.commit()
        else:
            must(size > life.log.max_record or life.log.used, f"{size} bytes do not fit an empty log")
        if life.log.fill > 0.5 or life.log.used > 2000:
            life.ack(1, life.log.durable)
            life.checkpoint()


@script(1024, 4)
def acks_in_any_order(life: Life) -> None:
    """More ranges than a cursor has room for."""
    life.append(b"many", positions=700)
    life.put(b"few")
    for position in range(2, 700, 2):
        life.ack(position, position)
    life.checkpoint()
    life.restart()
    must(not life.log.gaps, "acks are no loss")
    for position in range(699, 0, -2):
        life.ack(position, position)
    must(life.log.unacked(1, 700) == [(1, 1)] or life.log.low >= 1, "all but what the cursor forgot is acked")
    life.checkpoint(force=True)


@script(4 << 20, 2, effort=Effort((2,), ()))
def a_long_commit(life: Life) -> None:
    """More than a commit takes: what is appended then is the next one."""
    life.disk.preallocates = False
    life.put(*[bytes([number]) * (1 << 20) for number in range(1, 4)])
    must(life.log.durable == 2, "a commit takes 2 MiB")
    life.commit()
    life.ack(1, 2)
    life.restart()
    life.read_again()
    life.read(1 << 30)


@script(1 << 16, 8, effort=HEAVY)
def recycled(life: Life) -> None:
    """A chunk's file is the next chunk's; so is what it held."""
    full = [bytes([number]) * 16200 for number in range(1, 5)]
    life.put(*full)
    life.put(*full)
    life.ack(1, 4)
    life.checkpoint()
    life.put(*full[:3])
    life.put(*full, b"x" * 60000, b"y" * 60000)
    life.restart()
    life.ack(1, life.log.durable)
    life.checkpoint()
    life.put(b"small")
    life.append(b"z" * 50000)
    life.append(b"z" * 60000)
    life.commit()


@script(1 << 16, 2, effort=HEAVY)
def spares_must_go(life: Life) -> None:
    life.put(*[b"a" * 16200] * 4)
    life.put(b"b" * 1000)
    life.ack(1, 4)
    life.checkpoint()
    life.put(b"c" * 30000)
    life.append(b"d" * 40000)
    life.append(b"e" * 20000)
    life.commit()
    life.ack(1, life.log.durable)
    life.checkpoint()
    life.put(b"f" * 100000)


@script(1 << 16, 3, effort=HEAVY)
def a_spare_is_cut(life: Life) -> None:
    """Begun and sealed in one commit, its rest given back."""
    life.put(*[b"a" * 16200] * 4)
    life.put(b"tail" * 5000)
    life.ack(1, life.log.durable)
    life.checkpoint()
    life.append(b"b" * 50000)
    life.append(b"c" * 50000)
    life.disk.fault = lambda operation, path: errno.EMFILE if operation == "open" and "spare" in path else None
    must(not life.commit(), "it waits for a descriptor")
    life.disk.fault = None
    must(life.commit(), "and goes on")


@script(1024, 2)
def full(life: Life) -> None:
    while life.append(b"f" * 300):
        life.commit()
    try:
        life.log.append(b"", b"f" * 300, 1, 0)
    except LogFull:
        pass
    else:
        raise Broken("a full log took an event")
    life.ack(1, life.log.durable)
    life.checkpoint()
    must(life.append(b"f" * 300), "there is room again")
    life.commit()
    while life.append(b"f" * 300):
        life.commit()
    life.drop_oldest(300)
    life.checkpoint()
    must(life.append(b"f" * 300), "the oldest made room")
    life.commit()


OPERATIONS: Final = ("create", "write", "sync", "sync_directory", "allocate", "truncate", "rename", "unlink", "open")


@script(1 << 16, 2, effort=Effort((2, 1), (0.01,)))
def everything_fails_once(life: Life) -> None:
    for operation in OPERATIONS:
        for number in (errno.ENOSPC, errno.EMFILE, errno.EIO, errno.EOPNOTSUPP):
            life.put(*[b"a" * 16200] * 4)
            life.disk.fault = Once(life.disk, operation, number)
            try:
                _work(life)
            except FailStop:
                _stays_stopped(life)
            life.restart(writeback_fails=number == errno.EIO)
            life.ack(1, life.log.durable)
            life.checkpoint()


def _work(life: Life) -> None:
    life.append(b"b" * 3000)
    if not life.commit():
        life.commit()
    life.ack(1, 4)
    life.checkpoint()
    life.put(b"c" * 40000)
    life.put(b"d" * 60000)
    life.ack(1, life.log.durable)
    life.checkpoint()
    life.put(b"e" * 100000)


def _stays_stopped(life: Life) -> None:
    """Whatever is tried next."""
    log = life.log
    for attempt in (log.close, lambda: log.directory.create("x"), lambda: log.directory.allocate("x", 0, 1)):
        try:
            attempt()
        except FailStop:
            continue
        must(attempt == log.close, "a log whose disk failed goes on")


@script(1024, 4)
def no_room_to_write_again(life: Life) -> None:
    """What may not be synced is copied; where there is no room for that it is written in place."""
    life.append(b"w" * 700)
    life.commit()
    life.restart(writeback_fails=True)
    life.disk.fault = lambda operation, path: errno.ENOSPC if path.endswith("again.tmp") else None
    life.disk.before, before = None, life.disk.before  # in place, a garbled sector does cost an event
    must(life.log.recovery.backlog == 1, "it is there")
    life.disk.before = before
    life.disk.fault = None
    life.put(b"more")


@script(1024, 6, effort=SHALLOW, sync="interval")
def relaxed(life: Life) -> None:
    """It acks before it syncs, and keeps what is full open for that."""
    for number in range(1, 5):
        life.put(bytes([number]) * 600)
    life.sync()
    life.put(b"s" * 600)
    life.ack(1, life.log.durable)
    life.checkpoint()
    life.put(b"t" * 600)
    life.restart()
    life.put(b"u" * 600)
    life.close()
    must(life.log.low, "it opens again")
    for number in range(3):
        life.put(bytes([number]) * 600)
    sync = life.log.sync()
    assert sync is not None
    must(life.log.sync() is None and str(sync), "one is in the air")
    life.ack(1, life.log.durable - 1)
    life.checkpoint()
    try:
        life.log.synced(sync)
    except ValueError:
        sync.flush()
    life.log.synced(sync)
    life.promises.synced(life.log)


@script(1 << 16, 3, effort=HEAVY, sync="interval")
def relaxed_and_cut_to_make_room(life: Life) -> None:
    life.put(b"a" * 20000)
    life.put(b"b" * 60000)
    life.restart()
    life.put(b"c")


@script(1024, 6, sync="never")
def never_synced(life: Life) -> None:
    """Until it is closed; and its cursor is gone."""
    for number in range(1, 5):
        life.put(bytes([number]) * 600)
    life.close()
    must(life.log.recovery.backlog == 4, "it is there")
    life.put(b"s" * 600)
    life.close()
    life.alter(lambda files: files.pop("cursor"))
    life.put(b"t" * 600)


@script(1024, 40, effort=Effort((2,), ()), sync="interval")
def relaxed_and_overdue(life: Life) -> None:
    """If no one else syncs it, a commit does, before there are too many files open."""
    for number in range(1, 22):
        life.put(bytes([number]) * 700)
    must(life.log.synced_up_to > 0, "something was synced")
    life.log.close()
    life.gone()


# read


@script(1024, 8)
def read_from_anywhere(life: Life) -> None:
    for number in range(9):
        life.put(bytes([number]) * 300)
    for position in (1, 4, 5, 9, 10):
        reader = life.log.reader(position)
        found = [record.position for record in reader.read(1 << 20)]
        must(found == list(range(position, 10)), f"from {position} on it reads {found}")
        reader.close()
    reader = life.log.reader()
    reader.read(1)
    life.ack(1, 5)
    must([record.position for record in reader.read(1 << 20)] == [6, 7, 8, 9], "it skips what is acked")
    must("Reader" in repr(reader), "it says where it is")


@script(1024, 8)
def read_without_descriptors(life: Life) -> None:
    life.put(*[b"r" * 300] * 4)
    reader = life.log.reader(1)
    life.disk.fault = lambda operation, path: errno.EMFILE if operation == "open" else None
    try:
        reader.read(1)
    except DiskFull:
        life.disk.fault = None
    must(len(reader.read(1 << 20)) == 4, "it reads once there are some")


@script(1024, 8)
def vanished_while_open(life: Life) -> None:
    for number in range(9):
        life.put(bytes([number]) * 300)
    life.promises.damaged = True
    life.disk.inodes.pop(f"/log/{CHUNKS[1]}")
    life.disk.durable.pop(f"/log/{CHUNKS[1]}")
    life.read_again()
    life.read(1 << 20)
    must([(gap.first, gap.last) for gap in life.log.gaps] == [(3, 4)], "it is reported")


# damaged


def damaged(change: Callable[[Files], object]) -> Callable[[Files], object]:
    """Nine events in chunks of two, closed, then `change`; what is lost is reported, also where that is cut."""

    def body(life: Life) -> None:
        for number in range(9):
            life.put(bytes([number + 1]) * 300)
        life.ack(2, 2)
        life.close()
        life.alter(change)
        life.put(b"behind it")
        life.restart()
        life.put(b"and again")

    body.__name__ = change.__name__
    SCRIPTS.append(lambda seed, open_log: Script(body, LogOptions("/log", 1024, 8, 0), seed, open_log, DAMAGED))
    return change


DAMAGED: Final = Effort((6, 3, 2, 2), (0.3, 0.1, 0.1))
CHUNKS: Final = [chunk_name(first) for first in (1, 3, 5, 7, 9)]


def flipped(data: bytes, *offsets: int) -> bytes:
    changed = bytearray(data)
    for offset in offsets:
        changed[offset] ^= 0x10
    return bytes(changed)


def spoil(files: Files, name: str, *offsets: int) -> None:
    files[name] = flipped(files[name], *offsets)


BODY: Final = CHUNK_START + RECORD_START + 7


@damaged
def a_payload_of_the_tail(files: Files) -> None:
    spoil(files, CHUNKS[4], BODY)


@damaged
def a_payload_before_the_tail(files: Files) -> None:
    spoil(files, CHUNKS[1], BODY)


@damaged
def a_header_of_a_record(files: Files) -> None:
    spoil(files, CHUNKS[1], CHUNK_START + 9)
    spoil(files, CHUNKS[4], CHUNK_START + 9)


@damaged
def both_headers_of_a_chunk(files: Files) -> None:
    spoil(files, CHUNKS[2], 20, 20 + CHUNK_COPY)


@damaged
def both_headers_of_the_last_chunk(files: Files) -> None:
    spoil(files, CHUNKS[4], 20, 20 + CHUNK_COPY)


@damaged
def a_header_that_only_an_empty_chunk_knows(files: Files) -> None:
    """That one is removed, so what it knows must be kept."""
    spoil(files, CHUNKS[3], 20, 20 + CHUNK_COPY)
    files[CHUNKS[4]] = files[CHUNKS[4]][:CHUNK_START]


@damaged
def one_header_of_each_chunk(files: Files) -> None:
    for number, name in enumerate(CHUNKS):
        spoil(files, name, 20 + CHUNK_COPY * (number % 2))


@damaged
def a_chunk_is_gone(files: Files) -> None:
    del files[CHUNKS[1]]


@damaged
def the_first_and_the_last_chunk_are_gone(files: Files) -> None:
    del files[CHUNKS[0]], files[CHUNKS[4]]


@damaged
def all_chunks_are_gone(files: Files) -> None:
    for name in CHUNKS:
        del files[name]


@damaged
def a_chunk_is_cut_short(files: Files) -> None:
    files[CHUNKS[1]] = files[CHUNKS[1]][:500]
    files[CHUNKS[4]] = files[CHUNKS[4]][:300]


@damaged
def the_tail_is_blank(files: Files) -> None:
    files[CHUNKS[4]] = bytes(len(files[CHUNKS[4]]))
    files[chunk_name(77)] = b""


@damaged
def names_are_swapped(files: Files) -> None:
    files[CHUNKS[0]], files[CHUNKS[2]] = files[CHUNKS[2]], files[CHUNKS[0]]
    files["strange.wal"] = files.pop(CHUNKS[3])


@damaged
def there_are_copies(files: Files) -> None:
    files[chunk_name(1000)] = files[CHUNKS[0]]
    files["copy.wal"] = files[CHUNKS[1]]
    files["a file of somebody"] = b"is left alone"


@damaged
def a_chunk_of_another_log(files: Files) -> None:
    disk = SimulatedDisk()
    log = Log(LogOptions("/other", 1024, 4), disk)
    log.append(b"", b"another's", 1, 0)
    commit = log.commit()
    assert commit is not None
    commit.flush()
    log.committed(commit)
    log.abandon()
    files[chunk_name(20)] = disk.content(f"/other/{chunk_name(1)}")
    files[chunk_name(30)] = b"no chunk at all"
    files[f"quarantine/{chunk_name(30)}"] = b"one was there before"


@damaged
def the_meta_is_gone(files: Files) -> None:
    del files["meta"]


@damaged
def the_meta_is_damaged(files: Files) -> None:
    spoil(files, "meta", 20)
    files["meta.tmp"] = files["spare.00000000000000000001"] = files["again.tmp"] = b"left over"


@damaged
def one_slot_of_the_cursor(files: Files) -> None:
    spoil(files, "cursor", 30)


@damaged
def the_cursor_is_gone(files: Files) -> None:
    files["cursor"] = b"what is this"


@damaged
def a_record_in_the_middle_of_the_tail(files: Files) -> None:
    spoil(files, CHUNKS[3], BODY)
    spoil(files, CHUNKS[4], CHUNK_START + 2)
    files[CHUNKS[4]] += b"garbage behind it"


@damaged
def the_sync_word_stands_in_the_damage(files: Files) -> None:
    data = bytearray(files[CHUNKS[1]])
    data[CHUNK_START + 3] ^= 1
    data[CHUNK_START + 100 : CHUNK_START + 108] = b"WF\xa5\x1eWF\xa5\x1e"
    data[CHUNK_START + 131 : CHUNK_START + 135] = b"WF\xa5\x1e"
    files[CHUNKS[1]] = bytes(data)


@damaged
def something_between_records(files: Files) -> None:
    """No position is lost by it."""
    for name in CHUNKS[3:]:
        files[name] = files[name][:CHUNK_START] + b"junk and" + files[name][CHUNK_START:]


@damaged
def a_name_is_a_directory(files: Files) -> None:
    files[f"{chunk_name(50)}/file"] = b"inside"


# the disk cannot read, and an operator gives up what that is


def _unreadable(life: Life, bad: dict[str, int]) -> None:
    life.promises.damaged = True
    life.promises.bad_from = life.disk.bad_from = {f"/log/{name}": first for name, first in bad.items()}


def _nine(life: Life) -> None:
    for number in range(9):
        life.put(bytes([number + 1]) * 300)


@script(1024, 8, effort=DAMAGED, gives_up=True)
def an_unreadable_tail(life: Life) -> None:
    _nine(life)
    life.close()
    _unreadable(life, {CHUNKS[4]: 0, "meta": 0})
    must(life.log.gaps, "it is reported")


@script(1024, 8, effort=DAMAGED, gives_up=True)
def unreadable_records(life: Life) -> None:
    """Of a chunk whose header can be read."""
    _nine(life)
    life.close()
    _unreadable(life, {CHUNKS[4]: CHUNK_START, CHUNKS[1]: CHUNK_START + 100})
    must([(gap.first, gap.last) for gap in life.log.gaps] == [(9, 9), (3, 4)], f"it is reported: {life.log.gaps}")


@script(1024, 8, effort=DAMAGED, gives_up=True)
def an_unreadable_chunk_of_the_last_commit(life: Life) -> None:
    """The chunk behind it tells how many records it had."""
    life.put(*(bytes([number + 1]) * 300 for number in range(6)))
    life.close()
    _unreadable(life, {CHUNKS[1]: CHUNK_START})
    must([(gap.first, gap.last) for gap in life.log.gaps] == [(3, 4)], f"it is reported: {life.log.gaps}")


@script(8192, 8, effort=DAMAGED, gives_up=True)
def an_unreadable_page_of_a_commit_without_a_cursor(life: Life) -> None:
    """What lies around it is synced where it is: a copy would have nothing in that place."""
    life.put(*(bytes([number + 1]) * 3000 for number in range(4)))
    life.restart()
    _unreadable(life, {CHUNKS[0]: 4096})
    must([(gap.first, gap.last) for gap in life.log.gaps] == [(2, 2)], f"it is reported: {life.log.gaps}")


@script(1024, 8, effort=DAMAGED, gives_up=True)
def an_unreadable_chunk(life: Life) -> None:
    _nine(life)
    log = life.log
    _unreadable(life, {CHUNKS[1]: 0})
    life.read_again()
    life.read(1 << 20)
    must([(gap.first, gap.last) for gap in log.gaps] == [(3, 4)], f"it is reported: {log.gaps}")
    must("3 to 4 are lost" in str(log.gaps[0]), "in words, too")


@script(1024, 8, effort=DAMAGED)
def a_disk_that_does_not_read_for_a_while(life: Life) -> None:
    """At work, and at a start: nothing is given up."""
    _nine(life)
    for name in CHUNKS[1:5]:
        life.disk.bad_from = {f"/log/{name}": 0}
        try:
            life.read_again()
            life.read(1 << 20)
        except ReadFailed:
            pass
        life.disk.bad_from = {}
    life.read_again()
    life.read(1 << 20)
    must(not life.log.gaps, f"nothing is lost: {life.log.gaps}")
    life.close()
    for name in (*CHUNKS[:5], "cursor", "meta"):
        life.disk.bad_from = {f"/log/{name}": 0}
        try:
            Log(life.promises.options, life.disk).close()
        except Unusable as error:
            must(name in str(error), f"the file is named: {error}")
        life.disk.bad_from = {}
    must(not life.log.gaps, f"nothing is lost: {life.log.gaps}")
    life.put(b"more")


@script(1024, 8, gives_up=True)
def no_room_for_evidence(life: Life) -> None:
    """The log goes on, and says that it kept none."""
    _nine(life)
    log = life.log
    life.disk.before, watch = None, life.disk.before
    life.disk.fault = lambda operation, path: errno.EIO if "quarantine" in path else None
    life.disk.bad_from = {f"/log/{CHUNKS[1]}": 0}
    life.promises.damaged = True
    life.read_again()
    life.read(1 << 20)
    must("not kept in quarantine" in log.gaps[0].reason, f"its evidence cannot be kept: {log.gaps}")
    life.disk.fault, life.disk.bad_from = None, {}
    life.promises.ack(log, 3, 4)
    life.checkpoint()
    life.disk.before = watch
    life.put(b"more")


@script(1024, 8)
def read_behind_damage(life: Life) -> None:
    """What a reader does not want is not missed by it."""
    _nine(life)
    life.close()
    life.alter(lambda files: spoil(files, CHUNKS[1], CHUNK_START + 9))
    life.disk.before, watch = None, life.disk.before
    log = Log(life.promises.options, life.disk)
    must([record.position for record in log.reader(4).read(1)] == [4], "it is read")
    must(not log.gaps, "nothing that was wanted is lost")
    log.abandon()
    life.disk.before = watch
    must(life.log.gaps, "somebody else wants it")


# refused


def refusing(change: Callable[[Files], object]) -> Callable[[Files], object]:
    """The log does not open, says in one line which file it is, and has changed nothing that it needs."""

    def body(life: Life) -> None:
        life.put(b"one")
        life.close()
        before = life.disk.snapshot()
        files = {path: kept.data for path, kept in before.items() if kept.data is not None}
        inside = {path.removeprefix("/log/"): data for path, data in files.items()}
        change(inside)
        life.disk.become({"/log": Kept(None, 1)} | {f"/log/{name}": data for name, data in inside.items()})
        life.disk.before, watch = None, life.disk.before
        for _ in range(2):
            _refuses(life, "/log")
        life.disk.before = watch
        life.disk.become(before)
        must(life.log.durable == 1, "it opens once that is undone")

    body.__name__ = change.__name__
    SCRIPTS.append(lambda seed, open_log: Script(body, LogOptions("/log", 1024, 4, 0), seed, open_log, SHALLOW))
    return change


def _refuses(life: Life, what: str) -> None:
    try:
        log = life.promises.open_log(life.promises.options, life.disk)
    except WalflowError as error:
        must(what in str(error) and "\n" not in str(error), f"it says nothing of {what}: {error}")
        return
    log.abandon()
    raise Broken(f"it opens, whatever becomes of {what}")


def _newer(data: bytes, size: int) -> bytes:
    """The version, in front of its checksum, that much behind which it stands."""
    fields = data[:8] + b"\3\0" + data[10 : size - 4]
    return fields + CHECKSUM.pack(crc(0, fields)) + data[size:]


@refusing
def a_newer_meta(files: Files) -> None:
    files["meta"] = _newer(files["meta"], 36)


@refusing
def a_newer_chunk(files: Files) -> None:
    files[chunk_name(1)] = _newer(files[chunk_name(1)], CHUNK_COPY)


@refusing
def two_logs_and_no_meta(files: Files) -> None:
    del files["meta"]
    a_chunk_of_another_log(files)


@refusing
def a_directory_for_a_cursor(files: Files) -> None:
    del files["cursor"]
    files["cursor/x"] = b""


@refusing
def a_directory_for_a_meta(files: Files) -> None:
    del files["meta"]
    files["meta/x"] = b""


@script(1024, 4)
def locked(life: Life) -> None:
    life.put(b"one")
    for pid in (b"17\n", b"not a pid"):
        life.disk.inodes["/log/LOCK"].data = pid
        try:
            Log(life.promises.options, life.disk)
        except DirectoryLocked as error:
            must("17" in str(error) or pid != b"17\n", str(error))
        else:
            raise Broken("two have one log")
    life.put(b"two")


@script(1024, 4)
def nowhere_to_put_it(life: Life) -> None:
    """A chunk that is none, and a disk that moves nothing."""
    life.put(b"one")
    life.close()
    life.alter(lambda files: files.update({chunk_name(9): b"no chunk"}))
    life.disk.before, watch = None, life.disk.before
    life.disk.fault = lambda operation, path: errno.EIO if operation == "rename" else None
    _refuses(life, "/log")
    life.disk.before, life.disk.fault = watch, None
    life.put(b"two")


@script(1024, 4)
def opening_fails(life: Life) -> None:
    """Of every operation that opening is made of, the first to the last fails, once."""
    life.append(b"w" * 700)
    life.commit()
    life.restart()
    before = life.disk.snapshot()
    new = {path: kept for path, kept in before.items() if "cursor" not in path and "meta" not in path}
    life.disk.before, watch = None, life.disk.before
    for number in (errno.ENOSPC, errno.EIO, errno.EACCES):
        for at in range(80):
            life.disk.become(before if at % 2 else new)
            life.disk.fault = _nth(at // 2, number)
            try:
                life.promises.open_log(life.promises.options, life.disk).abandon()
            except WalflowError as error:
                must("/log" in str(error), f"it does not say where: {error}")
    life.disk.fault = None
    life.disk.become(before)
    life.disk.before = watch
    must(life.log.recovery.backlog == 1, "it is there")


def _nth(at: int, number: int) -> Callable[[str, str], int | None]:
    left = at

    def fault(operation: str, path: str) -> int | None:
        nonlocal left
        left -= 1
        return number if left == -1 else None

    return fault


# misused, and looked at


@script(1024, 4)
def misused(life: Life) -> None:
    """Its owner is told, and nothing is lost."""
    log = life.log
    life.append(b"one")
    commit = log.commit()
    assert commit is not None
    must(log.commit() is None, "one is in the air")
    for wrong in (
        lambda: log.committed(commit),
        lambda: log.append(b"", b"", 0, 0),
        lambda: log.append(b"t" * 70000, b"", 1, 0),
        lambda: Log(LogOptions("/log", 10, 1), life.disk),
    ):
        try:
            wrong()
        except ValueError:
            continue
        raise Broken("a misuse went through")
    life.flying = commit
    life.commit()
    air = log.checkpoint(force=True)
    assert air is not None
    must(log.checkpoint(force=True) is None, "one is in the air")
    try:
        log.checkpointed(air)
    except ValueError:
        air.flush()
    for thing in (log, log.cache, log.chunks[0], air, commit, log.acked, log.directory, log.uuid, log.recovery):
        must(str(thing), "it says what it is")
    must(log.recovery.as_dict(), "for JSON")
    must(log.cache.bytes == 0, "nothing is kept of what there is no room for")
    must(not log.recovery.lines(), "nothing to tell")
    log.close()
    log.checkpointed(air)
    log.close()
    life.gone()
    life.disk.filesystem = lambda path: "nfs4"  # type: ignore[method-assign]
    must("nfs4" in str(life.log.recovery.lines()), "it warns of a network")
    life.put(b"two")
    checkpoint(life.log)


@script(1 << 16, 2, effort=HEAVY, sync="interval")
def relaxed_and_over_the_budget(life: Life) -> None:
    """What was cut to make room has its size back after a power cut, and the log goes on."""
    for number in range(1, 4):
        life.put(bytes([number]) * 40000)
        life.sync()
    must(not life.append(b"x" * 40000), "it is full")
    life.checkpoint(force=True)
    life.cut()
    life.ack(1, life.log.durable)
    life.checkpoint()
    for number in range(4, 7):
        life.put(bytes([number]) * 40000)


# an operator's


@script(1024, 8, effort=SHALLOW)
def skipped(life: Life) -> None:
    """They are kept and reported before they are acked, so they come or are there to be read;
    and never come again."""
    for number in range(6):
        life.put(bytes([number + 1]) * 300)
    life.append(b"several at once" * 9, positions=4)
    life.put(b"the last one")
    life.skip(2, 3)
    life.cut()
    must(life.log.unacked(1, 4) == [(1, 1), (4, 4)], f"2 and 3 are acked: {life.log}")
    life.skip(8, 9)
    life.close()
    must(life.log.unacked(7, 11) == [(7, 7), (10, 11)], f"8 and 9 are acked: {life.log}")


@script(1024, 8, effort=DAMAGED)
def skipped_where_it_is_damaged(life: Life) -> None:
    """What a reader could not have read either."""
    _nine(life)
    life.close()
    life.alter(lambda files: spoil(files, CHUNKS[1], CHUNK_START + 9))
    life.promises.appended.pop(3)
    log = Log(life.promises.options, life.disk)
    life.promises.skip(3, 5)
    skip(log, 3, 5, "an operator")
    log.close()
    must(life.log.unacked(1, 6) == [(1, 2), (6, 6)], f"they are acked: {life.log}")


SOURCES: Final[dict[str, Callable[[int], Story]]] = {"scripted": scripted}


# with a history


@script(1 << 16, 2, effort=HEAVY, retain_bytes=130_000)
def kept(life: Life) -> None:
    """Two chunks of what is acked; what leaves becomes the next chunk, if the budget has room for a spare."""
    must(not life.log.make_room(), "there is none yet")
    for number in range(1, 6):
        life.put(*[bytes([number]) * 16200] * 4)
        life.ack(1, life.log.durable)
        life.checkpoint()
        life.checkpoint()
    must(life.log.history.bytes <= 130_000, f"it is bounded: {life.log}")
    must(len(life.log.chunks) > life.log.history.count > 0, f"it is there: {life.log}")
    life.cut()
    must(life.log.history.count > 0, f"and is there after a start: {life.log}")
    for number in range(6, 9):
        life.put(bytes([number]) * 60000)
        life.append(bytes([number]) * 50000)
        life.commit()
        life.ack(1, life.log.durable)
        life.checkpoint()
    must(life.log.make_room(), "a full disk takes it")
    must(life.log.history.overflows, "soon")
    life.checkpoint()
    life.log.history.widen()
    must("LogHistory" in repr(life.log.history), "it says what it is")


@script(1024, 4, retain_bytes=5000)
def kept_no_more(life: Life) -> None:
    """A start without `retain` deletes it; after the next one an older version may have the log."""
    for _ in range(12):
        life.put(b"x" * 400)
        life.ack(1, life.log.durable)
        life.checkpoint()
    before = life.promises.options
    life.promises.options = before._replace(retain_bytes=0)
    life.close()
    must("that is deleted" in str(life.log.recovery.lines()), f"it says so: {life.log}")
    life.put(b"y")
    life.checkpoint()
    life.close()
    life.put(b"z")
    life.promises.options = before
    life.close()
    life.disk.fault = lambda operation, path: (
        errno.ENOSPC if path.endswith("meta.tmp") and operation == "create" else None
    )
    must(not life.log.history.keeps, "nothing is kept where a full disk cannot say so")
    life.disk.fault = None
    life.put(b"z")
