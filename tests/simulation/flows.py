"""Flows of simulated daemons, drawn, and what each owes for an event."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tests.simulation.kafka_cluster import StoryKafkaConsumer, StoryKafkaProducer
from walflow import Connector
from walflow.cli.promises import promises
from walflow.plan import Assembly, load
from walflow.registry import connectors
from walflow.testing.simulation.ends import Clients, Peers
from walflow.testing.simulation.tables import Tables

Between = tuple[str, ...]  # the buffers between clients and peers, one behind the other

KINDS: Final[Mapping[str, str]] = {
    "apart": 'wal with config = {{"path": "{path}", "chunk_size": {chunk}, "max_chunks": {chunks}{more}}} end',
    "together": 'wal with config = {{"path": "{path}", "lanes": "together", "chunk_size": {chunk}, '
    '"max_chunks": {chunks}{more}}} end',
    "memory": 'memory with config = {{"max_elements": 200}} end',
}
PIPELINES: Final[Mapping[str, str]] = {
    "all": "select event from in into out; select event from in into other;",
    "odd": "select event from in into out; select event from in where event.n % 2 == 1 into other;",
    "rows": "select event from in into out; select event from in into out; select event from in into other;",
    "script": """
      define script picky script match event of case %{ n == 7 } => event.none case _ => event end end;
      create script picky;
      select event from in into picky;
      select event from picky into out; select event from picky into other; select event from picky/err into err;
""",
    "dedupe": """
      define operator single from qos::dedupe with key = "id" end;
      create operator single;
      select event from in into single; select event from single into out; select event from single into other;
""",
    "robin": """
      define operator robin from qos::roundrobin with outputs = ["a", "b"] end;
      create operator robin;
      select event from in into robin;
      select event from robin/a into out; select event from robin/b into other;
""",
    "window": "select event from in into out; select event from in into other;",
    "batch": """
      define operator three from generic::batch with count = 3, timeout = 100000000 end;
      create operator three;
      select event from in into three; select event from three into out; select event from three into other;
""",
}
COUNTED: Final = """
  define pipeline counted
  pipeline
    use std::time::nanos;
    define window short from tumbling with interval = nanos::from_seconds(2) end;
    select {"from": group[0], "ns": aggr::win::collect_flattened(event.n)}
    from in[short] group by event.from into out;
  end;
  create pipeline counted;
