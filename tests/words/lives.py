"""A flow's lives: the connectors that are shipped, run as the daemon runs them, in virtual time, and killed.

Each life is a process of its own (a fork), so a kill is a kill: what is on disk is what was written. What was acked
to a feed, and what a sink had, is noted in a file before anything else happens.
"""

import asyncio
import json
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, Final

import structlog

from connectors.file import File
from connectors.memory import Memory
from connectors.wal import Wal
from tests.nodes.world import World, fatal
from walflow.codecs import JSON
from walflow.contract import CodecUse, Connector, Guarantee, Inlet, Outlet, Ports, Traits
from walflow.errors import WalflowError
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.run_context import RunContext
from walflow.plan import Assembly
from walflow.receipt import Receipt

KILLED: Final = 9
NEVER_QUIET: Final = 3
BROKEN: Final = 70
MOST_SECONDS: Final = 20.0  # of the processor's time, in one life: what takes more goes round
MOST_TURNS: Final = 400  # of the last life: what is not quiet by then goes round


class Feed(Connector):
    """Sends what it is told to, and knows what was acked."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)
    ports: ClassVar[Ports] = Ports((), ("out",))

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee("an event that is not acked is not sent again")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await asyncio.get_running_loop().create_future()


class Moody(Connector):
    """Acks, fails and rejects."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL)
    ports: ClassVar[Ports] = Ports(("in",), ("err",))

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="an event is acked, failed or rejected")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await asyncio.get_running_loop().create_future()


REGISTRY: dict[str, type[Connector]] = {"feed": Feed, "moody": Moody, "wal": Wal, "memory": Memory, "file": File}


class Lives:
    """In a directory of its own. `acked` and `had` are what was noted: of feeds, and of moody sinks."""

    def __init__(self, assembly: Assembly, directory: Path) -> None:
        self._assembly = assembly
        self._directory = directory
        self._notes = directory / "notes"
        self._notes.touch()
        self._next = 0
        self.killed = False

    def live(self, seed: int, *, last: bool = False) -> bool:
        """False: the last life did not become quiet."""
        child = os.fork()
        if not child:
            try:
                signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
                os.chdir(self._directory)
                structlog.configure(processors=[_silent])
                asyncio.run(_Life(self._assembly, Random(seed), self._next, last=last).run())
            except BaseException:  # noqa: BLE001  # the child says what it was, and ends
                traceback.print_exc()
            finally:
                os._exit(BROKEN)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        code = NEVER_QUIET if code == -signal.SIGPROF else code
        self._next += 1000
        assert code in (KILLED, 0, NEVER_QUIET), f"a life ended with {code}"
        self.killed |= code == KILLED
        return code != NEVER_QUIET

    def acked(self, feed: str) -> set[int]:
        return {n for what, name, n in self._noted() if what == "acked" and name == feed}

    def had(self, sink: str) -> set[int]:
        file = self._directory / sink
        if file.exists():
            return set(self.lines(sink))
        return {n for what, name, n in self._noted() if what == "had" and name == sink}

    def lines(self, file: str) -> Counter[int]:
        """Events in a file, and how often each is there. Those of errors are no numbers."""
        data = (self._directory / file).read_bytes() if (self._directory / file).exists() else b""
        return Counter(value["n"] for line in data.splitlines() if "n" in (value := json.loads(line)))

    def _noted(self) -> Iterator[tuple[str, str, int]]:
        for line in self._notes.read_text().splitlines():
            what, name, n = line.split()
            yield what, name, int(n)


