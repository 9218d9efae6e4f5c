"""Finds what prevents a log from opening, and moves it out of the way.

A start repairs damage itself (recovery.py). This module handles what a start refuses: names of files that are no
files, files that may not be opened, several logs in one directory. Nothing is destroyed: what is in the way is moved,
and what a start would overwrite is copied.
"""

import errno
import os
import shlex
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Self

from walflow import world
from walflow.disk import Disk
from walflow.durable import replace
from walflow.errors import DirectoryLocked, Unusable
from walflow.lock import HeldDirectory, holder
from walflow.wal.arrivals import MAGIC as ARRIVALS_MAGIC, NAME as ARRIVALS
from walflow.wal.chunk import Pages
from walflow.wal.directory import Directory
from walflow.wal.format import (
    CHUNK_COPY,
    CHUNK_START,
    META,
    SLOT,
    ChunkHeader,
    NewerVersion,
    Slot,
    unpack_chunk_header,
    unpack_meta,
    unpack_slot,
)
from walflow.wal.log import Log
from walflow.wal.mark_file import MAGIC as MARKS_MAGIC, NAME as MARKS
from walflow.wal.opening.recovery import write_meta
from walflow.wal.opening.settle import AGAIN
from walflow.wal.opening.survey import LEFTOVER, NUMBERED
from walflow.wal.quarantine import FOLDER, Gap, Quarantine
from walflow.wal.slot_file import MARKS_SLOT, newest
from walflow.wal.tools.inspect import Finding, Read, View, removed
from walflow.wal.trail import MAGIC as TRAIL_MAGIC, NAME as TRAIL

PIECE: Final = 8 << 20
PLAIN: Final = ("LOCK", "meta", "cursor", "marks", "arrivals", "trail", "consumers", "meta.tmp")  # of files
MAGICS: Final = (MARKS_MAGIC, ARRIVALS_MAGIC, TRAIL_MAGIC)
BROKEN: Final = (errno.EIO, errno.ENXIO, errno.EUCLEAN, errno.EBADMSG)  # it will not open later either


class RepairStep(NamedTuple):
    """One step of the repair, in words. `do` is None if only a person can do it."""

    what: str
    do: Callable[[], object] | None


class Hold:
    """The log's locks: the directory's as soon as it can be opened,
    and that of LOCK as soon as there is such a file."""

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        self._directory = path
        self._path = os.path.join(path, "LOCK")
        self._disk: Disk = disk or world.disk()
        self._place: HeldDirectory | None = None
        self._fd: int | None = None

    def __enter__(self) -> Self:
        try:
            self.take(create=False)
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        if self._place is not None:
            self._place.release()

    def take(self, *, create: bool) -> None:
        """Takes the locks. Raises DirectoryLocked.
        What cannot be opened cannot be locked by another process either."""
        self._take_directory()
        if self._fd is not None or (os.path.lexists(self._path) and not _is_plain(self._path)):
            return
        try:
            if create:
                self._disk.close(self._disk.open(self._path, create=True))
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return
        if not self._disk.lock(fd):
            os.close(fd)
            raise self._locked()
        self._fd = fd

    def _take_directory(self) -> None:
        if self._place is not None or not os.path.isdir(self._directory):
            return
        with suppress(OSError):
            self._place = HeldDirectory.take(self._disk, self._directory)
            if self._place is None:
                raise self._locked()

    def _locked(self) -> DirectoryLocked:
        return DirectoryLocked(f"{self._directory} is in use by {holder(self._disk, self._path)}; stop it first")


def obstacles(path: str, keep: str = "", disk: Disk | None = None) -> list[RepairStep]:
    """The steps in their order; when they are done, look again. `keep`: the uuid of the log that stays if there are
    files of several. Raises Unusable if there is nothing to repair."""
    if not os.path.isdir(path):
        if not os.path.lexists(path):
            raise Unusable(
                f"{path}: there is no log there, and nothing to repair; "
                "the path is the `path` of a `wal` in a flow file"
            )
        raise Unusable(f"{path}: is not a log: it is not a directory; move it away, or give the log another path")
    steps = _not_writable(path)
    if steps:
        return steps
    directory = Directory(path, disk or world.disk())
    names = sorted(os.listdir(path), key=lambda name: (name != FOLDER, name))  # first the place where things go
    steps = [step for name in names for step in _in_the_way(directory, name)]
    return steps or _several_logs(directory, keep)


def _not_writable(path: str) -> list[RepairStep]:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return [RepairStep(f"{path} is on a file system that is mounted read-only: mount it for writing", None)]
    return _allow(path, 0o700)


