"""docs/reference/metrics.md, from the code: `python -m walflow.admin.reference > docs/reference/metrics.md`."""

from collections.abc import Iterator, Mapping
from typing import Final

from walflow.metrics import BREAKER_REASONS, CATALOGUE, GATE_REASONS, Family, exposed

HEAD: Final = """\
# Metrics

What `http://127.0.0.1:9898/metrics` shows. This page is made from the code; a test holds it.

A connector's metrics carry the labels `flow`, `component` (its name there), `kind` (`connector` or `pipeline`) and
`type` (`tcp_server`); some one more, named below. No label ever holds an address, a path or anything else that an
event or a client brings, so the number of series is given by the flow files alone. Counters begin at 0 with the
process. A log's gauges are there while its connector runs.

A connector from another package shows its own counters in the same way, as `walflow_component_NAME`.

Alert on `walflow_wal_oldest_seconds` rather than on sizes: a log that grows and drains does its work, one whose
oldest event ages does not. `walflow_component_lost_events_total` above 0 means that events had no log before them.
"""

TAIL: Final = f"""
`walflow_component_breaker_open` has a series for each of {", ".join(f"`{one}`" for one in BREAKER_REASONS)};
`triggered` means that the connector itself asked to stop (its peer is away, its disk full), and `/status` has its
words. `walflow_component_gate_shut` has one for each of {", ".join(f"`{one}`" for one in GATE_REASONS)}: a sink
downstream stops the source, too much is in flight, the daemon stops.

Beside these stand the process's own, under the names that every Prometheus client gives them:
`process_resident_memory_bytes`, `process_virtual_memory_bytes`, `process_cpu_seconds_total`, `process_open_fds`,
`process_max_fds`, `process_start_time_seconds`.
"""


def page() -> str:
    groups = {
        "Components": {name: family for name, family in CATALOGUE.items() if _group(name, family) == "component"},
        "Logs": {name: family for name, family in CATALOGUE.items() if _group(name, family) == "log"},
        "The process": {name: family for name, family in CATALOGUE.items() if family.own},
    }
    return HEAD + "".join(line for title, families in groups.items() for line in _table(title, families)) + TAIL


def _group(name: str, family: Family) -> str:
    return "process" if family.own else "log" if name.startswith("wal_") else "component"


def _table(title: str, families: Mapping[str, Family]) -> Iterator[str]:
    yield f"\n## {title}\n\n| name | kind | further labels | |\n|---|---|---|---|\n"
    for name, family in families.items():
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{exposed(name)}` | {family.kind} | {labels} | {family.help} |\n"


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201  # it is what this is for
