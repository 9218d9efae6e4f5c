import os
import sqlite3
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from pydantic import AliasChoices, Field

from connectors.kv.commands import BadCommand, KvAnswer, KvCommand, carry_out, command_of
from connectors.kv.store import CannotStore, KvStore
from walflow import (
    Block,
    CannotDecode,
    Claim,
    CodecUse,
    Connector,
    Families,
    Family,
    Guarantee,
    Inlet,
    JobEnd,
    JobSink,
    Lossless,
    Outlet,
    Ports,
    SinkWork,
    Traits,
)
from walflow.delivery import AnswerEvents
from walflow.net import NotConfirmed

Outcome = Sequence[KvAnswer] | str  # of a command; a string: why it is rejected


class Kv(Connector):
    """A key-value store on disk. The sink carries out the command in `$kv` of each event;
    the source sends the answers."""

    ports: ClassVar[Ports] = Ports()
    traits: ClassVar[Traits] = Traits(answers=True, codec=CodecUse.FORBIDDEN)
    families: ClassVar[Families] = {
        "commands_total": Family("counter", "Commands to the store that were carried out."),
    }

    path: str = Field(
        min_length=1,
        validation_alias=AliasChoices("path", "dir"),
        description="Directory of the store. It is made with mode 0700 if it is missing. `dir` is its older name.",
    )
    max_scan: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most values that a scan may find. One that finds more leaves by err.",
    )

    def claims(self) -> Sequence[Claim]:
        return (Claim("key-value store", os.path.realpath(self.path)),)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source=Lossless(
                "the event of a command is acked once its answer is. If a sink fails the answer, a log upstream "
                "sends the event again, and the command is carried out again"
            ),
            sink=Lossless(
                "a command is carried out and on disk before it is answered. After a crash, commands that were not "
                "answered may have been carried out: behind a log they are carried out again"
            ),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        answers = AnswerEvents(inlet, out)
        try:
            await JobSink(inlet, KvWork(inlet, self.path, answers, self.max_scan)).run()
        finally:
            answers.close(NotConfirmed("the store was closed"))


class KvJob:
    """The commands of one block, or none. `outcomes`: of each, once they are carried out."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.outcomes: Sequence[tuple[KvCommand | None, Outcome]] = ()


class KvWork(SinkWork[KvJob]):
    """Owns the store. A job opens it if it is not open, or since trouble not again;
    then it carries out its commands."""

    opens = True

    def __init__(self, inlet: Inlet, path: str, answers: AnswerEvents, most: int) -> None:
        self._path = path
        self._store: KvStore | None = None
        self._answers = answers
        self._most = most
        self._done = inlet.counter("commands_total")

    def take(self, waiting: deque[Block]) -> KvJob | None:
        if waiting:
            return KvJob([waiting.popleft()])
        return KvJob([]) if self._store is None else None

    def do(self, job: KvJob) -> None:
        if self._store is None:
            self._store = KvStore.open(self._path)
        try:
            for block in job.blocks:
                job.outcomes = _carried_out(block, self._store, self._most)
        except CannotStore:
            self.close()
            raise

    def outcomes(self, job: KvJob, error: BaseException | None) -> JobEnd:
        if error is not None:
            return JobEnd(trouble=self.explain(error))
        if not job.blocks:
            return JobEnd()
        block = job.blocks.pop()
        self._done.value += len(job.outcomes)
        for asked, (command, outcome) in zip(block.split([1] * block.frames.count), job.outcomes, strict=True):
            if isinstance(outcome, str) or command is None:
                self.sink.reject(asked, str(outcome))
                continue
            metas = [{"kv": {"op": command.op, "ok": one.key}} for one in outcome]
            self._answers.give(self.sink.hand_over(asked), [one.value for one in outcome], metas)
        return JobEnd()

    def stop_cause(self) -> NotConfirmed:
        return NotConfirmed("the store was closed")

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


def _carried_out(block: Block, store: KvStore, most: int) -> list[tuple[KvCommand | None, Outcome]]:
    """All of a block in one transaction. Raises CannotStore: then nothing of it was done."""
    try:
        values = block.values
    except CannotDecode as error:
        return [(None, str(error))] * block.frames.count
    outcomes: list[tuple[KvCommand | None, Outcome]] = []
    try:
        store.begin()
        for number, value in enumerate(values):
            meta = block.event_meta(number)
            command = None
            try:
                command = command_of(meta, value)
                outcomes.append((command, carry_out(command, store, most)))
            except BadCommand as error:
                outcomes.append((command, str(error)))
        store.commit()
    except sqlite3.Error as error:
        store.rollback()
        raise CannotStore(f"the store cannot be written: {error}") from error
    except BaseException:
        store.rollback()
        raise
    return outcomes
