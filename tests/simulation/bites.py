"""`python -m tests.simulation.bites`: faults that are put into the product on purpose, and how many stories it takes
until one of them is noticed. A fault that no story notices is one that nobody looks for."""

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing import Pool
from signal import SIGKILL
from typing import Annotated, Any, Final
from unittest.mock import patch

import typer
from paho.mqtt.client import Client
from rich.console import Console
from rich.table import Table

from connectors.file.appended_file import AppendedFile
from connectors.file.follow.checkpoint import FileMark
from connectors.file.follow.copies import Originals
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.plain_file import LAST_BYTES, GrowingFile
from connectors.file.follow.scan import FileLooks
from connectors.file.follow.sent import NO_SLOT, Sent, SentOffsets, SentSlot
from connectors.http.client_run import HttpAnswer
from connectors.http.delivery import RequestOutcome
from connectors.http.keys import KeyWindow
from connectors.kafka.consumer_run import KafkaConsumerRun
from connectors.kafka.producer_run import KafkaProducerRun
from connectors.mqtt.connection import HoldingClient
from connectors.mqtt.publisher_run import MqttPublisherRun
from connectors.mqtt.subscriber_run import MqttSubscriberRun
from connectors.spark.consumers import Consumers
from connectors.spark.serve.ranges import LogRanges
from connectors.tcp import client as tcp_client
from tests.simulation.shrink import why
from tests.simulation.story import draw
from walflow.delivery import sender
from walflow.delivery.failed_parts import FailedParts
from walflow.delivery.letters import LetterBox
from walflow.delivery.letters.again import LetterSender
from walflow.delivery.letters.store import Going, LetterStore
from walflow.delivery.pump import Pump
from walflow.delivery.sender import Sender
from walflow.delivery.sink_record import SinkRecord
from walflow.delivery.source import LogSource
from walflow.delivery.writer import LogSink
from walflow.errors import DiskFull
from walflow.event import Block
from walflow.handover import HandedConnection, HandedLocks, Handover
from walflow.lock import HeldDirectory, LockFile
from walflow.net import MessageRetries
from walflow.net.acks import WhenEchoed, WhenWritten
from walflow.net.peer import Peer
from walflow.net.server import StreamServer
from walflow.nodes.rejects import ErrPort
from walflow.nodes.sink import SinkNode
from walflow.nodes.window import SendWindow
from walflow.operators import batch, roundrobin
from walflow.operators.seen import SeenKeys
from walflow.operators.windows import WindowSelect
from walflow.outage import Blame
from walflow.receipt import Receipt
from walflow.runtime.daemon import Daemon
from walflow.runtime.handover.predecessor import Predecessor
from walflow.runtime.handover.successor import Successor
from walflow.runtime.loop import LoopScheduler
from walflow.sinks import JobEnd
from walflow.sinks.engine import SinkEngine
from walflow.testing.simulation.tables import StoryTable
from walflow.wal.commit import Commit
from walflow.wal.directory import Directory
from walflow.wal.log import Log
from walflow.wal.marks import Mark, Marks

Fault = Callable[[], AbstractContextManager[object]]
FIRST: Final = 1_000_000  # the seed of the first story, which `soak` never tells


def instead(owner: type, name: str, value: object) -> Fault:
    return lambda: patch.object(owner, name, value)


def nothing(*_: object, **__: object) -> None: ...


def false(*_: object, **__: object) -> bool:
    return False


def true(*_: object, **__: object) -> bool:
    return True


def around(owner: type, name: str, wrong: Callable[..., Any]) -> Fault:
    """`wrong` gets the right one first."""
    right = getattr(owner, name)
    return lambda: patch.object(owner, name, lambda *args, **kwargs: wrong(right, *args, **kwargs))


def _ack(receipt: Receipt, cause: BaseException, done: int = 0, sink: str | None = None) -> None:
    receipt.ack(sink)


def _joined(right: Callable[..., None], receipt: Receipt, part: Receipt, *link: Any) -> None:
    part.cause = None
    part._failed = None
    right(receipt, part, *link)


def _acks_at_once(right: Callable[..., None], run: Any, messages: Any, refused: str = "") -> None:
    right(run, messages, refused)
    for message in messages:
        if message.mid in run._unacked:
            run._answer(message)


async def _forgets_unanswered(right: Callable[..., Any], run: Any, *given: Any) -> str:
    try:
        reason: str = await right(run, *given)
    finally:
        for sent, number in [*run._waiting]:
            run._outcome((sent, number), None)
        run._waiting.clear()
    return reason