def _all_run(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        if task.done():
            task.result()


def _silent(_logger: object, _level: str, _entry: object) -> str:
    raise structlog.DropEvent


class _Life:
    def __init__(self, assembly: Assembly, dice: Random, first: int, *, last: bool) -> None:
        self._dice = dice
        self._next = first
        self._last = last
        self._world = World()
        self._scheduler = self._world.scheduler
        self._nodes = build(assembly, self._world.metrics)
        self._notes = os.open("notes", os.O_WRONLY | os.O_APPEND)
        self._waiting: list[tuple[str, Block]] = []  # at moody sinks
        self._turns = 0

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(self._connector(nodes)) for nodes in self._nodes.connectors]
        for operator in self._nodes.operators:
            operator.node.begin(self._scheduler)
        await self._scheduler.settle()
        if self._last:
            quiet = await self._until_quiet()
            _all_run(tasks)
            os._exit(0 if quiet else NEVER_QUIET)
        for _ in range(self._dice.randrange(5, 40)):
            await self._turn()
            _all_run(tasks)
        os._exit(KILLED)  # as it stands: nothing is cancelled, nothing is closed

    async def _connector(self, nodes: ConnectorNodes) -> None:
        context = RunContext(
            self._scheduler,
            structlog.get_logger(),
            lambda name, **labels: self._world.metrics.counter(name, component=nodes.name, **labels),
            fatal,
            asyncio.Event,
        )
        nodes.sink.begin(context)
        outlet = nodes.source.begin(context)
        if nodes.plan.kind == "moody":
            name = nodes.plan.id.name
            nodes.sink.serve(lambda block: self._waiting.append((name, block)))
        await nodes.plan.connector.run(nodes.sink, outlet)

    async def _turn(self) -> None:
        dice, scheduler = self._dice, self._scheduler
        match dice.choice(("feed", "feed", "feed", "time", "work", "hold", "settle", "mood", "mood")):
            case "feed":
                self._feed()
            case "time":
                scheduler.holding = False
                scheduler.advance(dice.choice((0.01, 0.06, 0.15, 1.0)))
            case "work":
                if scheduler.in_air:
                    scheduler.work()
            case "hold":
                scheduler.holding = not scheduler.holding
            case "mood":
                self._decide()
            case _:
                await scheduler.settle()

    async def _until_quiet(self) -> bool:
        self._scheduler.holding = False
        for _ in range(MOST_TURNS):
            while self._waiting:
                self._decide(well=True)
            await self._scheduler.settle()
            if not self._waiting and self._is_quiet():
                return True
            self._scheduler.advance(0.2)
        return False

    def _is_quiet(self) -> bool:
        outlets = [nodes.source.outlet for nodes in self._nodes.connectors]
        return all(outlet is None or not (outlet.inflight or outlet.waiting()) for outlet in outlets)

    # what feeds send

    def _feed(self) -> None:
        feeds = [nodes for nodes in self._nodes.connectors if nodes.plan.kind == "feed"]
        nodes = self._dice.choice(feeds)
        outlet, name = nodes.source.outlet, nodes.plan.id.name
        assert outlet is not None
        numbers = range(self._next, self._next + self._dice.choice((1, 2, 5, 40)))
        self._next = numbers.stop
        data = b"".join(b'{"n":%d,"ok":%s}\n' % (n, (b"true", b"false", b"1")[n % 3]) for n in numbers)

        def settled(receipt: Receipt) -> None:
            done = receipt.count if receipt.cause is None else receipt.done
            self._note("acked", name, numbers[:done])

        receipt = Receipt(settled, len(numbers))
        block = Block(
            StreamId(str(nodes.plan.id), 1, 1),
            Frames(data, len(numbers), LINES),
            JSON,
            receipt,
            ingest_ns=time.time_ns(),
            meta={},
        )
        if not outlet.send(block):
            receipt.settled = lambda receipt: None
            receipt.ack()

    def _note(self, what: str, name: str, numbers: "range | list[int]") -> None:
        os.write(self._notes, b"".join(b"%s %s %d\n" % (what.encode(), name.encode(), n) for n in numbers))

    # what becomes of events at moody sinks

    def _decide(self, *, well: bool = False) -> None:
        if not self._waiting:
            return
        name, block = self._waiting.pop(self._dice.randrange(len(self._waiting)))
        (sink,) = [nodes.sink for nodes in self._nodes.connectors if nodes.plan.id.name == name]
        events = [json.loads(payload) for payload in block.frames.payloads()]
        numbers = [event.get("n", -1) for event in events]
        mood = "ack" if well else self._dice.choice(("ack", "ack", "fail", "part", "reject"))
        if mood == "fail":
            sink.fail(block, WalflowError("moody"))
        elif mood == "part":
            done = self._dice.randrange(len(numbers))
            self._note("had", name, numbers[:done])
            sink.fail(block, WalflowError("moody"), done)
        elif mood == "reject":
            self._note("had", name, numbers)
            sink.reject(block, "moody")
        else:
            self._note("had", name, numbers)
            sink.ack(block)
