"""A log on disk between a source and its sinks. An event that it has acked is delivered, even if the process, the
machine or a sink dies.

If `sync` says not to wait for the disk, or `on_full` says to drop the oldest events, `check` says what may be lost.

One ack domain ends here and the next begins. The sink half acks upstream once a block is on disk. The source half
sends the block until every sink that the pipelines choose for it has acked or rejected it.
"""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from walflow import (
    Claim,
    CodecUse,
    Connector,
    Duration,
    Families,
    Guarantee,
    Inlet,
    Lossless,
    Need,
    Outlet,
    Risk,
    Size,
    Traits,
)
from walflow.delivery import (
    LETTER_FAMILIES,
    LOG_FAMILIES,
    Arriving,
    Checkpoints,
    Dropping,
    LetterBounds,
    LetterBox,
    LogSink,
    LogSource,
    Recalling,
    Retention,
    Syncing,
    Tags,
    kept_bytes,
    kept_note,
    measure,
    measure_writer,
)
from walflow.files import error_on_thread, made_directory, read_on_thread, room, unlocked
from walflow.wal import Commit, Log, LogOptions
from walflow.world import handover

APPENDED_AGAIN: Final = ". What a log upstream sends again after a crash is appended again"


class Wal(Connector):
    traits: ClassVar[Traits] = Traits(
        codec=CodecUse.FORBIDDEN, transactional=True, forwards=True, passes=True, positions=True
    )
    families: ClassVar[Families] = {**LOG_FAMILIES, **LETTER_FAMILIES}

    path: str = Field(
        min_length=1,
        validation_alias=AliasChoices("path", "dir"),
        description="Directory of the log. It is made with mode 0700 if it is missing. `dir` is its older name.",
    )
    chunk_size: Size = Field(
        default=64 << 20, ge=1024, le=1 << 40, description="Size in bytes after which a new file begins."
    )
    max_chunks: int = Field(
        default=16,
        ge=1,
        le=1 << 32,
        description="The most files. The log takes at most chunk_size x max_chunks bytes on disk.",
    )
    max_attempts: int | None = Field(
        default=None,
        ge=1,
        description="How often a single event may fail before it leaves by the err port. A failure counts only if "
        "the sink has taken another event since the one before. Default: no limit.",
    )

    max_elements: int | None = Field(
        default=None,
        ge=1,
        description="The most events that may wait in the log, beside the limit in bytes. Default: no limit.",
    )
    read_count: int | None = Field(
        default=None,
        ge=1,
        description="The most events that may be sent to the sinks of a lane and not yet acked. Default: "
        "no limit but the window in bytes.",
    )

    sync: Literal["always", "interval", "never"] = Field(
        default="always",
        description="When an event is synced to disk. `always`: before it is acked to its source. `interval`: at "
        "most `sync_interval` after that. `never`: when the kernel writes it; the log is synced when it is closed. A "
        "crash of walflow alone loses nothing in any mode. A power cut may lose, with `interval`, the events of the "
        "last interval; with `never`, all that the kernel had not written "
        "(about half a minute of events, as a rule).",
    )
    sync_interval: int = Field(
        default=1_000_000_000,
        ge=1_000_000,
        description='For `sync = "interval"`: nanoseconds from an ack to its sync.',
    )
    lanes: Literal["apart", "together"] = Field(
        default="apart",
        description="How events are sent to several sinks. `apart`: each sink gets them at its own pace, in a lane "
        "of its own; what not all have acked stays in the log. Sinks that depend on a common operator share a lane. "
        "`together`: a sink that is away, or slow, stops the others.",
    )
    on_full: Literal["block", "drop_oldest"] = Field(
        default="block",
        description="What happens when the log is full (`chunk_size` x `max_chunks` bytes). `block`: the sources "
        "stop until events are acked. `drop_oldest`: the oldest file is deleted, with all events in it that are not "
        "acked. Each such gap is logged and counted, and the count survives a restart. "
        "A full disk always stops the sources.",
    )

    retain: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        description="How long events stay in the log once all sinks have acked them: nanoseconds, or a string as "
        '`"24h"`. They are deleted file by file, the oldest first, an eighth of it later at most. Default: no limit '
        "if `retain_bytes` is there, otherwise nothing is kept.",
        examples=["24h"],
    )
    retain_bytes: Annotated[Size, Field(gt=0)] | None = Field(
        default=None,
        description="The most bytes of acked events that are kept, beside chunk_size x max_chunks. On a full disk "
        "they go first. Default: chunk_size x max_chunks if `retain` is there, otherwise nothing is kept.",
        examples=["10GiB"],
    )

    letters: bool | None = Field(
        default=None,
        description="Whether the log keeps the events that a sink rejects, as letters of that sink. "
        "`walflow letters` shows them, sends them again, and drops them. Default: of each sink whose `err` is not "
        "linked.",
    )
    letters_bytes: Size = Field(
        default=64 << 20,
        ge=64 << 10,
        le=1 << 40,
        description="The most bytes of letters of one sink, beside chunk_size x max_chunks. Then the oldest go.",
    )
    letters_events: int = Field(
        default=100_000, ge=1, description="The most letters of one sink. Then the oldest go."
    )
    letters_age: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        description='How long a letter stays: nanoseconds, or a string as `"30d"`. Default: there is no limit.',
        examples=["30d"],
    )

    @model_validator(mode="after")
    def _interval_is_used(self) -> Self:
        if "sync_interval" in self.model_fields_set and self.sync != "interval":
            raise ValueError(f'sync_interval is for sync = "interval", and sync is "{self.sync}"')
        if self.max_elements is not None and self.on_full == "drop_oldest":
            raise ValueError('max_elements is for on_full = "block": what is dropped is a file, not an event')
        return self

    @property
    def kept_bytes(self) -> int:
        """Of acked events, at most."""
        return kept_bytes(self.retain, self.retain_bytes, self.chunk_size * self.max_chunks)

    def parts(self) -> bool:
        return self.lanes == "apart"

    def keeps_letters(self) -> bool | None:
        return self.letters

    def claims(self) -> Sequence[Claim]:
        return (Claim("log directory", os.path.realpath(self.path)),)

    def needs(self) -> Sequence[Need]:
        return (
            made_directory(self.path),
            unlocked(self.path),
            room(self.path, self.chunk_size * self.max_chunks + self.kept_bytes),
        )

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        budget = self.chunk_size * self.max_chunks
        then = "it stops its sources" if self.on_full == "block" else "its oldest file is dropped"
        events = f" and {self.max_elements:,} events" if self.max_elements is not None else ""
        bound = f"the log in {self.path} takes up to {budget:,} bytes on disk{events}, then {then}"
        notes: tuple[str, ...] = (bound,) if self.on_full == "block" else ()
        if kept := kept_note(self.kept_bytes, self.retain):
            notes += (kept,)
        warnings = [] if self.on_full == "block" else [Risk("deletes", bound)]
        if self.chunk_size < 1 << 20:
            slow = (
                f"a chunk_size of {self.chunk_size:,} bytes costs a new file for every {self.chunk_size:,} bytes "
                "logged; 1 MiB and more is several times as fast"
            )
            warnings.append(Risk("many-files", slow))
        synced = self.sync == "always"
        delivers, acks = self._delivers(), self._acks()
        return Guarantee(
            source=Lossless(delivers) if synced and self.on_full == "block" else delivers,
            sink=Lossless(acks) if synced else acks + (APPENDED_AGAIN if behind_log else ""),
            once=behind_log and synced,
            warnings=tuple(warnings),
            notes=notes,
        )

    def _delivers(self) -> str:
        until = (
            "every event is sent to every sink that the pipelines choose for it, and again after a failure or a "
            "restart, until that sink has acked or rejected it. A sink may get it twice. It is "
        )
        kept = "never lost" if self.sync == "always" else "lost only with what a power cut takes from the log"
        if self.on_full == "block":
            return until + kept
        return (
            f"{until}{kept}; but while the log is full, the oldest events that are not acked are dropped and counted"
        )

    def _acks(self) -> str:
        if self.sync == "always":
            return "an event is acked after its bytes were written to the log and fdatasync returned"
        acked = (
            "an event is acked after its bytes were written to the operating system: it survives a crash of walflow, "
        )
        if self.sync == "interval":
            return (
                f"{acked}and a power cut once the sync is done that begins at most {self.sync_interval / 1e9:g} "
                "s later"
            )
        return f"{acked}not a power cut before the kernel has written it"

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await self.relay(Log(self.options()), inlet, out)

    async def relay(self, log: Log, inlet: Inlet, out: Outlet) -> None:
        """Until it is cancelled. Closes the log."""
        for line in log.recovery.lines():  # what is lost is told by the reader, as all damage is
            out.log.info("recovery", found=line)
        out.log.info("log open", replays=log.recovery.backlog, durable=log.durable, budget=log.budget, sync=self.sync)
        arriving = await _known(log, inlet, out, arrivals=self.sync == "always")
        running = RunningLog(self, log, inlet, out, arriving)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            running.stop()
            await _close(log, running, out)

    def options(self) -> LogOptions:
        return LogOptions(
            self.path,
            self.chunk_size,
            self.max_chunks,
            sync=self.sync,
            retain_bytes=self.kept_bytes,
            retain_ns=self.retain,
        )


