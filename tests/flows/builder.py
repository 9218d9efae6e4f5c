"""Flow files for tests: which connectors there are, and the ways between them.

    flow_of("tcp -> log -> out", "log -> tcp", tcp=TCP, log=LOG, out=OUT)

is an echo server: what comes by TCP is in a log, then in a file and sent back. Between two connectors stands a pipeline that
changes nothing; `pipelines` are those that do, and ways may lead through them, `"log -> even -> out"`. `"log/err -> dead"`:
from that port.
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
TCP: Final = lines("tcp_server", url=ANY_PORT)
LOG: Final = plain("wal", path="state")
OUT: Final = lines_out("file", path="out.log", mode="append")
AT_ONCE: Final = {"retry": {"interval_ms": 20, "growth_rate": 1.0}}  # `reconnect` of a client whose peer comes back


def flow_of(*ways: str, name: str = "main", pipelines: Mapping[str, str] | None = None, **connectors: str) -> str:
    """`connectors`: of each, what stands behind `from`. `pipelines`: of each, what stands behind its name up to `end`; of
    one that ends with `;` its statements, from `in` to `out`."""
    made = pipelines or {}
    steps = [step for way in ways for step in pairwise(way.split(" -> "))]
    text = [f"define flow {name}", "flow", "  use tremor::pipelines;"]
    text += [f"  define connector {each} from {what};" for each, what in connectors.items()]
    text += [f"  define pipeline {each} {_body(what)} end;" for each, what in made.items()]
    text += [f"  create connector {each};" for each in connectors]
    text += [f"  create pipeline {each};" for each in made]
    text += dict.fromkeys(line for source, target in steps for line in _linked(source, target, made))
    return "\n".join([*text, "end;", f"deploy flow {name};", ""])


def _body(what: str) -> str:
    return what if what.lstrip().startswith(("into", "from", "args", "pipeline")) else f"pipeline {what}"


def _linked(source: str, target: str, pipelines: Mapping[str, str]) -> Iterator[str]:
    def place(name: str) -> str:
        return f"/{'pipeline' if name.partition('/')[0] in pipelines else 'connector'}/{name}"

    if place(source).startswith("/connector") and place(target).startswith("/connector"):
        between = f"from_{source.replace('/', '_')}"
        yield f"  create pipeline {between} from pipelines::passthrough;"
        yield f"  connect {place(source)} to /pipeline/{between};"
        yield f"  connect /pipeline/{between} to {place(target)};"
    else:
        yield f"  connect {place(source)} to {place(target)};"


def unready(directory: object) -> str:
    """A connector that takes events once there is `up`, and acks them once there is `ack`."""
    return plain_json("tests.system.stubborn:Unready", directory=str(directory))


def plain_json(kind: str, **config: object) -> str:
    """With a codec, and no framing."""
    return _connector(kind, ['codec = "json"'], config)