def _allow(path: str, mode: int) -> list[RepairStep]:
    """A step for a person: this process may not use the file, and only its owner can change that."""
    if os.access(path, os.R_OK | os.W_OK | (os.X_OK if mode & 0o100 else 0)):
        return []
    status = os.stat(path)
    if os.geteuid() not in (0, status.st_uid):
        quoted = shlex.quote(os.path.dirname(path) if mode == 0o600 else path)
        advice = f"run this as user {status.st_uid}, or as root: chown -R {os.geteuid()} {quoted}"
        return [RepairStep(f"{path} belongs to user {status.st_uid}, and you are {os.geteuid()}: {advice}", None)]
    wanted = stat.S_IMODE(status.st_mode) | mode
    return [
        RepairStep(
            f"{path} may not be read and written: set its mode to {wanted:04o}", lambda: os.chmod(path, wanted)
        )
    ]


def _in_the_way(directory: Directory, name: str) -> list[RepairStep]:
    path = directory.file(name)
    if name == FOLDER:
        return _quarantine(directory, path)
    if name in PLAIN or LEFTOVER.fullmatch(name):
        if not _is_plain(path):
            return [_move(directory, name, f"is {_kind(path)} and must be a file")]
    elif not (name.endswith(".wal") and _is_plain(path)):
        return []
    return _allow(path, 0o600) or _not_opened(directory, name)


def _not_opened(directory: Directory, name: str) -> list[RepairStep]:
    what = "opened"
    try:
        fd = directory.disk.open(directory.file(name))
        try:
            what = "read"
            if name in PLAIN:
                directory.disk.read(fd, PIECE, 0)
        finally:
            directory.disk.close(fd)
    except OSError as error:
        if error.errno in BROKEN:
            return [_move(directory, name, f"cannot be {what}: {error.strerror}")]
        return [RepairStep(f"{directory.file(name)} cannot be opened: {error.strerror}: remove the cause", None)]
    return []


def _quarantine(directory: Directory, path: str) -> list[RepairStep]:
    if os.path.isdir(path):
        if os.stat(path).st_dev == os.stat(directory.path).st_dev:
            return _allow(path, 0o700)
        if os.path.ismount(path):
            return [RepairStep(f"{path} is a mount of its own, files cannot be moved there: unmount it", None)]
    what = "leads to another file system" if os.path.isdir(path) else f"is {_kind(path)} and must be a directory"
    return [RepairStep(f"{path} {what}: move it aside, into a new {FOLDER}/", lambda: _renew(directory, path))]


def _renew(directory: Directory, path: str) -> None:
    aside = _free(f"{path}.aside")
    directory.disk.rename(path, aside)
    Quarantine(directory).move(os.path.basename(aside))


def _free(path: str) -> str:
    number = 0
    while os.path.lexists(f"{path}.{number}" if number else path):
        number += 1
    return f"{path}.{number}" if number else path


def _move(directory: Directory, name: str, why: str) -> RepairStep:
    words = f"{directory.file(name)} {why}: move it to {FOLDER}/"
    return RepairStep(words, lambda: Quarantine(directory).move(name))


def _is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _kind(path: str) -> str:
    mode = os.lstat(path).st_mode
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def overwritten(view: View, disk: Disk | None = None) -> list[RepairStep]:
    """Steps that copy the data that the next start will cut off, because it was never acked, or write again."""
    directory = Directory(view.directory.path, disk or world.disk())
    steps = [_copy_aside(directory, name, 0, "holds no sound record and will go") for name in removed(view)]
    tail = view.chunks[-1] if view.chunks and view.found.recovery.torn_bytes else None
    if tail is not None and directory.disk.status(directory.file(tail.name)).size > tail.end:
        steps.append(_copy_aside(directory, tail.name, tail.end, "was never finished and will be cut"))
    if _is_plain(directory.file("meta")) and unpack_meta(_begin(directory, "meta", META.size + 4)) is None:
        steps.append(_copy_aside(directory, "meta", 0, "is not sound and will be written again"))
    slots = [_begin(directory, "cursor", SLOT, offset) for offset in (0, SLOT)]
    if any(unpack_slot(slot) is None and slot.strip(b"\0") for slot in slots):
        steps.append(_copy_aside(directory, "cursor", 0, "is not sound in part and will be written again"))
    return steps