class RunningLog:
    """The parts of a log, connected and running."""

    def __init__(self, config: Wal, log: Log, inlet: Inlet, out: Outlet, arriving: Arriving | None = None) -> None:
        tags = Tags()
        self.checkpoints = Checkpoints(log, inlet.scheduler, inlet, lambda: self.writer.room())
        self.reader = LogSource(
            log, out, tags, self.checkpoints, config.max_attempts, config.read_count, self.is_full
        )
        self.retention = Retention(log, inlet, self.checkpoints, config.retain)
        bounds = LetterBounds(config.letters_bytes, config.letters_events, config.letters_age)
        self.letters = [LetterBox(way, log, out, bounds, config.max_attempts) for way in out.letters]
        for box in self.letters:
            box.begin()
        self.syncing = Syncing(log, inlet, config.sync_interval / 1e9, self.checkpoints.acked)
        self._measure = measure(log, inlet, self.reader)
        on_commit = self._written if config.sync == "interval" else self._measure
        make_way = Dropping(log, inlet, self.reader.forget).make_way if config.on_full == "drop_oldest" else None
        self.writer = LogSink(
            log,
            inlet,
            tags,
            self.reader.pump,
            self.checkpoints,
            on_commit,
            make_way,
            config.max_elements,
            arriving=arriving,
            takes_back=True,
            retention=self.retention,
        )
        measure_writer(self.writer, inlet)
        inlet.serve(self.writer.accept)
        self.reader.pump()

    def stop(self) -> None:
        """Starts no more work. Work that has started goes on."""
        self.reader.stop()
        self.writer.stop()
        self.syncing.stop()
        self.retention.stop()
        self.checkpoints.stop()
        for box in self.letters:
            box.stop()

    def is_full(self) -> bool:
        return self.writer.is_full

    def _written(self, commit: Commit) -> None:
        self._measure(commit)
        self.syncing.written()


