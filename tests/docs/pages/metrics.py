"""docs/reference/metrics.md, from the code."""

from collections.abc import Iterator, Mapping
from typing import Final

from walflow.admin.catalogue import of_connectors, of_operators
from walflow.families import Families
from walflow.metrics import BREAKER_REASONS, CORE, GATE_REASONS, exposed

OURS: Final = "walflow"  # the distribution: the page says nothing of others that happen to be installed
HEAD: Final = """\
# Metrics

The metrics at `http://127.0.0.1:9898/metrics`, in Prometheus' format. This page is generated from the code.

A connector's metrics have the labels `flow`, `component` (its name in the flow), `kind` (`connector` or `pipeline`)
and `type` (for example `tcp_server`). Some have further labels, named below. No label contains an address, a path or
other data of an event or a client. So the flow files alone determine the number of series. Counters begin at 0 when
the process starts. The gauges of a log exist while its connector runs.

The metrics of a connector or an operator from another package are there too, as `walflow_component_NAME`, with the
help that it declares in its `families`.

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
    components = {name: family for name, family in CORE.items() if not family.own}
    types = {**of_operators(OURS), **of_connectors(OURS)}
    declared = {name: family for families in types.values() for name, family in families.items()}
    logs = {name: family for name, family in declared.items() if name.startswith("wal_")}
    of_types = {name: family for name, family in declared.items() if name not in logs and name not in CORE}
    process = {name: family for name, family in CORE.items() if family.own}
    lines = [
        *_table("Components", components),
        *_table("Operators and connectors of one type", of_types, types),
        *_table("Logs", logs),
        *_table("The process", process),
    ]
    return HEAD + "".join(lines) + TAIL


def _table(title: str, families: Families, types: Mapping[str, Families] | None = None) -> Iterator[str]:
    """`types`: adds who counts it."""
    of, rule = ("of | ", "---|") if types is not None else ("", "")
    yield f"\n## {title}\n\n| name | kind | {of}further labels | |\n|---|---|{rule}---|---|\n"
    for name, family in families.items():
        labels = ", ".join(f"`{label}`" for label in family.labels)
        who = ", ".join(f"`{type}`" for type, counted in (types or {}).items() if name in counted)
        column = f"{who} | " if types is not None else ""
        yield f"| `{exposed(name)}` | {family.kind} | {column}{labels} | {family.help} |\n"
