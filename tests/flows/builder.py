"""Flow files for tests: which connectors there are, and the ways between them.

    flow_of("tcp -> log -> out", "log -> tcp", tcp=TCP, log=LOG, out=OUT)

is an echo server: what comes by TCP is in a log, then in a file and sent back. Between two connectors stands a
pipeline that changes nothing; a `pipeline` of its own is a node as they are, `"log -> even -> out"`.
`"log/err -> dead"`: from that port.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

SEPARATE: Final = '["separate"]'


def plain(kind: str, **config: object) -> str:
    """A connector of that type, as it stands behind `from`. Strangers' types are `package.module:Class`."""
    return _connector(kind, [], config)


def lines(kind: str, **config: object) -> str:
    """One that reads and writes lines of JSON."""
    return _connector(kind, ['codec = "json"', f"preprocessors = {SEPARATE}", f"postprocessors = {SEPARATE}"], config)


def lines_in(kind: str, **config: object) -> str:
    return _connector(kind, ['codec = "json"', f"preprocessors = {SEPARATE}"], config)


def lines_out(kind: str, **config: object) -> str:
    return _connector(kind, ['codec = "json"', f"postprocessors = {SEPARATE}"], config)


def _connector(kind: str, keys: list[str], config: Mapping[str, object]) -> str:
    if config:
        keys = [*keys, f"config = {json.dumps(config)}"]
    name = f"`{kind}`" if ":" in kind else kind
    return f"{name} with {', '.join(keys)} end" if keys else name


ANY_PORT: Final = "127.0.0.1:0"
NULL: Final = "null"
TICKS: Final = plain("metronome", interval=1)
TCP: Final = lines("tcp_server", url=ANY_PORT)
LOG: Final = plain("wal", path="state")
OUT: Final = lines_out("file", path="out.log", mode="append")
AT_ONCE: Final = {"retry": {"interval_ms": 20, "growth_rate": 1.0}}  # `reconnect` of a client whose peer comes back


class Pipeline(str):
    """What stands behind a pipeline's name up to `end`."""

    __slots__ = ()


def pipeline(body: str) -> Pipeline:
    """Its statements, from `in` to `out`; or more, from `into` or `args` on."""
    return Pipeline(body if body.lstrip().startswith(("into", "args")) else f"pipeline {body}")


PASSED: Final = pipeline("select event from in into out;")


def flow_of(*ways: str, name: str = "main", beside: str = "", **nodes: str) -> str:
    """`nodes`: of each connector what stands behind `from`; or a `pipeline`.
    `beside`: more statements of the flow."""
    steps = [step for way in ways for step in pairwise(way.split(" -> "))]
    text = [f"define flow {name}", "flow", "  use tremor::pipelines;"]
    for each, what in nodes.items():
        is_pipeline = isinstance(what, Pipeline)
        text.append(
            f"  define pipeline {each} {what} end;" if is_pipeline else f"  define connector {each} from {what};"
        )
        text.append(f"  create {'pipeline' if is_pipeline else 'connector'} {each};")
    text += dict.fromkeys(line for source, target in steps for line in _linked(source, target, nodes))
    return "\n".join([*text, beside, "end;", f"deploy flow {name};", ""])


def _linked(source: str, target: str, nodes: Mapping[str, str]) -> Iterator[str]:
    def kind(place: str) -> str:
        return "pipeline" if isinstance(nodes[place.partition("/")[0]], Pipeline) else "connector"

    if kind(source) == kind(target) == "connector":
        between = f"from_{source.replace('/', '_')}"
        yield f"  create pipeline {between} from pipelines::passthrough;"
        yield f"  connect /connector/{source} to /pipeline/{between};"
        yield f"  connect /pipeline/{between} to /connector/{target};"
    else:
        yield f"  connect /{kind(source)}/{source} to /{kind(target)}/{target};"


def unready(directory: object) -> str:
    """A connector that takes events once there is `up`, and acks them once there is `ack`."""
    return json_only("tests.system.stubborn:Unready", directory=str(directory))


def json_only(kind: str, **config: object) -> str:
    """With a codec, and no framing."""
    return _connector(kind, ['codec = "json"'], config)