def _stores_at_once(right: Callable[..., None], run: Any, partition: Any, messages: Any) -> None:
    right(run, partition, messages)
    partition.acked = messages[-1].offset() + 1
    run._advanced(partition)


def _no_error(right: Callable[..., None], run: Any, delivery: Any, number: int, _error: object, message: Any) -> None:
    right(run, delivery, number, None, message)


def _gives_back(window: SendWindow, size: int) -> None:
    window.inflight -= size


def _vanishes(port: ErrPort, block: Any, reasons: object, details: object = None) -> None:
    block.receipt.ack(port.name)


def _kept_nowhere(box: LetterBox, block: Block) -> None:
    block.receipt.ack(box._way.name)


def _stays(right: Callable[..., bool], store: Any, tag: bytes, payload: bytes, count: int, what: Any) -> bool:
    return right(store, tag, payload, count, what._replace(letters=()) if isinstance(what, Going) else what)


def _keeps_none_of_those(right: Callable[..., None], source: Any, log: Any, out: Any, *rest: Any) -> None:
    for way in out.letters:
        way.gives_up = False
    right(source, log, out, *rest)


def _without_again(pump: Pump) -> None:
    if not pump._running:
        pump._running = True
        try:
            pump._work()
        finally:
            pump._running = False


def _full_is_written(right: Callable[..., JobEnd], sink: LogSink, job: Any, error: BaseException | None) -> JobEnd:
    if isinstance(error, DiskFull):
        job.commit.flushed, error = True, None
    return right(sink, job, error)


def _one_more(right: Callable[..., object], mark: Mark, first: int, last: int) -> object:
    return right(mark, first, last + 1)


def _begins_at_the_end(right: Callable[[Log], None], log: Log) -> None:
    right(log)
    log.acked = Marks(log.durable)


def _loses_errors(scheduler: LoopScheduler, done: Callable[[None], None], error: object) -> None:
    scheduler._call(lambda: done(None))


def _flushed(commit: Commit) -> None:
    commit.flushed = True


def _acked_as_it_is_taken(right: Callable[..., None], sink: LogSink, block: Any) -> None:
    receipt = block.receipt
    block.receipt = Receipt(lambda other: None, receipt.count)
    receipt.ack(None)
    right(sink, block)


def _settled_there(robin: Any, receipt: Any) -> None:
    receipt.ref.block.receipt.ack(robin._name)


def _acks_them(acks: WhenEchoed, unwritten: object, cause: object) -> tuple[()]:
    outstanding, acks._outstanding = acks._outstanding, deque()
    acks._matched = 0
    for block in outstanding:
        acks._inlet.ack(block)
    return ()


def _writes_nothing(peer: Peer, blocks: Iterable[Block]) -> None:
    for block in blocks:
        peer._server.inlet.ack(block)


def _unsynced(right: Callable[..., None], file: AppendedFile, *args: Any, **keys: Any) -> None:
    right(file, *args, **{**keys, "sync": False})


def _unlocked() -> AbstractContextManager[object]:
    stack = ExitStack()
    held = classmethod(lambda cls, disk, path: cls(disk, path, disk.hold_directory(path), locked=True))
    file = classmethod(lambda cls, disk, path: cls(disk, path, disk.open(path, create=True)))
    stack.enter_context(patch.object(HeldDirectory, "take", held))
    stack.enter_context(patch.object(LockFile, "take", file))
    return stack


def _joins_again(right: Callable[..., None], batch: Any, block: Block) -> None:
    block.receipt.delivered = None
    right(batch, block)


def _while_open(robin: Any, tried: Any) -> bool:
    still = robin._open()
    return bool(still) and tried.open.issuperset(way.number for way in still)


def _to_anyone(server: StreamServer, block: Block) -> None:
    server._queues[block.stream.number].append(block)
    if not server._gathering:
        server._gathering = True
        server.out.scheduler.call_soon(server._write)


class _Never(Exception):
    """Nothing raises it."""


def _whatever(right: Callable[..., bool], blame: Blame, taken: int) -> bool:
    return not blame.tries or right(blame, taken)


def _reads_on(file: GrowingFile, size: int) -> bytes:
    data = file.peek(size, file.position)
    file.position += len(data)
    file.last = (file.last + data)[-LAST_BYTES:]
    return data