def half_headers(view: View, disk: Disk | None = None) -> list[RepairStep]:
    """Steps for chunks with one damaged copy of the header: it is written again from the other."""
    plain = Directory(view.directory.path, disk or world.disk())
    steps: list[RepairStep] = []
    for chunk in view.chunks:
        header = _begin(plain, chunk.name, CHUNK_START)
        copies = [header[:CHUNK_COPY], header[CHUNK_COPY:]]
        sound = [copy for copy in copies if unpack_chunk_header(copy) is not None]
        if len(sound) == 1:
            steps += [
                _copy_aside(plain, chunk.name, 0, "has a damaged header", CHUNK_START),
                _write_header(plain, chunk.name, sound[0] * 2),
            ]
    return steps


def _write_header(directory: Directory, name: str, header: bytes) -> RepairStep:
    def write() -> None:
        fd = directory.open(name)
        try:
            directory.write(name, fd, [header], 0)
            directory.sync(name, fd)
        finally:
            directory.disk.close(fd)

    return RepairStep(f"{directory.file(name)} has one sound copy of its header: write the other from it", write)


def unreadable(view: View, findings: list[Finding]) -> list[str]:
    """The losses that `pass_over` will report, in addition to those of the next start."""
    known = {(gap.first, gap.last) for gap in view.found.recovery.gaps}
    return [
        f"{finding}: report these positions as lost in {FOLDER}/, with a copy of what is left of them"
        for finding in findings
        if finding.first and finding.damage and (finding.first, finding.last) not in known
        if not view.found.acked.covers(finding.first, finding.last)
    ]


def pass_over(log: Log, read: Read) -> list[Gap]:
    """Reads all records that are still to be delivered, so that those that cannot be read are reported as lost now
    and not when their turn comes. `read` gets the number of bytes."""
    reader = log.reader()
    while records := reader.read(PIECE):
        read(sum(len(record.tag) + len(record.payload) for record in records))
    return reader.gaps


def renewed(view: View, disk: Disk | None = None) -> list[RepairStep]:
    """Steps for the files that the disk cannot read in full, once what is lost of them is reported: each becomes a
    copy that it can read. So the next start, which gives nothing up, does not stop at them."""
    directory = Directory(view.directory.path, disk or world.disk())
    return [
        RepairStep(
            f"{directory.file(name)} cannot be read in full: copy what can be read, and move the file to {FOLDER}/",
            partial(_renew_chunk, directory, name),
        )
        for name in sorted(view.directory.given_up)
        if NUMBERED.fullmatch(name)
    ]


def _renew_chunk(directory: Directory, name: str) -> None:
    """A start after a crash finds the records under one of the two names, or under both."""
    if not _is_plain(directory.file(name)):  # the log was opened, and needs it no more
        return
    aside = Directory(directory.path, directory.disk, gives_up=True)
    other = f"moved.{name}"
    fd = directory.open(name)
    try:
        size = directory.disk.stat(fd).size
        pages = Pages(aside, name, fd, size)
        pieces = (pages.read(at, min(PIECE, size - at)) for at in range(0, size, PIECE))
        replace(directory, other, pieces, temporary=AGAIN)
    finally:
        directory.disk.close(fd)
    Quarantine(directory).move(name)
    directory.rename(other, name)
    directory.sync_names()


def _copy_aside(directory: Directory, name: str, offset: int, why: str, size: int = 0) -> RepairStep:
    size = size or directory.disk.status(directory.file(name)).size - offset
    words = f"{directory.file(name)} {why}: copy its {size} bytes from byte {offset} on to {FOLDER}/"
    return RepairStep(words, lambda: _copy_as_it_is(directory, name, offset, size))


def _copy_as_it_is(directory: Directory, name: str, offset: int, size: int) -> None:
    fd = directory.open(name)
    try:
        aside = Directory(directory.path, directory.disk, gives_up=True)
        data = Pages(aside, name, fd, offset + size).read(offset, size)
    finally:
        directory.disk.close(fd)
    target = Directory(directory.file(FOLDER), directory.disk)
    target.disk.makedir(target.path)
    _save(target, os.path.basename(_free(target.file(f"{name}.copy"))), data)
    target.sync_names()
    directory.sync_names()


# Files of several logs, and no meta that says which one it is


class _Files(NamedTuple):
    chunks: dict[bytes, dict[str, int]]  # by log: name and size
    cursor: list[tuple[bytes, Slot]]
    newer: list[RepairStep]


def _several_logs(directory: Directory, keep: str) -> list[RepairStep]:
    files = _sort(directory)
    meta, newer = _meta(directory)
    newer += files.newer
    if newer:
        return newer
    known = set(files.chunks) | {log for log, _ in files.cursor}
    if meta is not None or len(known) < 2:
        return []
    kept = _kept(files, known, keep)
    steps = [_split(directory, log, files) for log in sorted(known - {kept})]
    what = f"{directory.file('meta')} is missing or damaged: write that this is log {kept.hex()}"
    return [*steps, RepairStep(what, lambda: write_meta(directory, kept))]


