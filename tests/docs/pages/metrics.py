"""docs/reference/metrics.md, from the code."""

from collections.abc import Iterator, Mapping
from typing import Final

from walflow.metrics import BREAKER_REASONS, CATALOGUE, GATE_REASONS, Family, exposed

HEAD: Final = """\
# Metrics

The metrics at `http://127.0.0.1:9898/metrics`, in Prometheus' format. This page is generated from the code.

A connector's metrics have the labels `flow`, `component` (its name in the flow), `kind` (`connector` or `pipeline`)
and `type` (for example `tcp_server`). Some have further labels, named below. No label contains an address, a path or
other data of an event or a client. So the flow files alone determine the number of series. Counters begin at 0 when
the process starts. The gauges of a log exist while its connector runs.

The counters of a connector from another package are there too, as `walflow_component_NAME`.

Two metrics are worth an alert:

- `walflow_wal_oldest_seconds`, rather than sizes. A log that grows and shrinks works well. A log whose oldest event
  gets older and older does not.
- `walflow_component_lost_events_total` above 0. It means that events were lost because no log was upstream of the
  sink.
"""

TAIL: Final = f"""
`walflow_component_breaker_open` has one series for each of {", ".join(f"`{one}`" for one in BREAKER_REASONS)}.
`triggered` means that the connector itself asked its sources to stop, for example because its peer is away or its
disk is full; `/status` has the connector's message. `walflow_component_gate_shut` has one series for each of
{", ".join(f"`{one}`" for one in GATE_REASONS)}. They mean: a sink downstream has stopped the source; too many bytes
are in flight; the daemon is stopping; an operator has paused the connector or one downstream.

The process's own metrics are there too, with the names that every Prometheus client uses:
`process_resident_memory_bytes`, `process_virtual_memory_bytes`, `process_cpu_seconds_total`, `process_open_fds`,
`process_max_fds`, `process_start_time_seconds`.
"""


def metrics_page(page: str) -> str:
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
