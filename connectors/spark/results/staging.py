"""What Spark's tasks have written and is not published yet: a file each, `<name>.<rows>`, its lines and no more.

Spark cannot always say what is to be thrown away: when one task fails, those that had finished are not named to
`abort`. So what is not asked for is removed after an hour. A restart keeps whole files: the driver may be about to
publish them.
"""

import errno
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from pyspark_walflow.wire import Code, RequestRefused
from walflow import Codec, Counter
from walflow.files import Disk
from walflow.framing import LINES
from walflow.wal import FULL

NAME: Final = re.compile(r"[0-9a-f]{32}")
WHOLE: Final = re.compile(r"([0-9a-f]{32})\.([0-9]{1,19})")
BATCHES: Final = 4  # so many of the largest batches may lie here together
ORPHAN_SECONDS: Final = 3600.0
YOUNG_SECONDS: Final = 60.0  # what is younger does not make room for others
SYNC_BYTES: Final = 4 << 20  # so that the last sync is short

T = TypeVar("T")


class StagingRun(Protocol):
    """Runs a call on a thread where it may block, one at a time and in order."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class StagingLimits(NamedTuple):
    """In bytes: of one batch (and so of one stage), of one row."""

    batch: int
    row: int


class Staged(NamedTuple):
    name: str
    rows: int
    size: int

    @property
    def file(self) -> str:
        return f"{self.name}.{self.rows}"


class Staging:
    """`held`: names that are being published. They are never removed. `orphans` counts stages that were never
    published. Raises Refused."""

    def __init__(
        self,
        path: str,
        disk: Disk,
        run: StagingRun,
        time: Callable[[], float],
        codec: Codec,
        limits: StagingLimits,
        orphans: Counter,
    ) -> None:
        self._path = path
        self._disk = disk
        self._run = run
        self._time = time
        self._codec = codec
        self._limits = limits
        self._whole: dict[str, tuple[Staged, float]] = {}  # oldest first, and since when
        self._writing = 0  # bytes of what is not whole yet
        self._parts = 0
        self._orphans = orphans
        self.held: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<Staging {self._path!r} {len(self._whole)} files, {self.size} bytes>"

    @property
    def size(self) -> int:
        return sum(staged.size for staged, _ in self._whole.values()) + self._writing

    def open(self) -> None:
        """Takes up whole files, and removes what a crash left half written. Raises OSError."""
        self._disk.makedir(self._path)
        for file in self._disk.names(self._path):
            found = WHOLE.fullmatch(file)
            if found is None or found[1] in self._whole:  # of two under one name Spark heard of one at most
                self._disk.unlink(self._file(file))
            else:
                staged = Staged(found[1], int(found[2]), self._size_of(file))
                self._whole[staged.name] = staged, self._time()

    async def add(self, name: str, lines: AsyncIterator[bytes]) -> Staged:
        """Writes a stage; it is durable when the call returns. A stage with the same name is replaced: its sender got
        no answer."""
        if NAME.fullmatch(name) is None:
            raise RequestRefused(Code.PROTOCOL, "the name of a stage is 32 hexadecimal digits")
        self._not_held(name)
        self._parts += 1
        part = StagedPart(self._disk, self._file(f"{name}.{self._parts}.part"), self._codec, self._limits)
        charged = 0
        try:
            await self._try(part.create)
            async for data in lines:
                await self._make_room(charged, len(data))
                charged += len(data)
                self._writing += len(data)
                await self._feed(part, data)
            await self._try(part.end)
            self._not_held(name)  # it may have come twice, and be asked for since
            return await self._enter(part, Staged(name, part.rows, part.size))
        finally:
            self._writing -= charged
            await self._run(part.discard)

    def find(self, names: Sequence[str]) -> tuple[Staged, ...]:
        if len(set(names)) < len(names):
            raise RequestRefused(Code.PROTOCOL, "a batch cannot have one stage twice")
        for name in names:
            if name not in self._whole:
                raise RequestRefused(
                    Code.UNKNOWN_STAGE,
                    f"stage {name[:32]!r} is not here: it was aborted, or it was not published in time; "
                    "the batch must be written again",
                )
        return tuple(self._whole[name][0] for name in names)

    async def remove(self, names: Iterable[str]) -> None:
        """Removes stages, except those that are being published. A file that cannot be removed now is an orphan after
        the next start."""
        files = [self._whole.pop(name)[0].file for name in names if name in self._whole and name not in self.held]
        if files:
            await self._run(lambda: self._unlink(files))

    async def sweep(self) -> None:
        """Removes stages that were not published within an hour."""
        await self._orphan(self._older(ORPHAN_SECONDS))

    async def blocks(self, staged: Sequence[Staged], cap: int, skip: int) -> AsyncGenerator[tuple[bytes, int], None]:
        """Of what is being published: whole lines and how many, at most `cap` bytes or one longer line; all but the
        first `skip`. Raises OSError where a file is not what it was."""
        await self._run(lambda: self._check(staged))
        lines = self._lines(staged, cap, skip)
        try:
            while (block := await self._run(lambda: next(lines, None))) is not None:
                yield block
        finally:
            await self._run(lines.close)

    # of what is being published; these block

    def _check(self, staged: Iterable[Staged]) -> None:
        for one in staged:
            if self._size_of(one.file) != one.size:
                raise OSError(errno.EIO, "has another size than it was written with", one.file)

    def _lines(self, staged: Iterable[Staged], cap: int, skip: int) -> Generator[tuple[bytes, int], None, None]:
        for one in staged:
            if skip >= one.rows:
                skip -= one.rows
                continue
            for data, count in self._lines_of(one, cap):
                if count <= skip:
                    skip -= count
                elif skip:
                    yield data[LINES.index(data)[skip - 1] :], count - skip
                    skip = 0
                else:
                    yield data, count

    def _lines_of(self, staged: Staged, cap: int) -> Generator[tuple[bytes, int], None, None]:
        fd = self._disk.open(self._file(staged.file))
        try:
            rest = b""
            offset = rows = 0
            while offset < staged.size:
                wanted = max(cap - len(rest), len(rest))  # doubled for a long line, lest it be copied too often
                data = self._disk.read(fd, min(wanted, staged.size - offset), offset)
                if not data:
                    break
                offset += len(data)
                data = rest + data
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                if end:
                    count = LINES.count(data[:end])
                    rows += count
                    yield data[:end], count
            if rest or rows != staged.rows:
                raise OSError(errno.EIO, "has other lines than it was written with", staged.file)
        finally:
            self._disk.close(fd)

    def _size_of(self, file: str) -> int:
        fd = self._disk.open(self._file(file))
        try:
            return self._disk.stat(fd).size
        finally:
            self._disk.close(fd)

    # of what is being written

    async def _feed(self, part: "StagedPart", data: bytes) -> None:
        await self._try(lambda: part.write(data))

    async def _enter(self, part: "StagedPart", staged: Staged) -> Staged:
        before = self._whole.pop(staged.name, None)

        def rename() -> None:
            self._disk.rename(part.path, self._file(staged.file))
            if before is not None and before[0].file != staged.file:
                self._disk.unlink(self._file(before[0].file))
            self._disk.sync_directory(self._path)

        await self._try(rename)
        self._whole[staged.name] = staged, self._time()
        return staged

    def _not_held(self, name: str) -> None:
        if name in self.held:
            raise RequestRefused(Code.PROTOCOL, "a stage of that name is being published")

    async def _make_room(self, charged: int, more: int) -> None:
        if charged + more > self._limits.batch:
            raise too_large("a task", charged + more, self._limits.batch)
        limit = BATCHES * self._limits.batch
        for name in self._older(YOUNG_SECONDS):
            if self.size + more <= limit:
                break
            await self._orphan([name])
        if self.size + more > limit:
            raise RequestRefused(
                Code.NO_SPACE, f"{self.size:,} bytes of results wait to be published, and {limit:,} may"
            )

    def _older(self, seconds: float) -> list[str]:
        now = self._time()
        return [name for name, (_, since) in self._whole.items() if now - since >= seconds and name not in self.held]

    async def _orphan(self, names: Sequence[str]) -> None:
        self._orphans.value += len(names)
        await self.remove(names)

    async def _try(self, call: Callable[[], None]) -> None:
        try:
            await self._run(call)
        except OSError as error:
            code = Code.NO_SPACE if error.errno in FULL else Code.INTERNAL
            raise RequestRefused(code, f"results cannot be staged in {self._path}: {error.strerror}") from error

    def _unlink(self, files: Iterable[str]) -> None:
        for file in files:
            try:
                self._disk.unlink(self._file(file))
            except OSError:
                pass

    def _file(self, name: str) -> str:
        return f"{self._path}/{name}"


class StagedPart:
    """A stage that is being written: every line is checked first. Its methods block."""

    def __init__(self, disk: Disk, path: str, codec: Codec, limits: StagingLimits) -> None:
        self._disk = disk
        self._codec = codec
        self._limits = limits
        self._fd = -1
        self._tail = bytearray()
        self._unsynced = 0
        self.path = path
        self.rows = self.size = 0

    def create(self) -> None:
        self._fd = self._disk.open(self.path, exclusive=True)

    def write(self, data: bytes) -> None:
        """Lines may begin and end anywhere in it."""
        whole = LINES.cut(self._tail, data)
        self._measure(len(self._tail), 1)
        if not whole:
            return
        if len(whole) > self._limits.row:
            for number, line in enumerate(LINES.payloads(whole), 1):
                self._measure(len(line), number)
        self._validate(whole)
        self._disk.write(self._fd, [whole], self.size)
        self.size += len(whole)
        self.rows += LINES.count(whole)
        self._unsynced += len(whole)
        if self._unsynced >= SYNC_BYTES:
            self._sync()

    def end(self) -> None:
        if self._tail:
            raise RequestRefused(Code.PROTOCOL, f"row {self.rows + 1} of a task does not end in a newline")
        self._sync()

    def discard(self) -> None:
        """Closes and removes the unfinished file. Does nothing when the stage is complete."""
        if self._fd < 0:
            return
        self._disk.close(self._fd)
        try:
            self._disk.unlink(self.path)
        except OSError:
            pass  # the next start removes it

    def _measure(self, size: int, number: int) -> None:
        if size > self._limits.row:
            raise too_large(f"row {self.rows + number} of a task", size, self._limits.row)

    def _validate(self, whole: bytes) -> None:
        if not self._codec.validate(whole, LINES).bad:
            return
        for number, line in enumerate(LINES.payloads(whole), self.rows + 1):
            bad = self._codec.validate(line + b"\n", LINES).bad
            if bad:
                raise RequestRefused(Code.PROTOCOL, f"row {number} of a task is no event: {bad[0][1]}")

    def _sync(self) -> None:
        self._disk.sync(self._fd)
        self._unsynced = 0


def too_large(what: str, size: int, limit: int) -> RequestRefused:
    return RequestRefused(
        Code.TOO_LARGE,
        f"{what} has {size:,} bytes of results and {limit:,} are the most; raise max_result_bytes, and chunk_size or "
        "max_chunks where results do not fit their log, or let a batch be smaller (max_rows_per_batch)",
    )