def _marks_what_was_read(right: Callable[..., FileMark], each: FollowedFile) -> FileMark:
    return right(each)._replace(offset=each.position, tail_length=0, tail_crc=0)


def _drops_what_was_renamed(right: Callable[..., None], looks: FileLooks, each: FollowedFile, *now: Any) -> None:
    if each.path == now[0].path:
        right(looks, each, *now)
    else:
        looks._files.forget(each, looks._keeper)


def _frees_more(right: Callable[..., Any], consumers: Consumers, name: str, position: int, *who: Any) -> Any:
    return right(consumers, name, min(position + 5, consumers._log.durable + 1), *who)


def _reads_one_less(right: Callable[..., Any], ranges: LogRanges, first: int, end: int, **how: Any) -> Any:
    return right(ranges, first, max(first + 1, end - 1), **how)


async def _with_checkpoints(right: Callable[..., Any], before: Predecessor, *args: Any) -> bool:
    found = await right(before, *args)
    before._handover.watched = False
    return bool(found)


def _loses_what_came(right: Callable[..., None], handover: Handover, connection: HandedConnection) -> None:
    right(handover, connection._replace(came=b""))


def _closes(_: Handover, connection: HandedConnection) -> None:
    connection.socket.close()


async def _lets_it_live(successor: Successor) -> int:
    return -SIGKILL


def _only_stops(daemon: Daemon) -> None:
    daemon.stop(graceful=not daemon.stopping)


