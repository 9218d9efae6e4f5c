"""A story: a flow, what its clients send, and what happens to the machine and to the peers. It is drawn from a seed,
and it is a value: what was found is kept as a story, not as a seed.

At its end all is well again, for two minutes of virtual time. Then it is judged: each event that a client got acked
has the outcomes that the flow owes, once where nothing was started again; nothing is left; all breakers are closed.
"""

import asyncio
import errno
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from structlog.typing import EventDict

from tests.simulation.flows import DEAD, DOOR_PORTS, EXIT_PORTS, FAR, NEAR, Shape, assembled, changed, drawn
from walflow.testing.simulation import Life, Machine, simulated
from walflow.testing.simulation.ends import ClientLedger, FilePeer, Mood, Outside, PeerLedger, outside
from walflow.testing.simulation.wires import EchoClient, EchoPeer, HttpEndpoint, HttpSender
from walflow.world import entered

HEALS_WITHIN: Final = 120.0  # seconds
GIVES_UP_WITHIN: Final = 60.0  # seconds more for each event on which a peer always fails: they are tried in turns
AND_BY_HTTP: Final = 150.0  # `http_client` tries each one by itself, before its log hears of it
STARTS_WITHIN: Final = 5.0  # seconds, or it is refused
STOPS_WITHIN: Final = 60.0  # a drain takes ten
LOOKS: Final = 0.25
TRICKLES: Final = 5.0  # seconds between two events, at the end
IN_A_ROW: Final = 4  # looks at which nothing is left
EVENTS: Final = 60  # of a client, at least
CLIENTS: Final = "clients"  # their host, where they speak TCP or HTTP
CLIENT_KINDS: Final[Mapping[str, Callable[[str, Random], EchoClient | HttpSender]]] = {
    "tcp": EchoClient,
    "http": HttpSender,
}
PEER_KINDS: Final[Mapping[str, Callable[[str, Random], EchoPeer | HttpEndpoint | FilePeer]]] = {
    "file": FilePeer,
    "tcp": EchoPeer,
    "http": HttpEndpoint,
}
MOODS: Final[tuple[Mood, ...]] = ("away", "silent", "busy")
TROUBLES: Final = {*MOODS, "down", "lag", "drops", "reset", "slow", "hang"}  # of which a request is sent twice


class Broken(AssertionError):
    """A promise was."""


class Step(NamedTuple):
    """`what`: one of `Teller`'s. `value`: seconds, or how much. `where`: a peer, or an operation of the disk."""

    what: str
    value: float = 0.0
    where: str = ""


class Story(NamedTuple):
    """`chance`: seeds what the steps do not say, such as how long a call of the disk takes. `poison`: events that a
    peer refuses for ever; `chokes`: events on which it fails a whole block, for ever. `pad`: bytes by which each
    event is larger. `then`: the flow after the step "change"."""

    shape: Shape
    steps: tuple[Step, ...]
    chance: int = 0
    events: int = EVENTS
    poison: tuple[int, ...] = ()
    chokes: tuple[int, ...] = ()
    pad: int = 0
    then: Shape | None = None


class Told(NamedTuple):
    """What a story came to: how much it was, for the table of costs."""

    seconds: float
    turns: int
    calls: int
    delivered: int
    lives: int


