"""Flow files of connectors that are linked through pipelines which change nothing."""

from itertools import pairwise
from pathlib import Path

LINES = 'codec = "json", preprocessors = ["separate"], postprocessors = ["separate"]'


def flow_of(*ways: str, **connectors: str) -> str:
    """`flow_of("tcp -> log -> out", tcp='tcp_server with … end', …)`: of each connector, what stands behind `from`."""
    defined = [f"  define connector {name} from {what};" for name, what in connectors.items()]
    created = [f"  create connector {name};" for name in connectors]
    linked: list[str] = []
    for source, target in (step for way in ways for step in pairwise(way.split(" -> "))):
        linked.append(f"  create pipeline {source}_to_{target} from pipelines::passthrough;")
        linked.append(f"  connect /connector/{source} to /pipeline/{source}_to_{target};")
        linked.append(f"  connect /pipeline/{source}_to_{target} to /connector/{target};")
    head, end = ["define flow main", "flow", "  use tremor::pipelines;"], ["end;", "deploy flow main;", ""]
    return "\n".join([*head, *defined, *created, *linked, *end])


def unready(directory: Path) -> str:
    """A connector that takes events once there is `up`, and acks them once there is `ack`."""
    return f'`tests.system.stubborn:Unready` with codec = "json", config = {{"directory": "{directory}"}} end'
