"""The writers of a table: one for each log that its events come from."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from walflow import world
from walflow.frontier import (
    RENEWED,
    Begin,
    Frontier,
    FrontierRefused,
    FrontierTaken,
    Keep,
    KeptFrontiers,
    LogView,
    OtherWriter,
    Put,
    ReadFrontier,
    ReceiverWentBack,
    Rest,
    Step,
    Take,
    WriterKeys,
    after_lost_token,
    opening,
    refused,
)
from walflow.tables.store import TableStore
from walflow.world import monotonic

TOLD: Final = 1.0  # seconds between two writes of what the receiver has confirmed

R = TypeVar("R")


@dataclass(slots=True)
class LogWriter:
    """Of one log. `opening`: while it lasts; `step`: that is not answered."""

    kept: KeptFrontiers
    keys: WriterKeys
    frontier: Frontier = field(default_factory=Frontier)
    opening: Generator[Step, Frontier | None, object] | None = None
    step: Step | None = None
    told_at: float = 0.0
    renewed_at: float = 0.0
    lost: int = 0


class LogWriters(Generic[R]):
    """Changed on the job's thread alone, and read on the loop between two jobs."""

    def __init__(self, store: TableStore[R], sink: str) -> None:
        self._store = store
        self._sink = sink
        self._writers: dict[str, LogWriter] = {}

    def __len__(self) -> int:
        return len(self._writers)

    def __getitem__(self, log: str) -> LogWriter:
        return self._writers[log]

    def __iter__(self) -> Iterator[str]:
        """Those that may write."""
        return (log for log, writer in self._writers.items() if writer.opening is None)

    def __contains__(self, log: str) -> bool:
        """Whether it may write."""
        writer = self._writers.get(log)
        return writer is not None and writer.opening is None

    def open(self, log: str, view: LogView, directory: str) -> Rest | None:
        """None: it may write. Else how long to wait before this is called again.
        Raises FrontierRefused, CannotUse, OSError."""
        writer = self._writers.get(log)
        if writer is None:
            kept = KeptFrontiers(world.disk(), directory)
            writer = LogWriter(kept, kept.read(self._sink))
            if writer.keys.moved_from:
                self._move(log, writer.keys.moved_from)
            writer.opening = opening(writer.keys, view, monotonic)
            writer.step = next(writer.opening)
            self._writers[log] = writer
        assert writer.opening is not None
        assert writer.step is not None
        while True:
            answer = self._answer(log, writer, writer.step)
            try:
                writer.step = writer.opening.send(answer)
            except StopIteration as stop:
                taken = stop.value
                if not isinstance(taken, FrontierTaken):
                    del self._writers[log]
                    raise FrontierRefused(taken) from None
                writer.opening = writer.step = None
                writer.frontier, writer.keys, writer.lost = taken.frontier, taken.keys, taken.lost
                return None
            if isinstance(writer.step, Rest):
                return writer.step

    def _move(self, log: str, old: str) -> None:
        """From the sink's old name. Who still writes under it is refused."""
        with self._store.transaction() as undo:
            found = self._store.read(log, old)
            if found is None or self._store.read(log, self._sink) is not None:
                undo()
                return
            self._store.write(log, self._sink, found)
            gone = msgspec.structs.replace(found, token="", epoch=found.epoch + 1, moved_to=self._sink)
            self._store.write(log, old, gone)

    def _answer(self, log: str, writer: LogWriter, step: Step) -> Frontier | None:
        match step:
            case ReadFrontier():
                return self._store.look(log, self._sink)
            case Keep(keys):
                writer.kept.write(self._sink, keys)
                return None
            case Begin() | Take() | Put():
                return self._changed(log, step)
            case Rest():
                return None

    def _changed(self, log: str, step: Begin | Take | Put) -> Frontier | None:
        with self._store.transaction() as undo:
            found = self._store.read(log, self._sink)
            changed = _after(step, found)
            if changed is None or changed is found:
                undo()
                return changed
            self._store.write(log, self._sink, changed)
        return changed

    def renew(self, logs: Iterable[str]) -> None:
        """Signs of life."""
        now = monotonic()
        for log in logs:
            if now - self._writers[log].renewed_at >= RENEWED / 2:
                self.look_again(log)

    def look_again(self, log: str) -> Frontier:
        """What the table has of it, once every older transaction has ended; by a change of its own, so that what was
        read is as safe as a commit. Raises FrontierRefused."""
        with self._store.transaction():
            found = self.mine(log).renewed()
            self._store.write(log, self._sink, found)
        self.stored({log: found})
        return found

    def mine(self, log: str) -> Frontier:
        """In a transaction: the frontier, which has our token. Raises FrontierRefused."""
        writer = self._writers[log]
        found = self._store.read(log, self._sink)
        if found is None or found.token != writer.frontier.token:
            raise self._refused(writer, after_lost_token(found, writer.keys), found)
        if found.lacks(writer.keys.confirmed):
            went_back = ReceiverWentBack(found.highest, writer.keys.confirmed.position)
            raise self._refused(writer, went_back, found)
        return found

    def _refused(
        self, writer: LogWriter, verdict: ReceiverWentBack | OtherWriter, found: Frontier | None
    ) -> FrontierRefused:
        writer.keys = refused(writer.keys, verdict, found)
        with suppress(OSError):  # for `walflow frontier`; the next start finds it again
            writer.kept.write(self._sink, writer.keys)
        return FrontierRefused(verdict)

    def stored(self, frontiers: Mapping[str, Frontier]) -> None:
        """They are in the table."""
        for log, frontier in frontiers.items():
            writer = self._writers[log]
            writer.frontier = frontier
            writer.renewed_at = monotonic()

    def told(self) -> None:
        """What the receiver has confirmed. If it cannot be written, a receiver that goes back is noticed by less."""
        now = monotonic()
        for log in self:
            writer = self._writers[log]
            writer.keys = writer.keys.told(writer.frontier)
            if now - writer.told_at >= TOLD:
                writer.told_at = now
                with suppress(OSError):
                    writer.kept.write(self._sink, writer.keys)

    def close(self) -> None:
        for log in self:
            writer = self._writers[log]
            with suppress(OSError):
                writer.kept.write(self._sink, writer.keys)


def _after(step: Begin | Take | Put, found: Frontier | None) -> Frontier | None:
    """What this step makes of a frontier. None: it is not ours; the frontier itself: nothing is to be changed."""
    match step:
        case Begin(frontier):
            return frontier if found is None else found
        case Take(tokens, token):
            if found is None or found.token not in tokens:
                return None
            return msgspec.structs.replace(found, token=token, epoch=found.epoch + 1, beat=found.beat + 1)
        case Put(frontier):
            return frontier if found is not None and found.token == frontier.token else None
