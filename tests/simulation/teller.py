"""Tells a story: a daemon on a machine, its clients and peers, and what happens to them, step by step."""

import asyncio
import errno
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from random import Random
from typing import Final, NamedTuple

from structlog.typing import EventDict

from tests.simulation.flows import (
    BROKERS,
    DEAD,
    DOOR_PORTS,
    EXIT_PORTS,
    FAR,
    MQTT_PORT,
    NEAR,
    SPARK_PORTS,
    assembled,
)
from tests.simulation.judge import Judge, unsynced
from tests.simulation.kafka_cluster import KafkaCluster, KafkaPeer, KafkaTopic, kafka
from tests.simulation.letters_kept import letters_kept
from tests.simulation.mqtt_broker import MqttPeer, MqttSubscriptions
from tests.simulation.spark_query import SparkQuery
from tests.simulation.story import CLIENTS, PHASES, Broken, Step, Story
from walflow.contract import LetterAnswer
from walflow.delivery.known_arrivals import MAY_COME_TWICE
from walflow.testing.simulation import Life, Machine, simulated
from walflow.testing.simulation.ends import BrokerClient, ClientLedger, FilePeer, Outside, PeerLedger, outside
from walflow.testing.simulation.tables import TablePeer
from walflow.testing.simulation.wires import EchoClient, EchoPeer, HttpEndpoint, HttpSender
from walflow.testing.simulation.writers import FileWriter
from walflow.world import entered

HEALS_WITHIN: Final = 120.0  # seconds in which no peer takes anything
SLOW_PEERS: Final = 4  # times as long, while one does
COPIES: Final = 3
GIVES_UP_WITHIN: Final = 60.0  # seconds more for each event on which a peer always fails: they are tried in turns
AND_BY_HTTP: Final = 150.0  # `http_client` tries each one by itself, before its log hears of it
STARTS_WITHIN: Final = 5.0  # seconds, or it is refused
STOPS_WITHIN: Final = 60.0  # a drain takes ten
LOOKS: Final = 0.25
COMES_WITHIN: Final = 3.0
POLLS: Final = 0.0002
TRICKLES: Final = 5.0  # seconds between two events, at the end
IN_A_ROW: Final = 4  # looks at which nothing is left
CLIENT_KINDS: Final[Mapping[str, Callable[[str, Random], ClientLedger]]] = {
    "tcp": EchoClient,
    "http": HttpSender,
    "follow": FileWriter,
    "follow all": partial(FileWriter, compresses=True),
    **dict.fromkeys(BROKERS, BrokerClient),
}
PEER_KINDS: Final[Mapping[str, Callable[[str, Random], PeerLedger]]] = {
    "file": FilePeer,
    "tcp": EchoPeer,
    "http": HttpEndpoint,
    "mqtt": MqttPeer,
    "mqtt two": MqttPeer,
    "kafka": KafkaPeer,
    "spark": SparkQuery,
    "table": TablePeer,
}


class Told(NamedTuple):
    """What a story came to: how much it was, for the table of costs."""

    seconds: float
    turns: int
    calls: int
    delivered: int
    lives: int