def draw(seed: int) -> Story:
    dice = Random(seed)
    shape = drawn(dice)
    wired = [name for name in (NEAR, FAR) if shape.exit(name) != "story"]
    wired += [CLIENTS] * (shape.door != "story")
    steps: list[Step] = []
    for _ in range(dice.randint(1, 10)):
        steps.append(Step("wait", round(dice.expovariate(1.5), 3)))
        what = dice.choice(
            [
                "kill",
                "kill",
                "cut",
                "stop",
                "mood",
                "mood",
                "mood",
                "well",
                "slow",
                "hang",
                "full",
                "fail",
                "clock",
                "freeze",
            ]
            + ["second"] * shape.has_log
            + ["down", "reset", "lag", "drops"] * bool(wired)
        )
        match what:
            case "mood":
                steps.append(Step(dice.choice(MOODS), 0.0, dice.choice([NEAR, FAR] + [DEAD] * shape.err)))
            case "well":
                steps.append(Step("well", 0.0, dice.choice([NEAR, FAR])))
            case "slow":
                steps.append(Step("slow", dice.choice([10.0, 100.0, 1000.0])))
            case "hang":
                steps.append(Step("hang", 0.0, dice.choice(["sync", "read", "sync_directory"])))
            case "fail":
                steps.append(
                    Step("fail", dice.choice([50, 500]), dice.choice(["read", "allocate", "sync_directory"]))
                )
            case "full":
                steps.append(Step("full", dice.choice([0.0, 100.0, 3000.0])))
            case "down" | "reset":
                steps.append(Step(what, 0.0, dice.choice(wired)))
            case "lag":
                steps.append(Step("lag", dice.choice([0.01, 0.1, 1.0]), dice.choice(wired)))
            case "drops":
                steps.append(Step("drops", dice.choice([10, 200]), dice.choice(wired)))
            case "second":
                steps.append(Step("second", 0.0, dice.choice(["", "unlocked"])))
            case "freeze":
                steps.append(Step("freeze", dice.choice([0.1, 3.0, 40.0])))
            case "clock":
                steps.append(Step("clock", dice.choice([-3600.0, -5.0, 5.0, 3600.0])))
            case _:
                steps.append(Step(what))
        if dice.random() < 0.4:
            steps += [Step("wait", round(dice.expovariate(1.0), 3)), Step("clear")]
    poison = tuple(dice.sample(range(EVENTS), dice.choice([0, 0, 0, 1, 5])))
    gives_up = shape.has_log and shape.attempts is not None
    chokes = tuple(dice.sample(range(EVENTS), 1)) if gives_up and dice.random() < 0.3 else ()
    then = None
    if dice.random() < 0.15:
        then = changed(shape, dice)
        steps.insert(dice.randrange(len(steps) + 1), Step("change", 0.0, dice.choice(["", "kill"])))
    events, pad = dice.choice([EVENTS, EVENTS, 300]), dice.choice([0, 0, 100, 1000])
    return Story(shape, tuple(steps), seed, events, poison, chokes, pad, then)


ENDS: Final = ("kill", "cut", "stop", "freeze", "change", "second")
STATES: Final = ("slow", "hang", "full", "fail", *MOODS, "down", "lag", "drops")