"""
DOORS: Final[Mapping[str, str]] = {
    "tcp": 'tcp_server with codec = "json", preprocessors = ["separate"], postprocessors = ["separate"], '
    'config = {"url": "walflow:4000"} end',
    "http": 'http_server with codec = "json", config = {"url": "walflow:80"} end',
    "follow": 'file with codec = "json", preprocessors = ["separate"], '
    'config = {"path": "/logs/*.log", "mode": "read", "follow": true, "state": "/followed"} end',
    "follow all": 'file with codec = "json", preprocessors = ["separate"], '
    'config = {"path": "/logs/*.log*", "mode": "read", "follow": true, "state": "/followed"} end',
    "mqtt": 'mqtt_subscriber with codec = "json", '
    'config = {"url": "mqtt://clients", "client_id": "walflow", "topics": ["events"], "max_unacked": 20} end',
    "mqtt two": 'mqtt_subscriber with codec = "json", '
    'config = {"url": "mqtt://clients", "client_id": "walflow", "topics": ["events"], "qos": 2} end',
    "kafka": 'story_kafka_consumer with codec = "json", '
    'config = {"brokers": ["clients"], "group_id": "walflow", "topics": ["events"]} end',
}
DOOR_PORTS: Final = {"tcp": 4000, "http": 80}
MQTT_PORT: Final = 1883
BROKERS: Final = ("mqtt", "mqtt two", "kafka")  # doors behind which events wait, and exits to one
EXITS: Final[Mapping[str, str]] = {
    "story": "peer",
    "tcp": 'tcp_client with codec = "json", postprocessors = ["separate"], '
    'config = {{"url": "{name}:4242", "ack": "echo", "echo_timeout": 10000000000}} end',
    "file": 'file with codec = "json", postprocessors = ["separate"], '
    'config = {{"path": "/{name}.jsonl", "mode": "append"}} end',
    "http": 'http_client with codec = "json", config = {{"url": "http://{name}/", "batch": "lines"}} end',
    "table": "table",
    "mqtt": 'mqtt_publisher with codec = "json", '
    'config = {{"url": "mqtt://{name}", "topic": "events", "max_unacked": 20}} end',
    "mqtt two": 'mqtt_publisher with codec = "json", '
    'config = {{"url": "mqtt://{name}", "topic": "events", "qos": 2}} end',
    "kafka": 'story_kafka_producer with codec = "json", config = {{"brokers": ["{name}"], "topic": "events"}} end',
    "spark": 'spark with config = {{"path": "/{name}", "url": "walflow:{port}", "insecure": "a story", '
    '"chunk_size": {chunk}, "max_chunks": {chunks}}} end',
}
EXIT_PORTS: Final = {"tcp": 4242, "http": 80, "mqtt": MQTT_PORT, "mqtt two": MQTT_PORT}
NEAR: Final = "near"
FAR: Final = "far"
DEAD: Final = "dead"
SPARK_PORTS: Final = {NEAR: 7700, FAR: 7701}  # of the daemon


class Shape(NamedTuple):
    """`between`: names of `KINDS`. `pipeline`: of `PIPELINES`. `err`: whether anything is linked to it. `door`: of
    `DOORS`, or "story"; the door `tcp` sends back what the last log delivers. `exits`: of `EXITS`, for near and
    far. `far`: whether it has that sink."""

    between: Between
    pipeline: str
    err: bool
    clients: int = 1
    attempts: int | None = None
    chunk: int = 65536
    chunks: int = 8
    door: str = "story"
    exits: tuple[str, str] = ("story", "story")
    far: bool = True
    retain: int = 0  # bytes of what is acked, in its logs

    @property
    def client_names(self) -> Sequence[str]:
        return [f"client{number}" for number in range(self.clients)]

    @property
    def has_log(self) -> bool:
        return bool(self.between) and self.between[0] != "memory"

    @property
    def keeps_letters(self) -> bool:
        """What a peer refuses, or fails on for ever, is kept: no pipeline refuses it, and no node chooses its way."""
        logs = bool(self.between) and self.between[-1] != "memory"
        return logs and self.pipeline in ("all", "odd", "rows", "dedupe")

    @property
    def follows(self) -> bool:
        """Its clients write files."""
        return self.door in ("follow", "follow all")

    def exit(self, peer: str) -> str:
        return dict(zip((NEAR, FAR), self.exits, strict=True)).get(peer, "story")

    def owes(self, number: int) -> Sequence[tuple[str, ...]]:
        """For each outcome that the event must have, whatever dies, which peers may give it."""
        if self.pipeline == "window":
            return [(FAR,)] if self.far else []
        if self.pipeline == "robin":
            return [(NEAR, FAR)] if self.far else []
        if self.pipeline == "script" and number == 7:
            return [(DEAD,)] if self.err else []
        near_alone = not self.far or (self.pipeline == "odd" and number % 2 == 0)
        return [(NEAR,)] if near_alone else [(NEAR,), (FAR,)]

    def owes_alive(self, number: int) -> Sequence[tuple[str, ...]]:
        """If no process ends: windows are in memory."""
        return [(NEAR,), (FAR,)] if self.pipeline == "window" else self.owes(number)

    @property
    def once(self) -> frozenset[str]:
        """Peers to which, as `walflow check` says, none comes twice after kill -9."""
        return _once(self)

    def times(self, peer: str) -> int:
        """How often a peer gets an event if nothing goes wrong."""
        return 2 if self.pipeline == "rows" and peer == NEAR else 1

    def text(self) -> str:
        more = f', "max_attempts": {self.attempts}' if self.attempts is not None else ""
        more += f', "retain": "1m", "retain_bytes": {self.retain}' if self.retain else ""
        logs = [
            KINDS[kind].format(path=f"/log{number}", chunk=self.chunk, chunks=self.chunks, more=more)
            for number, kind in enumerate(self.between)
        ]
        lines = [
            f"define connector between{number} from {one}; create connector between{number};"
            for number, one in enumerate(logs)
        ]
        doors = ["door"] if self.door in DOORS else self.client_names
        if self.door in DOORS:
            lines += [f"define connector door from {DOORS[self.door]}; create connector door;"]
        else:
            lines += [f"create connector {name} from client;" for name in doors]
        sinks = (NEAR, FAR) if self.far else (NEAR,)
        for name in sinks:
            exit = EXITS[self.exit(name)].format(
                name=name, port=SPARK_PORTS[name], chunk=self.chunk, chunks=self.chunks
            )
            lines += [f"define connector to_{name} from {exit};"]
            lines += [f"create connector {name} from to_{name};"]
        way = [f"/connector/between{number}" for number in range(len(logs))]
        if way:
            lines += ["create pipeline first from pass; connect /pipeline/first to /connector/between0;"]
            lines += [f"connect /connector/{name} to /pipeline/first;" for name in doors]
            for number in range(1, len(way)):
                lines += [
                    f"create pipeline middle{number} from pass;",
                    f"connect {way[number - 1]} to /pipeline/middle{number};",
                    f"connect /pipeline/middle{number} to {way[number]};",
                ]
            lines += [f"connect {way[-1]} to /pipeline/split;"]
        else:
            lines += [f"connect /connector/{name} to /pipeline/split;" for name in doors]
        if self.door == "tcp":
            lines += [f"create pipeline back from pass; connect {way[-1]} to /pipeline/back;"]
            lines += ["connect /pipeline/back to /connector/door;"]
        if self.pipeline == "window":
            lines += [COUNTED, "connect /pipeline/split/out to /pipeline/counted;"]
        source = "counted" if self.pipeline == "window" else "split/out"
        lines += [f"connect /pipeline/{source} to /connector/{NEAR};"]
        lines += [f"connect /pipeline/split/other to /connector/{FAR};"] * self.far
        if self.err:
            lines += [
                "create connector dead from peer; create pipeline letters from pass;",
                "connect /pipeline/letters to /connector/dead; connect /pipeline/split/err to /pipeline/letters;",
            ]
            erring = [*sinks, *(f"between{number}" for number in range(len(logs)))]
            lines += [f"connect /connector/{name}/err to /pipeline/letters;" for name in erring]
            if self.pipeline == "window":
                lines += ["connect /pipeline/counted/err to /pipeline/letters;"]
        return HEAD.format(pipeline=PIPELINES[self.pipeline], rest="\n  ".join(lines))


HEAD: Final = """
define flow main
flow
  define pipeline pass pipeline select event from in into out end;
  define pipeline split into out, other, err pipeline {pipeline} end;
  define connector client from client;
  define connector peer from peer with codec = "json" end;
  create pipeline split;
  {rest}