class Teller:
    """Tells one story."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.dice = Random(story.chance)
        self.shape = shape = story.shape
        letters = shape.err or (story.then is not None and story.then.err)
        peers = [NEAR, FAR, *([DEAD] if letters else [])]
        self.outside = Outside(self.dice, shape.client_names, peers)
        self.wires: list[asyncio.Task[None]] = []
        self.subscriptions = MqttSubscriptions()
        self.kafka = KafkaCluster()
        clients: dict[str, ClientLedger] = self.outside.clients
        ledgers: dict[str, PeerLedger] = self.outside.peers
        if shape.door in CLIENT_KINDS:
            clients.update((name, CLIENT_KINDS[shape.door](name, self.dice)) for name in clients)
        ledgers.update(
            (name, PEER_KINDS[shape.exit(name)](name, self.dice)) for name in peers if shape.exit(name) in PEER_KINDS
        )
        self.lines: deque[EventDict] = deque(maxlen=2000)  # the last that were logged, of all lives
        self.answers: list[LetterAnswer] = []
        for client in self.outside.clients.values():
            client.wants = story.events
            client.pad = "x" * story.pad
        for name in (NEAR, FAR):
            self.outside.peers[name].poison = frozenset(story.poison)
            self.outside.peers[name].chokes = frozenset(story.chokes)

    topic: KafkaTopic  # of the door, if that is Kafka's

    def run(self) -> Told:
        """Raises Broken, or what was raised on the way."""
        token, cluster = outside.set(self.outside), kafka.set(self.kafka)
        try:
            return simulated(self._tell, self.dice, self.lines)
        finally:
            outside.reset(token)
            kafka.reset(cluster)

    async def _tell(self, machine: Machine) -> Told:
        self.machine = self.kafka.machine = machine
        self.loop = machine.loop
        self._start_wires()
        self._start()
        for step in self.story.steps:
            await self._do(step)
            self._supervise()
            self._look_at_wires()
        self._heal()
        await self._until_all_is_done()
        self._read_files()
        self._judge()
        got = sum(peer.got.total() + peer.letters.total() for peer in self.outside.peers.values())
        return Told(self.loop.time(), self.loop.turns, machine.weather.calls, got, len(machine.began))

    def _start_wires(self) -> None:
        shape = self.story.shape
        put = self.subscriptions.put
        if shape.door == "kafka":
            self.machine.other(CLIENTS)
            self.topic = self.kafka.topic(CLIENTS)
            put = self.topic.put
        elif shape.door in BROKERS:
            with entered(self.machine.other(CLIENTS)):
                self._wire(self.subscriptions.run(CLIENTS, MQTT_PORT), "broker")
        for name, client in self.outside.clients.items():
            with entered(self.machine.other(CLIENTS)):
                if isinstance(client, EchoClient | HttpSender):
                    self._wire(client.run("walflow", DOOR_PORTS[shape.door]), name)
                elif isinstance(client, FileWriter):
                    self._wire(client.run("/logs"), name)
                elif isinstance(client, BrokerClient):
                    self._wire(client.publish(put), name)
        for name, peer in self.outside.peers.items():
            with entered(self.machine.other(name)):
                if isinstance(peer, TablePeer):
                    peer.serve(self.machine)
                elif isinstance(peer, KafkaPeer):
                    peer.machine = self.machine
                elif isinstance(peer, EchoPeer | HttpEndpoint | MqttPeer):
                    self._wire(peer.run(name, EXIT_PORTS[shape.exit(name)]), name)
                elif isinstance(peer, SparkQuery):
                    self._wire(peer.run("walflow", SPARK_PORTS[name], f"/{name}/token"), name)

    def _wire(self, runs: Coroutine[object, object, None], name: str) -> None:
        self.wires.append(self.loop.create_task(runs, name=name))

    def _look_at_wires(self) -> None:
        """Raises what a client has found wrong with what it got."""
        for task in self.wires:
            if task.done():
                task.result()

    def _start(self) -> None:
        self.life = self.machine.start(assembled(self.shape))

    def _supervise(self) -> None:
        """As a service's supervisor does: it looks after the main process, and starts one where there is none."""
        running = [one for one in self.machine.lives if one.daemon is not None and not one.daemon.over]
        if len(running) > 1:
            raise Broken("two daemons run, and one was to take over from the other")
        if self.machine.lives:
            self.life = self._one_of("new" if self.machine.lives[-1].daemon is not None else "old")
        else:
            self._start()

    def _restart(self) -> None:
        for life in [*self.machine.lives]:
            self.machine.kill(life)
        self._start()

    def _one_of(self, where: str) -> Life:
        """Of two, while one takes over from the other."""
        return {"old": self.machine.lives[0], "new": self.machine.lives[-1]}.get(where, self.life)

    def _send_letters_again(self) -> None:
        """All of them."""
        daemon = self.life.daemon
        for nodes in daemon.nodes.connectors if daemon is not None else ():
            for way in nodes.source.letters:
                if way.keeper is not None:
                    way.keeper.retry([(1, 1 << 40)], {}, self.answers.append)

    def _writers_begin_anew(self) -> None:
        with entered(self.machine.other(CLIENTS)):
            for client in self.outside.clients.values():
                if isinstance(client, FileWriter):
                    client.crashed()

    # the steps

    async def _do(self, step: Step) -> None:
        weather = self.machine.weather
        match step.what:
            case "wait":
                await asyncio.sleep(step.value)
            case "kill" if step.where:
                self.machine.kill(self._one_of(step.where))
            case "kill":
                self._restart()
            case "cut":
                self.machine.cut()
                self._writers_begin_anew()
                self._start()
            case "reload":
                if step.where == "then":
                    self.shape = self.story.then or self.shape
                self.life.next_assembly = assembled(self.shape)
                self.life.reload()
            case "until":
                await self._until(step.where)
            case "stop":
                self.life.tell(signal.SIGTERM)
                await self._stopped()
                self._restart()
            case "away" | "silent" | "busy" | "well":
                if step.where in self.outside.peers:
                    self.outside.peers[step.where].becomes(step.what)
            case "slow":
                weather.slow = step.value
            case "hang":
                weather.hangs |= {step.where}
            case "fail":
                weather.fails[step.where] = (errno.ENOSPC if step.where == "allocate" else errno.EIO, int(step.value))
            case "full":
                self.machine.full(int(step.value))
            case "clock":
                self.machine.clocks.turn(step.value)
            case "down":
                self.machine.net.route(step.where).down = True
            case "lag":
                self.machine.net.route(step.where).latency = step.value
            case "drops":
                self.machine.net.route(step.where).drops = int(step.value)
            case "reset":
                self.machine.net.reset(step.where)
            case "second":
                await self._second(unlocked=step.where == "unlocked")
            case "change":
                if not step.where:
                    self.life.tell(signal.SIGTERM)
                    await self._stopped()
                self.shape = self.story.then or self.shape
                self._restart()
            case "freeze":
                frozen = self._one_of(step.where)
                frozen.stop()
                await asyncio.sleep(step.value)
                frozen.go_on()
            case "again":
                self.life.run(self._send_letters_again)
            case "clear":
                self._heal()
            case unknown:
                raise ValueError(unknown)

    async def _until(self, phase: str) -> None:
        """A handover has come so far, if there is one."""
        end = self.loop.time() + COMES_WITHIN
        while self._comes_to(phase) and self.loop.time() < end:  # noqa: ASYNC110  # nothing says so
            await asyncio.sleep(POLLS)

    def _comes_to(self, phase: str) -> bool:
        now = self._phase()
        return bool(now) and PHASES.index(now) < PHASES.index(phase)

    def _phase(self) -> str:
        """Of a handover, one of PHASES; "": there is none."""
        oldest = self.machine.lives[0] if self.machine.lives else None
        daemon = oldest.daemon if oldest is not None else None
        if daemon is None or daemon.reload is None or daemon.reload.phase not in PHASES:
            return ""
        if daemon.reload.phase == "checking" and daemon.successor is not None:
            return "leaving"
        return daemon.reload.phase

    async def _second(self, *, unlocked: bool) -> None:
        """Another daemon is started on the same directories. `unlocked`: an operator has removed the LOCK files."""
        disk = self.machine.disk
        if unlocked:
            for path in [path for path in disk.sizes() if path.endswith("/LOCK")]:
                disk.unlink(path)
        first = [*self.machine.lives]
        handed_on = bool(self._phase()) and not self._has_trouble("fail", "full") and not unlocked
        second = self.machine.start(assembled(self.shape))
        try:
            async with asyncio.timeout(STARTS_WITHIN):
                await second.ended.wait()
        except TimeoutError:
            # on a full disk it cannot write its lock, and waits for room
            others = any(life.alive and life.daemon is not None for life in first)
            if others and any(line["event"] == "log open" for line in second.lines):
                raise Broken("two daemons run on one directory") from None
        finally:
            self.machine.kill(second)
        if handed_on and any(line["event"] == "log open" for line in second.lines):
            raise Broken("another daemon came in between the two of a handover")

    def _has_trouble(self, *kinds: str) -> bool:
        return any(step.what in kinds for step in self.story.steps)

    async def _stopped(self) -> None:
        """A supervisor kills what has not stopped in time, which only a call that hangs excuses."""
        try:
            async with asyncio.timeout(STOPS_WITHIN):
                while self.machine.lives:
                    await self.machine.lives[-1].ended.wait()
        except TimeoutError:
            if not self.machine.weather.hangs:
                raise Broken(f"it has not stopped within {STOPS_WITHIN:.0f} s") from None

    def _heal(self) -> None:
        self.machine.weather.clear()
        self.machine.full(None)
        self.machine.net.mend()
        for peer in self.outside.peers.values():
            peer.becomes("well")

    async def _until_all_is_done(self) -> None:
        shape = self.story.shape
        each = AND_BY_HTTP if "http" in shape.exits else GIVES_UP_WITHIN
        # what `copytruncate` makes while the log is full, and what a broker hands on again: events come again
        copies = COPIES if shape.follows or shape.door in BROKERS else 1
        within = HEALS_WITHIN + each * len(self.story.chokes) * shape.clients * copies
        end = self.loop.time() + within
        # a peer that takes 20 events a second needs longer for all that comes again after some lives
        latest = self.loop.time() + SLOW_PEERS * within
        looks, left, more, taken = 0, "", 0.0, 0
        while looks < IN_A_ROW and self.loop.time() < end:
            await asyncio.sleep(LOOKS)
            if (now_taken := sum(peer.got.total() for peer in self.outside.peers.values())) > taken:
                taken, end = now_taken, min(self.loop.time() + within, latest)
            self._supervise()
            self._look_at_wires()
            if self.story.chokes and self.loop.time() > more:
                # an attempt counts only where others get through
                next(iter(self.outside.clients.values())).wants += 1
                more = self.loop.time() + TRICKLES
            left = self.left()
            looks = 0 if left else looks + 1
        if looks < IN_A_ROW:
            raise Broken(f"{within:.0f} s after all is well: {left}")

    def left(self) -> str:
        """What is not done yet; empty: nothing."""
        shape = self.story.shape
        waiting = [client for client in self.outside.clients.values() if not client.done]
        if waiting:
            return f"{waiting}"
        if kept := self.subscriptions.left() or (self.topic.left() if shape.door == "kafka" else ""):
            return kept
        if self.life.daemon is None or len(self.machine.lives) > 1:
            return f"{len(self.machine.lives)} processes"
        for nodes in self.life.daemon.nodes.connectors:
            source = nodes.source
            for one in source.lanes.values() or [source]:
                if one.outlet is not None and one.outlet.waiting():
                    return f"{one.name} has {one.outlet.waiting()} events"
            for way in source.letters:
                if way.keeper is not None and way.keeper.state().going and not self.story.chokes:
                    return f"{way.name}: some go again"
            if nodes.sink.linked and nodes.sink.triggered():
                return f"{nodes.sink.name} takes nothing: {nodes.sink.reason}"
            if not nodes.health.ready:
                return f"{nodes.name} is {nodes.health.state}: {nodes.health.why}"
        return self._not_there() if shape.follows or shape.pipeline == "window" or "spark" in shape.exits else ""

    def _not_there(self) -> str:
        """What is written to a file is not read yet, or is in a window, or Spark has not taken it."""
        self._read_files()
        try:
            self._judge()
        except Broken as broken:
            return str(broken)
        return ""

    def _judge(self) -> None:
        warned = any(line["event"] == MAY_COME_TWICE for line in self.lines)
        began = self.machine.began
        dropped = 4 * sum(life.counts().get("rejected_events_total", 0) for life in began)
        # the next process has ended soon: the flow before goes on, and owes what it owed
        came_back = self.story.then is not None and self.life.assembly is assembled(self.story.shape)
        story = self.story._replace(then=None) if came_back else self.story
        logs = sorted({path.partition("/letters/")[0] for path in self.machine.disk.sizes() if "/letters/" in path})
        with entered(self.machine.other("tools")):
            kept = letters_kept(logs)
        given_up = any(line["event"] == "letters given up" for line in self.lines)
        judge = Judge(story, self.outside, len(began), dropped, warned=warned, kept=kept, given_up=given_up)
        judge.judge()

    def _read_files(self) -> None:
        for name, peer in self.outside.peers.items():
            path = f"/{name}.jsonl"
            if isinstance(peer, FilePeer) and not unsynced(self.story, name) and path in self.machine.disk.sizes():
                peer.read(self.machine.disk.content(path))
            elif isinstance(peer, TablePeer):
                peer.read()


def tell(story: Story) -> Told:
    return Teller(story).run()