FAULTS: Final[dict[str, Fault]] = {
    "a process writes checkpoints while the one before may go on": around(Predecessor, "checked", _with_checkpoints),
    "a lock is not handed on": instead(HandedLocks, "hand_on", lambda _: []),
    "what came of the next event is not handed on": around(Handover, "hand", _loses_what_came),
    "connections are not handed on": instead(Handover, "hand", _closes),
    "a process goes on beside the one that was to take over": instead(Successor, "end", _lets_it_live),
    "a process that leaves forgets a signal": instead(Daemon, "_told_to_stop", _only_stops),
    "an answer of 5xx counts as taken": instead(HttpAnswer, "good", property(lambda answer: answer.status >= 200)),
    "an event counts as echoed once it is written": lambda: patch.object(
        tcp_client, "acks_of", lambda config, inlet, time: WhenWritten(inlet)
    ),
    "what a lost connection had counts as delivered": instead(WhenEchoed, "lost", _acks_them),
    "a request is answered before it has an outcome": instead(RequestOutcome, "then", lambda _, call: call()),
    "no Idempotency-Key is known": instead(KeyWindow, "find", nothing),
    "a server acks what it does not write": instead(Peer, "write", _writes_nothing),
    "events of an earlier run go to a client of this one": instead(StreamServer, "accept", _to_anyone),
    "a file is not synced": around(AppendedFile, "__init__", _unsynced),
    "a file does not know what it has": lambda: patch.object(AppendedFile, "remembers", False),
    "a file's place is stored before its acks": around(FollowedFile, "mark", _marks_what_was_read),
    "a file that was cut is read on": instead(GrowingFile, "read", _reads_on),
    "a copy of a file is another file": instead(Originals, "of", lambda *_: []),
    "what was sent of a file is not known": instead(
        SentOffsets, "take", lambda *_: SentSlot(NO_SLOT, Sent.nothing())
    ),
    "a file that was renamed is not read to its end": around(FileLooks, "_still", _drops_what_was_renamed),
    "no tick closes a window": instead(WindowSelect, "_arm", nothing),
    "what Spark has not committed is deleted": around(Consumers, "commit", _frees_more),
    "Spark gets one event less": around(LogRanges, "read", _reads_one_less),
    "the frontier in a table is not read": instead(StoryTable, "read", nothing),
    "no lock is asked for": _unlocked,
    "no key is remembered": instead(SeenKeys, "add", nothing),
    "of two that fail together both are to blame": lambda: patch.object(sender, "OneOfMany", _Never),
    "a batch joins what comes again": around(batch._Batch, "accept", _joins_again),
    "a round robin keeps what all have failed": instead(roundrobin._RoundRobin, "_is_for_the_source", _while_open),
    "nothing holds a log up": lambda: patch.object(sender, "HOLDS_UP", 1e9),
    "newer events wait for a few that failed": lambda: patch.object(sender, "FEW", 0),
    "a first failure counts": around(Blame, "suspects", _whatever),
    "what is blameless counts": lambda: patch.object(sender, "Blameless", _Never),
    "a commit is not synced": instead(Directory, "sync", nothing),
    "names are not synced": instead(Directory, "sync_names", nothing),
    "a commit is not written": instead(Commit, "flush", _flushed),
    "the last record of a commit is not marked": instead(Commit, "seal", nothing),
    "an event is acked as the log takes it": around(LogSink, "accept", _acked_as_it_is_taken),
    "what a full disk did not take counts as written": around(LogSink, "outcomes", _full_is_written),
    "a start goes on behind all that is there": around(Log, "_start", _begins_at_the_end),
    "a lane acks one event more": around(Mark, "ack", _one_more),
    "a fail counts as an ack": instead(Receipt, "fail", _ack),
    "a part that failed counts as acked in its whole": around(Receipt, "join", _joined),
    "what failed is forgotten": instead(FailedParts, "add", nothing),
    "no timer is set for what failed": instead(Sender, "_arm", nothing),
    "an attempt counts in an outage": instead(Blame, "suspects", true),
    "no attempt ever counts": instead(Blame, "suspects", false),
    "after an outage nothing is due at once": instead(FailedParts, "all_due", nothing),
    "an outage is never over": instead(SinkRecord, "took", false),
    "a rejected event is acked without a letter": instead(ErrPort, "hand_on", _vanishes),
    "no letter is kept": instead(LetterBox, "keep", _kept_nowhere),
    "a letter that went stays one": around(LetterStore, "append", _stays),
    "what goes again is lost": instead(LetterSender, "add", nothing),
    "what is given up is no letter": around(LogSource, "__init__", _keeps_none_of_those),
    "a breaker stays shut": instead(SinkEngine, "_well", nothing),
    "a sink's breaker opens no gate": instead(SinkNode, "_restore", nothing),
    "a window stays shut": instead(SendWindow, "give_back", _gives_back),
    "a pump that is asked while it runs does not run again": instead(Pump, "now", _without_again),
    "a pump leaves the rest of a turn": instead(Pump, "later", nothing),
    "an event that fills a log alone never counts": instead(Sender, "_holds_up", false),
    "a job's error is lost": instead(LoopScheduler, "_done", _loses_errors),
    "what one output of a round robin failed is settled": instead(roundrobin._RoundRobin, "_settled", _settled_there),
    "a message of MQTT that is refused counts as published": instead(
        HoldingClient, "_handle_pubrec", Client._handle_pubrec
    ),
    "a message of MQTT is acked as it comes": around(MqttSubscriberRun, "_hold", _acks_at_once),
    "what MQTT has not answered is not sent again": around(MqttPublisherRun, "_one_connection", _forgets_unanswered),
    "an offset of Kafka is stored as its message is read": around(KafkaConsumerRun, "_hold", _stores_at_once),
    "a message that Kafka refuses counts as taken": around(KafkaProducerRun, "_on_report", _no_error),
    "a sink of messages never asks for others": instead(MessageRetries, "_ask", nothing),
    "bad messages count as others for each other": instead(
        KafkaProducerRun, "_has_untried", lambda run: bool(run._waiting or run._under_way)
    ),
}


@contextmanager
def with_fault(name: str) -> Iterator[None]:
    with FAULTS[name]():
        yield


def found(name: str, most: int) -> tuple[int, str]:
    """After how many stories, and what broke; 0: after none of so many."""
    gc.collect()
    gc.freeze()
    for number in range(most):
        story = draw(FIRST + number)
        with with_fault(name):
            broken = why(story)
        if broken:
            return number + 1, broken
    return 0, ""


def _found(asked: tuple[str, int]) -> tuple[str, int, str]:
    return asked[0], *found(*asked)


def main(
    most: Annotated[int, typer.Option(min=1, help="Stories for each fault.")] = 500,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    only: Annotated[str, typer.Option(help="Faults whose name contains this.")] = "",
) -> None:
    """Prints which fault is noticed after how many stories. Exits with 1 where one is not."""
    table = Table("fault", "stories", "what was noticed")
    missed = 0
    with Pool(jobs) as pool:
        for name, stories, broken in pool.imap(
            _found, [(name, most) for name in FAULTS if only in name], chunksize=1
        ):
            missed += not stories
            table.add_row(name, str(stories or f"none of {most}"), broken.replace("\n", " ")[:70])
    Console(width=150).print(table)
    raise typer.Exit(1 if missed else 0)


if __name__ == "__main__":
    typer.run(main)
