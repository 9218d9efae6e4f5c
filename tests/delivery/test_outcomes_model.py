"""Every event has an outcome: for each sink that its way leads to, exactly one within a run, at least one over
restarts, and nothing is left once all sinks are well again.

The oracle knows nothing of blocks, receipts or positions. It counts, by event and sink, what the sinks were told to
do: ack, reject (then what becomes of the error record), or fail, each for any part of a block, in any order, with
restarts between.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, cast

from hypothesis import HealthCheck, given, settings, strategies as st

from connectors.memory import Buffer, Memory
from connectors.wal import RunningLog, Wal
from tests.delivery.assembled import assembled
from tests.delivery.outcome_source import Broker
from tests.examples import examples
from tests.nodes.world import World
from tests.operators.flows import LOST
from walflow import Block, Frames, Receipt, StreamId
from walflow.codecs import JSON
from walflow.framing import LINES
from walflow.nodes.build import Nodes, build
from walflow.nodes.connector import ConnectorNodes
from walflow.testing import MemoryDisk
from walflow.wal import Log

HEAD: Final = """
define flow main
flow
  use tremor::pipelines;
  define connector log from {type} with config = {{{config}}} end;
  define connector null from null;
  create connector log;
  create connector near from null;
  create connector far from null;
  create connector dead from null;
  create connector dead2 from null;
"""

FAN: Final = """
  create pipeline all from pipelines::passthrough;
  connect /connector/log to /pipeline/all;
  connect /pipeline/all to /connector/near;
  connect /pipeline/all to /connector/far;
"""
ERR: Final = """
  create pipeline rejects from pipelines::passthrough;
  connect /connector/near/err to /pipeline/rejects;
  connect /connector/far/err to /pipeline/rejects;
  connect /connector/log/err to /pipeline/rejects;
  connect /pipeline/rejects to /connector/dead;
"""
SECOND: Final = "connect /pipeline/rejects to /connector/dead2;"


def pipeline(body: str) -> str:
    return f"""
  define pipeline p into out, other pipeline
    {body}
  end;
  create pipeline p;
  connect /connector/log to /pipeline/p;
  connect /pipeline/p/out to /connector/near;
  connect /pipeline/p/other to /connector/far;
"""


Key = tuple[int, int]  # event, and which of the rows that were made of it


class Graph(NamedTuple):
    """`near`, `far`: what of an event goes to that sink. `either`: each goes to one of the two."""

    body: str
    near: Callable[[int], Iterable[Key]]
    far: Callable[[int], Iterable[Key]]
    either: bool = False


def whole(event: int) -> Iterable[Key]:
    return [(event, 0)]


def odd(event: int) -> Iterable[Key]:
    return [(event, 0)] if event % 2 else []


def rows(event: int) -> Iterable[Key]:
    return [(event, 0), (event, 1)]


ROW: Final = 'select {"id": event.id, "row": 1} from in'

GRAPHS: Final = {
    "fan": Graph(FAN, whole, whole),
    "filter": Graph(
        pipeline("select event from in into out; select event from in where event.id % 2 == 1 into other;"),
        whole,
        odd,
    ),
    "rows": Graph(
        pipeline(f"select event from in into out; {ROW} into out; select event from in into other;"), rows, whole
    ),
    "batch": Graph(
        pipeline("""
    define operator three from generic::batch with count = 3, timeout = 100000000 end;
    create operator three;
    select event from in into three;
    select event from three into out;
    select event from three where event.id % 2 == 1 into other;
"""),
        whole,
        odd,
    ),
    "diamond": Graph(
        FAN
        + """
  define pipeline second pipeline select {"id": event.id, "row": 1} from in into out; end;
  create pipeline second;
  connect /connector/log to /pipeline/second;
  connect /pipeline/second to /connector/near;
""",
        rows,
        whole,
    ),
    "robin": Graph(
        pipeline("""
    define operator robin from qos::roundrobin with outputs = ["a", "b"] end;
    create operator robin;
    select event from in into robin;
    select event from robin/a into out;
    select event from robin/b into other;