def _kept(files: _Files, known: set[bytes], keep: str) -> bytes:
    """The log to keep: the one asked for, otherwise the cursor's log, otherwise the one with the most bytes."""
    if keep:
        chosen = [log for log in known if log.hex() == keep.lower()]
        if not chosen:
            raise Unusable(
                f"no file here is of log {keep}: there are {', '.join(sorted(log.hex() for log in known))}"
            )
        return chosen[0]
    if files.cursor:
        return max(files.cursor, key=lambda one: one[1].generation)[0]
    return max(sorted(known), key=lambda log: sum(files.chunks[log].values()))


def _split(directory: Directory, log: bytes, files: _Files) -> RepairStep:
    """Moves the files of another log to a directory of their own, which is a log again."""
    names = sorted(files.chunks.get(log, {}))
    cursor = any(log == one for one, _ in files.cursor)
    where = f"{FOLDER}/log-{log.hex()}"
    held = f"{len(names)} chunk{'' if len(names) == 1 else 's'}" + (" and a copy of the cursor" if cursor else "")
    return RepairStep(
        f"the directory has files of another log, {log.hex()}: move them ({held}) to {directory.file(where)}, "
        f"a log of its own",
        lambda: _move_out(directory, Directory(directory.file(where), directory.disk), log, names, cursor=cursor),
    )


def _move_out(directory: Directory, target: Directory, log: bytes, names: list[str], *, cursor: bool) -> None:
    target.disk.makedir(target.path)
    write_meta(target, log)
    if cursor and not os.path.lexists(target.file("cursor")):
        _copy(directory, target, "cursor", 2 * SLOT)
    for name in (MARKS, ARRIVALS, TRAIL):  # without them events are sent or appended again
        if _is_of(directory, name, log) and not os.path.lexists(target.file(name)):
            _copy(directory, target, name, 2 * MARKS_SLOT)
    target.sync_names()
    for folder in (
        os.path.dirname(target.path),
        directory.path,
    ):  # or a power cut takes it, and what is moved into it
        directory.disk.sync_directory(folder)
    for name in names:
        directory.disk.rename(directory.file(name), _free(target.file(name)))
    target.sync_names()
    directory.sync_names()


def _is_of(directory: Directory, name: str, log: bytes) -> bool:
    slots = [_begin(directory, name, MARKS_SLOT, offset) for offset in (0, MARKS_SLOT)]
    return any(newest(log, [slot], magic) for slot in slots for magic in MAGICS)


def _copy(source: Directory, target: Directory, name: str, size: int) -> None:
    fd = source.open(name)
    try:
        data = source.disk.read(fd, size, 0)
    finally:
        source.disk.close(fd)
    _save(target, name, data)


def _save(target: Directory, name: str, data: bytes) -> None:
    fd = target.create(name)
    try:
        target.write(name, fd, [data], 0)
        target.sync(name, fd)
    finally:
        target.disk.close(fd)


def _sort(directory: Directory) -> _Files:
    files = _Files({}, [], [])
    for name in sorted(os.listdir(directory.path)):
        if not (name.endswith(".wal") and _is_plain(directory.file(name))):
            continue
        try:
            found = _chunk(directory, name)
        except NewerVersion:
            files.newer.append(_newer(directory, name))
            continue
        if found is not None:
            size = directory.disk.status(directory.file(name)).size
            files.chunks.setdefault(found[0], {})[name] = size
    for offset in (0, SLOT):
        slot = unpack_slot(_begin(directory, "cursor", SLOT, offset))
        if slot is not None:
            files.cursor.append(slot)
    return files


def _chunk(directory: Directory, name: str) -> tuple[bytes, ChunkHeader] | None:
    return unpack_chunk_header(_begin(directory, name, CHUNK_START))


def _meta(directory: Directory) -> tuple[bytes | None, list[RepairStep]]:
    try:
        return unpack_meta(_begin(directory, "meta", META.size + 4)), []
    except NewerVersion:
        return None, [_newer(directory, "meta")]


def _newer(directory: Directory, name: str) -> RepairStep:
    advice = f"run that version on {directory.path}, or give the log another path"
    return RepairStep(f"{directory.file(name)} was written by a newer walflow: {advice}", None)


def _begin(directory: Directory, name: str, size: int, offset: int = 0) -> bytes:
    """Empty where nothing can be read."""
    try:
        fd = directory.disk.open(directory.file(name))
    except OSError:
        return b""
    try:
        return directory.disk.read(fd, size, offset)
    except OSError:
        return b""
    finally:
        directory.disk.close(fd)