async def _known(log: Log, inlet: Inlet, out: Outlet, *, arrivals: bool) -> Arriving | None:
    """Reads, before the log takes events, which ones it has of those that its sources may send again. Returns the
    events of logs and files upstream: None without such sources, or without `arrivals`."""
    recalling, upstream = Recalling(log, inlet), inlet.upstream
    arriving = Arriving(log, inlet) if arrivals and (upstream.straight or upstream.straight_files) else None
    try:
        if recalling.needed:
            recalling.tell(out, await read_on_thread(out, recalling.read))
        if arriving is not None:
            arriving.tell(out, await read_on_thread(out, arriving.open))
    except BaseException:
        await error_on_thread(out, log.close)  # behind the job
        raise
    return arriving


async def _close(log: Log, running: RunningLog, out: Outlet) -> None:
    """Waits for the work of both threads and for the runtime to see its result. Then writes the last cursor, and
    closes the files."""
    await error_on_thread(out, lambda: None)
    await error_on_thread(out, lambda: None, urgent=True)
    out.log.info("log closing", left=running.reader.backlog(), durable=log.durable)
    abandon = handover().watched  # the process before may go on from the cursor that it left
    for box in running.letters:
        await error_on_thread(out, partial(box.close, abandon=abandon))
        box.closed()
    await error_on_thread(out, log.abandon if abandon else log.close)
    if log.failure is not None:  # nothing is lost, and the disk has failed all the same
        out.fatal(log.failure)
