"""Skips events that no sink will ever accept. The log must not be in use; skipped events are kept and reported."""

from typing import NamedTuple

from walflow.errors import WalflowError
from walflow.wal.chunk import Pages
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.wal.log import Log
from walflow.wal.quarantine import FOLDER, Gap, Quarantine, stem
from walflow.wal.tools.inspect.walk import Read, RecordAt, unreported, walk
from walflow.wal.trail import SKIPPED


class NothingToSkip(WalflowError):
    """The log has no such positions, or they are acked."""


class Skipped(NamedTuple):
    """Positions `first` to `last`, which are in `place`.
    `report` is the file in the log's directory with the report."""

    first: int
    last: int
    place: RecordAt
    report: str


def skippable(acked: Acked, durable: int, first: int, last: int) -> list[tuple[int, int]]:
    """The parts of the range that are still to be delivered. Raises NothingToSkip."""
    if last > durable:
        has = f"its positions end at {durable}" if durable else "it has no event yet"
        raise NothingToSkip(f"the log has no position {last}: {has}")
    parts = acked.missing(first, last)
    if not parts:
        what = f"position {first} is" if first == last else f"positions {first} to {last} are"
        raise NothingToSkip(f"{what} acked already: there is nothing to skip")
    return parts


def within(places: list[RecordAt], parts: list[tuple[int, int]]) -> list[Skipped]:
    """The positions, grouped by record."""
    return [
        Skipped(max(first, place.first), min(last, place.last), place, "")
        for place in places
        for first, last in parts
        if first <= place.last and last >= place.first
    ]


def skip(log: Log, first: int, last: int, by: str, read: Read = unreported) -> list[Skipped]:
    """Acks the positions durably, after their records are copied to quarantine/. Raises NothingToSkip, DiskFull,
    FailStop, or OSError if a copy cannot be made: then nothing is acked."""
    parts = skippable(log.acked, log.durable, first, last)
    aside = Directory(log.directory.path, log.disk, gives_up=True)  # of what cannot be read, that is what is wanted
    skipped = within(list(walk(aside, log.chunks, first, last, read)), parts)
    # First the copies and reports, synced with their names, then the cursor. A crash between the two leaves reports
    # of events that are delivered all the same, and skipping them again finds the reports in place. The other way
    # round it could leave events that are neither delivered nor kept.
    done = [_keep(log, aside, one, by) for one in skipped]
    for low, high in parts:
        log.trail.gone("", SKIPPED, low, high)
        log.ack(low, high)
    checkpoint = log.checkpoint(force=True)
    assert checkpoint is not None, "no other thread works on this log"
    checkpoint.flush()
    log.checkpointed(checkpoint)
    return done


def _keep(log: Log, directory: Directory, one: Skipped, by: str) -> Skipped:
    file, offset, size, found = one.place
    reason = f"{SKIPPED}, {found.reason} before" if isinstance(found, Gap) else SKIPPED
    gap = Gap(one.first, one.last, file, offset, size, reason)
    fd = log.disk.open(log.directory.file(file)) if file and size else None
    try:
        pages = Pages(directory, file, fd, offset + size) if fd is not None else None
        Quarantine(log.directory).report(gap, pages, by=by)
    finally:
        if fd is not None:
            log.disk.close(fd)
    return one._replace(report=f"{FOLDER}/{stem(gap)}.json")