"""),
        whole,
        whole,
        either=True,
    ),
}

TYPES: Final = {
    "apart": ("wal", '"path": "/log", "lanes": "apart", "chunk_size": 65536, "max_chunks": 8'),
    "together": ("wal", '"path": "/log", "lanes": "together", "chunk_size": 65536, "max_chunks": 8'),
    "narrow": ("wal", '"path": "/log", "lanes": "apart", "read_count": 2, "chunk_size": 65536, "max_chunks": 8'),
    "memory": ("memory", '"max_elements": 1000'),
    "broker": ("null", ""),
}


class Told(NamedTuple):
    """What became of a row of an event, for a sink. `life`: in which run of the daemon. `by`: the sink itself, or who
    acked the error record."""

    sink: str
    key: Key
    by: str
    life: int


def key_of(value: object) -> Key:
    record = cast("Mapping[str, int]", value)
    return record["id"], record.get("row", 0)


class Flow:
    """One life: a source that sends again, two sinks, and two sinks for error records."""

    def __init__(self, kind: str, graph: Graph, err: str, attempts: int | None, disk: MemoryDisk) -> None:
        self.world = World()
        self.scheduler = self.world.scheduler
        self.disk = disk
        type, config = TYPES[kind]
        if attempts is not None and type == "wal":
            config += f', "max_attempts": {attempts}'
        text = HEAD.format(type=type, config=config) + graph.body + err + "end; deploy flow main;"
        nodes: Nodes = build(assembled(text), self.world.metrics)
        self._operators = nodes.operators
        for operator in nodes.operators:
            operator.node.begin(self.scheduler)
        self.by_name = {one.plan.id.name: one for one in nodes.connectors}
        self.waiting: dict[str, list[Block]] = {name: [] for name in ("near", "far", "dead", "dead2")}
        log = self.by_name["log"]
        context = replace(self.world.context("main::log"), gauge=lambda name, read, **labels: None)
        log.sink.begin(context)
        outlet = log.source.begin(context)
        self.outlet = outlet
        plan = log.plan.connector
        self.log: Log | None = None
        self.give: Callable[[Block], None]
        if isinstance(plan, Wal):
            self.log = Log(plan.options(), disk)
            self.running = RunningLog(plan, self.log, log.sink, outlet)
            self.give = log.sink.accept
        elif isinstance(plan, Memory):
            self.buffer = Buffer(plan, log.sink, outlet)
            self.buffer.buffering.start()
            self.give = log.sink.accept
        else:
            self.give = Broker(outlet, attempts).give
        self._receipts: list[Block] = []
        for name in self.waiting:
            if self.by_name[name].sink.linked:
                self._start(name, self.by_name[name])
        self.scheduler.run()

    def _start(self, name: str, nodes: ConnectorNodes) -> None:
        nodes.sink.begin(self.world.context(nodes.name))
        nodes.sink.serve(self.waiting[name].append)

    def offer(self, ids: Iterable[int]) -> None:
        payloads = [JSON.encode({"id": one}) for one in ids]
        frames = Frames(LINES.join(payloads), len(payloads), LINES)
        block = self.world_block(frames)
        self._receipts.append(block)
        self.give(block)
        self.scheduler.run()

    def world_block(self, frames: Frames) -> Block:
        return Block(StreamId("main::tcp", 7, 1), frames, JSON, Receipt(_settled, frames.count), ingest_ns=5, meta={})

    def backlog(self) -> int:
        return self.outlet.waiting()

    def end(self, *, crash: bool) -> None:
        if self.log is not None:
            self.running.stop()
        self.by_name["log"].source.end()
        for block in self._receipts:
            block.receipt.pending = 0
        for name, waiting in self.waiting.items():
            for block in waiting:
                block.receipt.ack()
            waiting.clear()
            node = self.by_name[name].sink
            if node.linked:
                node.end("stopped")
                node.abandon()
        for operator in self._operators:
            operator.node.end()
        if self.log is not None:
            if not crash:
                self.scheduler.run()
            for letters in self.running.letters:
                letters.close(abandon=crash)
                letters.closed()
            if crash:
                self.log.abandon()
            else:
                self.log.close()
        elif hasattr(self, "buffer"):
            asyncio.run(self.buffer.buffering.close())


def _settled(receipt: object) -> None: ...


class Model:
    def __init__(self, kind: str, graph: str, err: str, attempts: int | None) -> None:
        self._made = kind, GRAPHS[graph], err, attempts
        self.kind, self.graph, self.err = kind, GRAPHS[graph], err
        self.flow = Flow(*self._made, MemoryDisk())
        self.life = 0
        self.events = 0
        self.told: list[Told] = []
        self._dropped = 0  # in earlier lives
        self.dead = [name for name in ("dead", "dead2") if self.flow.by_name[name].sink.linked]

    def give(self, count: int) -> None:
        self.flow.offer(range(self.events, self.events + count))
        self.events += count

    def restart(self, crash: bool) -> None:
        if self.flow.log is None:
            return
        self.flow.end(crash=crash)
        self._dropped = self.dropped()
        self.life += 1
        self.flow = Flow(*self._made, self.flow.disk)

    def settle(self, name: str, at: int, outcomes: list[str]) -> None:
        """The block at that place has these outcomes, event by event, over and over; or one for all."""
        waiting = self.flow.waiting[name]
        if not waiting:
            return
        block = waiting.pop(at % len(waiting))
        if len(outcomes) == 1:
            self._do(name, block, outcomes[0])
        else:
            parts = block.split([1] * block.frames.count)
            for number, part in enumerate(parts):
                self._do(name, part, outcomes[number % len(outcomes)])
        self.flow.scheduler.run()

    def _do(self, name: str, block: Block, outcome: str) -> None:
        node = self.flow.by_name[name].sink
        if outcome == "ack":
            self._note(name, block.values)
            node.ack(block)
        elif outcome == "half":
            done = block.frames.count // 2
            self._note(name, block.values[:done])
            node.fail(block, LOST, done)
        elif outcome == "reject":
            if name in ("dead", "dead2") or not self.dead:  # dropped and counted
                self._note(name, block.values)
            node.reject(block, "never")
        else:
            node.fail(block, LOST)

    def _note(self, name: str, values: Iterable[object]) -> None:
        for value in values:
            if name in ("dead", "dead2"):
                record = cast("Mapping[str, object]", value)
                source = str(record["source"]).partition("::")[2]
                self.told.append(Told(source, key_of(record["event"]), name, self.life))
            else:
                self.told.append(Told(name, key_of(value), name, self.life))

    def heal(self) -> None:
        """All sinks take all there is; what is left has its turn within a minute."""
        for _ in range(60):
            for name in ("near", "far", "dead", "dead2"):
                while self.flow.waiting[name]:
                    self.settle(name, 0, ["ack"])
            if not self.flow.backlog() and not any(self.flow.waiting.values()):
                break
            self.flow.scheduler.advance(1.0)
        assert self.flow.backlog() == 0
        self.judge()
        self.flow.end(crash=False)

    def judge(self) -> None:
        outcomes = Counter((one.sink, one.key, one.by) for one in self.told)
        self.uncounted = self.dropped() if not self.dead else 0
        for event in range(self.events):
            keys = {("near", key) for key in self.graph.near(event)} | {("far", key) for key in self.graph.far(event)}
            if self.graph.either:
                counts = [sum(self._times(outcomes, sink, (event, 0))) for sink in ("near", "far", "log")]
                self._is_one(sum(counts), (event, 0), "one of both")
                continue
            for sink, key in keys:
                own, letter = self._times(outcomes, sink, key)
                _, given_up = self._times(outcomes, "log", (event, 0))
                if not own + letter + given_up and self.uncounted:
                    self.uncounted -= 1  # given up, and nothing is linked: it was counted
                    continue
                assert own + letter + given_up >= 1, f"{key} has no outcome for {sink}: {self._of(event)}"
                if self.life == 0:
                    assert own + letter <= 1, f"{key} has several outcomes for {sink}: {self._of(event)}"
            total = sum(count for (_, key, _), count in outcomes.items() if key[0] == event)
            if self.life == 0 and not self.dead:
                assert total <= len(keys), self._of(event)

    def dropped(self) -> int:
        """Most rows of events that the log has given up."""
        rejected = self.flow.world.metrics.counter("rejected_events_total", **self.flow.by_name["log"].plan.labels)
        return self._dropped + 4 * rejected.value

    def _is_one(self, count: int, key: Key, what: str) -> None:
        if not count and self.uncounted:
            self.uncounted -= 1
            return
        assert count >= 1, f"{key} has no outcome for {what}: {self._of(key[0])}"
        if self.life == 0:
            assert count == 1, f"{key} has several outcomes for {what}: {self._of(key[0])}"

    def _times(self, outcomes: Counter[tuple[str, Key, str]], sink: str, key: Key) -> tuple[int, int]:
        """How often the sink has acked it, and how often its error record was acked by all that err leads to."""
        letters = [outcomes[sink, key, dead] for dead in self.dead]
        if self.life == 0:
            assert len(set(letters)) <= 1, f"{key} of {sink} is at some of {self.dead}: {self._of(key[0])}"
        return outcomes[sink, key, sink], min(letters, default=0)

    def _of(self, event: int) -> list[Told]:
        return [one for one in self.told if one.key[0] == event]


names = st.sampled_from(["near", "far", "dead", "dead2"])
outcome = st.sampled_from(["ack", "fail", "reject", "half"])
actions = st.lists(
    st.one_of(
        st.tuples(st.just("give"), st.integers(1, 4)),
        st.tuples(st.just("settle"), names, st.integers(0, 3), st.lists(outcome, min_size=1, max_size=3)),
        st.tuples(st.just("settle"), names, st.integers(0, 3), st.lists(outcome, min_size=1, max_size=3)),
        st.tuples(st.just("settle"), names, st.integers(0, 3), st.lists(outcome, min_size=1, max_size=3)),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 0.2, 1.0, 10.0])),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    min_size=3,
    max_size=20,
)


def run(kind: str, graph: str, err: str, attempts: int | None, what: list[tuple[object, ...]]) -> None:
    model = Model(kind, graph, err, attempts)
    for name, *args in what:
        if name == "give":
            model.give(cast("int", args[0]))
        elif name == "settle":
            model.settle(cast("str", args[0]), cast("int", args[1]), cast("list[str]", args[2]))
        elif name == "wait":
            model.flow.scheduler.advance(cast("float", args[0]))
        else:
            model.restart(cast("bool", args[0]))
    model.heal()


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=examples(1200))
@given(
    st.sampled_from(list(TYPES)),
    st.sampled_from(list(GRAPHS)),
    st.sampled_from(["", ERR, ERR + SECOND]),
    st.sampled_from([None, 1, 2]),
    actions,
)
def test_each_event_has_one_outcome_for_each_sink(
    kind: str, graph: str, err: str, attempts: int | None, what: list[tuple[object, ...]]
) -> None:
    run(kind, graph, err, attempts, what)


def test_an_event_that_is_rejected_after_one_beside_it() -> None:
    """Of a block of two the first is answered 400, the second 500 and later 400: it was acked and delivered nowhere,
    because the file of rejected events had 'the block'."""
    for kind in TYPES:
        for graph in ("fan", "robin"):
            run(
                kind,
                graph,
                ERR,
                None,
                [
                    ("give", 2),
                    ("settle", "near", 0, ["reject", "fail"]),
                    ("settle", "dead", 0, ["ack"]),
                    ("settle", "far", 0, ["ack"]),
                    ("wait", 1.0),
                    ("settle", "near", 0, ["reject"]),
                ],
            )
