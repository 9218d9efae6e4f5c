"""Tests acks, fails and breaker signals: a source that counts acks and fails, a sink that does what each event tells
it.

Made for tests of walflow and of connectors. The lines on stderr are the same as tremor's, because scripts look for
them.
"""

import asyncio
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import IO, ClassVar, Self, cast

from pydantic import Field, model_validator

from walflow import (
    Block,
    CannotDecode,
    CodecUse,
    Connector,
    Frames,
    Guarantee,
    Inlet,
    Outlet,
    Ports,
    Receipt,
    StreamId,
    Traits,
    WalflowError,
)
from walflow.framing import LINES
from walflow.world import wall_ns

NANOS = 1_000_000_000
TRIGGER = {"trigger", "close"}
RESTORE = {"restore", "open"}


class AskedToFail(WalflowError):
    """The event asked to be failed."""


class NoSuchEvents(WalflowError):
    """One of `paths` cannot be read."""


class Cb(Connector):
    """Made for tests. The source sends the lines of `paths`, waits for an ack or a fail of each, writes on stderr
    which came, and stops the daemon. The sink does what the event's field `cb`, or its metadata `$cb`, says: `ack`,
    `fail`, `trigger` (or `close`), `restore` (or `open`), or an array of these. It acks nothing else."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL, transactional=True, decodes=False, takes_bytes=False)

    paths: list[str] = Field(
        default_factory=list[str], description="Files to send. Each line is an event. The files take turns."
    )
    timeout: int = Field(
        default=10 * NANOS, ge=0, strict=True, description="Nanoseconds to wait for the last acks and fails."
    )
    expect_batched: bool = Field(
        default=False,
        description="Whether an ack or a fail of each file's last event is enough, because a batch gets only one.",
    )

    @model_validator(mode="after")
    def _no_zero_bytes(self) -> Self:
        if any("\0" in path for path in self.paths):
            raise ValueError("a path has no zero byte")
        return self

    def ports_used(self) -> Ports:
        return self.ports if self.paths else Ports(inputs=("in",), outputs=("err",))

    def how_to_use(self, port: str) -> str:
        return "it sends what is in the files that `paths` in its `config` names" if port == "out" else ""

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="made for tests: every event is sent once, and its ack or fail is written to stderr",
            sink="made for tests: an event is acked, failed or left unanswered, as the event itself says",
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        sink = _Sink(inlet)
        inlet.serve(sink.accept)
        try:
            if out.linked:
                await _Source(self, out).run()
            if inlet.linked:
                await asyncio.get_running_loop().create_future()  # until it is cancelled
        finally:
            sink.close()


class _Sink:
    def __init__(self, inlet: Inlet) -> None:
        self._inlet = inlet
        self._unanswered: list[Block] = []

    def accept(self, block: Block) -> None:
        for event in block.split([1] * block.frames.count):
            self._obey(event)

    def close(self) -> None:
        """Fails the events that were left unanswered, because no other answer will come."""
        unanswered, self._unanswered = self._unanswered, []
        for event in unanswered:
            self._inlet.fail(event, AskedToFail("the event asked for no answer, and the connector stops"))

    def _obey(self, event: Block) -> None:
        try:
            words = set(_words(event))
        except CannotDecode as error:
            self._inlet.reject(event, str(error))
            return
        if words & TRIGGER:
            self._inlet.trigger("an event asked for it")
        elif words & RESTORE:
            self._inlet.restore()
        if "ack" in words:
            self._inlet.ack(event)
        elif "fail" in words:
            self._inlet.fail(event, AskedToFail("the event asked for it"))
        else:
            self._unanswered.append(event)


def _words(event: Block) -> Iterator[str]:
    [value] = event.values
    meta = event.event_meta(0)
    given = meta.get("cb")
    if given is None and isinstance(value, dict):
        given = cast("dict[str, object]", value).get("cb")
    many = cast("list[object]", given) if isinstance(given, list) else [given]
    return (word for word in many if isinstance(word, str))


Answers = dict[int, list[int]]  # pull ids by stream


class _Source:
    """Pull ids count the events of all files; a stream is a file, by its place in `paths`."""

    def __init__(self, config: Cb, out: Outlet) -> None:
        self._config = config
        self._out = out
        self._sent = 0
        self._last: dict[int, int] = {}  # pull id by stream
        self._acks: Answers = defaultdict(list)
        self._fails: Answers = defaultdict(list)
        self._ready = asyncio.Event()
        self._answered = asyncio.Event()
        out.on_ready(self._ready.set)

    async def run(self) -> None:
        with ExitStack() as stack:
            files = [stack.enter_context(_open(path)) for path in self._config.paths]
            for number, line in _in_turns(files):
                await self._send(number, line.removesuffix(b"\n").removesuffix(b"\r"))
        if not self._complete():
            await self._wait()
        self._report()
        self._out.stop(graceful=True)

    async def _send(self, number: int, line: bytes) -> None:
        pull_id, self._sent = self._sent, self._sent + 1
        self._last[number] = pull_id
        verdict = self._out.codec.validate(LINES.join([line]), LINES)
        reason = None if verdict.good else verdict.bad[0][1]
        while True:
            self._ready.clear()
            block = self._block(number, pull_id, line)
            if reason is not None:
                self._out.reject(block, reason)
                return
            if self._out.send(block):
                return
            block.receipt.withdraw()
            await self._ready.wait()

    def _block(self, number: int, pull_id: int, line: bytes) -> Block:
        receipt = Receipt(partial(self._settled, number, pull_id), 1)
        frames = Frames(LINES.join([line]), 1, LINES)
        stream = StreamId(self._out.name, self._out.run, number)
        return Block(stream, frames, self._out.codec, receipt, ingest_ns=wall_ns(), meta={})

    def _settled(self, number: int, pull_id: int, receipt: Receipt) -> None:
        answers = self._acks if receipt.cause is None else self._fails
        answers[number].append(pull_id)
        self._answered.set()

    async def _wait(self) -> None:
        timed_out = asyncio.Event()
        timer = self._out.scheduler.call_later(self._config.timeout / NANOS, timed_out.set)
        timed_out_task = asyncio.ensure_future(timed_out.wait())
        try:
            while not self._complete() and not timed_out.is_set():
                self._answered.clear()
                answered = asyncio.ensure_future(self._answered.wait())
                await asyncio.wait([answered, timed_out_task], return_when=asyncio.FIRST_COMPLETED)
                answered.cancel()
        finally:
            timer.cancel()
            timed_out_task.cancel()

    def _complete(self) -> bool:
        if self._config.expect_batched:
            return self._highest() == self._last
        return sum(len(ids) for ids in [*self._acks.values(), *self._fails.values()]) == self._sent

    def _highest(self) -> Mapping[int, int]:
        streams = self._acks.keys() | self._fails.keys()
        return {number: max(self._acks.get(number, []) + self._fails.get(number, [])) for number in streams}

    def _report(self) -> None:
        result = (
            "All required CB events received." if self._complete() else f"Expected CB events up to id {self._last}."
        )
        lines = [result, f"Got acks: {dict(self._acks)}", f"Got fails: {dict(self._fails)}"]
        if sys.stderr is not None:  # it was closed
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            sys.stderr.flush()


def _open(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except OSError as error:
        raise NoSuchEvents(f"cannot read {path}: {error.strerror}") from error


def _in_turns(files: Sequence[IO[bytes]]) -> Iterator[tuple[int, bytes]]:
    """A line of each, until all have ended."""
    for lines in itertools.zip_longest(*files):
        yield from ((number, line) for number, line in enumerate(lines) if line is not None)