def moments(story: Story) -> Iterator[str]:
    """What happened to the process, and what else was wrong just then."""
    states: dict[str, None] = {}
    for step in story.steps:
        if step.what in STATES:
            states[step.what] = None
        elif step.what == "clear":
            states.clear()
        elif step.what in ENDS:
            yield from (f"{step.what} while {state}" for state in states)


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
        clients: dict[str, ClientLedger] = self.outside.clients
        ledgers: dict[str, PeerLedger] = self.outside.peers
        if shape.door in CLIENT_KINDS:
            clients.update((name, CLIENT_KINDS[shape.door](name, self.dice)) for name in clients)
        ledgers.update(
            (name, PEER_KINDS[shape.exit(name)](name, self.dice)) for name in peers if shape.exit(name) in PEER_KINDS
        )
        self.lives = 0
        self.lines: deque[EventDict] = deque(maxlen=2000)  # the last that were logged, of all lives
        self.dropped = 0  # events that were rejected where nothing is linked to err, in lives that are over
        for client in self.outside.clients.values():
            client.wants = story.events
            client.pad = "x" * story.pad
        for name in (NEAR, FAR):
            self.outside.peers[name].poison = frozenset(story.poison)
            self.outside.peers[name].chokes = frozenset(story.chokes)

    def run(self) -> Told:
        """Raises Broken, or what was raised on the way."""
        token = outside.set(self.outside)
        try:
            return simulated(self._tell, self.dice, self.lines)
        finally:
            outside.reset(token)

    async def _tell(self, machine: Machine) -> Told:
        self.machine, self.loop = machine, machine.loop
        self._start_wires()
        self.life = self._start()
        try:
            for step in self.story.steps:
                await self._do(step)
                if not self.life.alive:  # it has ended by itself, as a service's supervisor sees it
                    self._restart()
                self._look_at_wires()
            self._heal()
            await self._until_all_is_done()
            self._read_files()
            self.judge()
        finally:
            self._count_dropped()
        got = sum(peer.got.total() + peer.letters.total() for peer in self.outside.peers.values())
        return Told(self.loop.time(), self.loop.turns, self.machine.weather.calls, got, self.lives)

    def _start_wires(self) -> None:
        shape = self.story.shape
        for name, client in self.outside.clients.items():
            with entered(self.machine.other(CLIENTS)):
                if isinstance(client, EchoClient | HttpSender):
                    self._wire(client.run("walflow", DOOR_PORTS[shape.door]), name)
        for name, peer in self.outside.peers.items():
            with entered(self.machine.other(name)):
                if isinstance(peer, EchoPeer | HttpEndpoint):
                    self._wire(peer.run(name, EXIT_PORTS[shape.exit(name)]), name)

    def _wire(self, runs: Coroutine[object, object, None], name: str) -> None:
        self.wires.append(self.loop.create_task(runs, name=name))

    def _look_at_wires(self) -> None:
        """Raises what a client has found wrong with what it got."""
        for task in self.wires:
            if task.done():
                task.result()

    def _start(self) -> Life:
        self.lives += 1
        return self.machine.start(assembled(self.shape))

    def _restart(self) -> None:
        self._count_dropped()
        self.machine.kill(self.life)
        self.life = self._start()

    # the steps

    async def _do(self, step: Step) -> None:
        weather = self.machine.weather
        match step.what:
            case "wait":
                await asyncio.sleep(step.value)
            case "kill":
                self._restart()
            case "cut":
                self._count_dropped()
                self.machine.cut()
                self.life = self._start()
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
                self.life.stop()
                await asyncio.sleep(step.value)
                self.life.go_on()
            case "clear":
                self._heal()
            case unknown:
                raise ValueError(unknown)

    async def _second(self, *, unlocked: bool) -> None:
        """Another daemon is started on the same directories. `unlocked`: after somebody removed the LOCK files."""
        disk = self.machine.disk
        if unlocked:
            for path in [path for path in disk.sizes() if path.endswith("/LOCK")]:
                disk.unlink(path)
        second = self.machine.start(assembled(self.shape))
        try:
            async with asyncio.timeout(STARTS_WITHIN):
                await second.ended.wait()
        except TimeoutError:
            # on a full disk it cannot write its lock, and waits for room
            if self.life.alive and any(line["event"] == "log open" for line in second.lines):
                raise Broken("two daemons run on one directory") from None
        finally:
            self.machine.kill(second)

    async def _stopped(self) -> None:
        """A supervisor kills what has not stopped in time, which only a call that hangs excuses."""
        try:
            async with asyncio.timeout(STOPS_WITHIN):
                await self.life.ended.wait()
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
        within = HEALS_WITHIN + each * len(self.story.chokes) * shape.clients
        end = self.loop.time() + within
        looks, left, more = 0, "", 0.0
        while looks < IN_A_ROW and self.loop.time() < end:
            await asyncio.sleep(LOOKS)
            if not self.life.alive:
                self._restart()
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
        waiting = [client for client in self.outside.clients.values() if not client.done]
        if waiting:
            return f"{waiting}"
        for nodes in self.life.daemon.nodes.connectors:
            source = nodes.source
            for one in source.lanes.values() or [source]:
                if one.outlet is not None and one.outlet.waiting():
                    return f"{one.name} has {one.outlet.waiting()} events"
            if nodes.sink.linked and nodes.sink.triggered():
                return f"{nodes.sink.name} takes nothing: {nodes.sink.reason}"
            if not nodes.health.ready:
                return f"{nodes.name} is {nodes.health.state}: {nodes.health.why}"
        return ""

    # the judge

    def _read_files(self) -> None:
        for name, peer in self.outside.peers.items():
            path = f"/{name}.jsonl"
            if isinstance(peer, FilePeer) and not self._unsynced(name) and path in self.machine.disk.sizes():
                peer.read(self.machine.disk.content(path))

    def _unsynced(self, peer: str) -> bool:
        """Without a log a file is not synced, and a power cut takes from it what it will."""
        shape = self.story.shape
        cut = any(step.what == "cut" for step in self.story.steps)
        return shape.exit(peer) == "file" and not shape.has_log and cut

    def judge(self) -> None:
        shape = self.story.shape
        self._judge_letters()
        if self.story.then is not None:
            self._judge_changed(shape, self.story.then)
            return
        uncounted = self.dropped + self._rejected() if not shape.err else 0
        if self.lives > 1 and "memory" in shape.between:  # what it had acked ended with the process
            return
        for name, client in self.outside.clients.items():
            for number in range(client.wants):
                for owed in shape.owes(number):
                    if any(self._unsynced(peer) for peer in owed):
                        continue
                    self._judge_files(client, number, owed)
                    wanted = min(shape.times(peer) for peer in owed)
                    got = sum(self.outside.peers[peer].got[name, number] for peer in owed)
                    letters = sum(self._letters(peer, name, number) for peer in owed)
                    if got + letters * wanted >= wanted:  # a letter is about all that was made of the event
                        if self._once(client, number, owed) and (got > wanted or letters > wanted):
                            raise Broken(f"event {number} of {name} came to {owed} {got} times, {letters} as letters")
                    elif uncounted and self._may_be_given_up(number):
                        uncounted -= 1
                    else:
                        raise Broken(f"event {number} of {name} came to {owed} {got} times, and as no letter")

    def _judge_changed(self, before: Shape, after: Shape) -> None:
        """What both flows owe a peer it has, or there is a letter."""
        if "memory" in before.between:
            return
        for name, client in self.outside.clients.items():
            for number in range(client.wants):
                owed = {peers for peers in before.owes(number) if peers in after.owes(number) and DEAD not in peers}
                for peers in owed:
                    got = sum(self.outside.peers[peer].got[name, number] for peer in peers)
                    letters = sum(self._letters(peer, name, number) for peer in peers)
                    dropped = self._may_be_given_up(number) and not (before.err and after.err)
                    if not got and not letters and not dropped and not any(self._unsynced(peer) for peer in peers):
                        raise Broken(f"event {number} of {name} never came to {peers}, before or after the change")

    def _judge_files(self, client: ClientLedger, number: int, owed: Sequence[str]) -> None:
        """After kill -9 none comes twice."""
        if self._sent_twice(client, number) or any(step.what == "cut" for step in self.story.steps):
            return
        for peer in self.story.shape.once_files.intersection(owed):
            got = self.outside.peers[peer].got[client.name, number]
            if got > 1:
                raise Broken(f"event {number} of {client.name} is {got} times in the file {peer}")

    def _sent_twice(self, client: ClientLedger, number: int) -> bool:
        """By its client, and not known as the same: a restart forgets the keys of what is delivered."""
        shape = self.story.shape
        keyed = shape.door == "http" and number not in client.doubtful
        known = self.lives == 1 and (keyed or shape.pipeline == "dedupe")
        return client.sent[number] > 1 and not known

    def _once(self, client: ClientLedger, number: int, owed: Sequence[str]) -> bool:
        """Whether each peer gets this event once, at most."""
        shape, steps = self.story.shape, {step.what for step in self.story.steps}
        if self._sent_twice(client, number):
            return False
        wires = any(shape.exit(peer) in ("tcp", "http") for peer in owed)
        troubled = bool(self.story.chokes) or not steps.isdisjoint(TROUBLES)
        return self.lives == 1 and bool(shape.between) and not (wires and troubled)

    def _judge_letters(self) -> None:
        """What is given up is what no peer could ever take: an outage makes no letter of a good event."""
        for peer in self.outside.peers.values():
            for about, client, number in peer.letters:
                if about and not self._may_be_given_up(number):
                    raise Broken(f"event {number} of {client} was good, and {about} has given it up")

    def _may_be_given_up(self, number: int) -> bool:
        story = self.story
        # what is under way alone as its peer goes away cannot be told from what ends the connection: of one attempt
        # a coincidence takes all (docs/howto/echo-client.md)
        hasty = "tcp" in story.shape.exits and any(one and one.attempts == 1 for one in (story.shape, story.then))
        coincides = hasty and any(step.what in TROUBLES for step in story.steps)
        return coincides or number in (*story.poison, *story.chokes)

    def _letters(self, peer: str, client: str, number: int) -> int:
        """How often it was told that this peer lacks the event."""
        if DEAD not in self.outside.peers:
            return 0
        letters = self.outside.peers[DEAD].letters
        return letters[peer, client, number] + letters["", client, number]

    def _rejected(self) -> int:
        return 4 * self.life.counts().get("rejected_events_total", 0)

    def _count_dropped(self) -> None:
        self.dropped += self._rejected()


def tell(story: Story) -> Told:
    return Teller(story).run()