end;
deploy flow main;
"""


FLOWS: Final = 256  # that are kept compiled
OURS: Final[Mapping[str, type[Connector]]] = {
    "client": Clients,
    "peer": Peers,
    "table": Tables,
    "story_kafka_consumer": StoryKafkaConsumer,
    "story_kafka_producer": StoryKafkaProducer,
}
KINDS_OF_EXITS: Final = ["story", "story", "tcp", "http", "file", "spark", "table", "mqtt", "mqtt two", "kafka"]


def drawn(dice: Random) -> Shape:
    between = dice.choice([("apart",), ("apart",), ("apart",), ("together",), ("memory",), ("apart", "apart"), ()])
    chunk, chunks = dice.choice([(4096, 4), (16384, 4), (65536, 2), (65536, 8)])
    doors = ["story", "http", "follow", "follow all", *BROKERS] + ["tcp"] * (between not in [(), ("memory",)])
    return Shape(
        between,
        dice.choice(list(PIPELINES)),
        dice.random() < 0.6,
        dice.choice([1, 1, 2]),
        dice.choice([None, None, 1, 3]) if "memory" not in between else None,
        chunk,
        chunks,
        dice.choice(doors),
        (dice.choice(KINDS_OF_EXITS), dice.choice(KINDS_OF_EXITS)),
        retain=dice.choice([0, 0, 1, 4 * chunk]),
    )


def changed(shape: Shape, dice: Random) -> Shape:
    """Another flow over the same logs, between the same clients and peers."""
    attempts = shape.attempts if shape.attempts is None else dice.choice([1, 3])
    return shape._replace(
        pipeline=dice.choice(list(PIPELINES)),
        err=dice.random() < 0.6,
        attempts=attempts,
        far=dice.random() < 0.8,
        retain=dice.choice([shape.retain, 0]),
    )


@lru_cache(FLOWS)
def _once(shape: Shape) -> frozenset[str]:
    files = {name for name in (NEAR, FAR) if shape.exit(name) in ("file", "spark", "table") and shape.has_log}
    repeats = {one.path.sink.name for one in promises(assembled(shape)).paths if one.repeats}
    return frozenset(files - repeats)


@lru_cache(FLOWS)
def assembled(shape: Shape) -> Assembly:
    """Compiled once, and used by all stories of that shape."""
    with TemporaryDirectory() as directory:
        file = Path(directory, "flow.troy")
        file.write_text(shape.text())
        assembly, found = load([file], {**connectors(), **OURS})
    assert assembly is not None, "\n".join(map(str, found))
    return assembly
