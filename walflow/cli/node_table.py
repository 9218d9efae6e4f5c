"""The table of `walflow status` and `walflow top`: a row for each connector and pipeline, and for each of several
lanes of a log, in 80 columns.

Only what is there has a figure: a connector that nothing is linked from reads nothing, and one that nothing is linked
to acks nothing. Their cells are empty.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.table import Table
from rich.text import Text

from walflow.admin.text import printable
from walflow.cli.figures import age, count, rate, short_size

if TYPE_CHECKING:
    from walflow.admin.document import ConnectorStatus, FlowStatus, LaneStatus, PipelineStatus, Status

STATES: Final = {"up": "green", "finished": "green", "starting": "yellow", "restarting": "bold red", "stopped": "red"}
COLUMNS: Final = ("read/s", "acked/s", "rejected", "failed", "flight", "backlog", "oldest", "disk")


class NodeRow(NamedTuple):
    """`read` and `acked` are None for a half that is not linked. `inner`: what it acks, it sends on: a log. `lane`:
    of a log, whose row has the sums."""

    name: str
    state: Text
    read: float | None = None
    acked: float | None = None
    rejected: int = 0
    failed: int = 0
    window: str = ""
    backlog: float | None = None
    oldest: float = 0.0
    disk: float | None = None
    inner: bool = False
    lane: bool = False

    def cells(self) -> list[str | Text]:
        return [
            Text(printable(self.name)),
            self.state,
            rate(self.read),
            rate(self.acked),
            count(self.rejected) if self.rejected else "",
            count(self.failed) if self.failed else "",
            self.window,
            "" if self.backlog is None else count(self.backlog),
            age(self.oldest) if self.backlog else "",
            "" if self.disk is None else short_size(self.disk),
        ]


SORTS: Final[Mapping[str, Callable[[NodeRow], float]]] = {
    "rate": lambda row: -max(row.read or 0, row.acked or 0),
    "lag": lambda row: -row.oldest,
    "backlog": lambda row: -(row.backlog or 0),
    "disk": lambda row: -(row.disk or 0),
    "rejected": lambda row: -(row.rejected + row.failed),
}


def rows_of(flow: "FlowStatus", *, prefix: str = "", pipelines: bool = False) -> list[NodeRow]:
    sending = {link.source for link in flow.links}
    taking = {link.target for link in flow.links}
    rows: list[NodeRow] = []
    for one in flow.connectors:
        rows.append(_connector(one, prefix + one.name, sends=one.name in sending, takes=one.name in taking))
        rows += [_lane(lane, f"{prefix}{one.name} to {lane.name}") for lane in one.lanes]
    return rows + ([_pipeline(one, prefix + one.name) for one in flow.pipelines] if pipelines else [])


def table_of(rows: Sequence[NodeRow], title: str = "") -> Table:
    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("node", overflow="fold")  # a long name takes a second line, so that the rest fits
    table.add_column("state", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row.cells())
    return table


def total_of(rows: Sequence[NodeRow]) -> NodeRow:
    """Of events that come into the flows and leave them. What a log passes on in between is not counted again."""
    rows = [row for row in rows if not row.lane]
    ends = [row for row in rows if not row.inner]
    logs = [row for row in rows if row.backlog is not None]
    disks = [row.disk for row in rows if row.disk is not None]
    return NodeRow(
        "total",
        Text(""),
        sum(row.read or 0 for row in ends),
        sum(row.acked or 0 for row in ends),
        sum(row.rejected for row in rows),
        sum(row.failed for row in rows),
        "",
        sum(row.backlog or 0 for row in logs) if logs else None,
        max((row.oldest for row in logs), default=0.0),
        sum(disks) if disks else None,
    )


def all_rows(known: "Status") -> list[NodeRow]:
    several = len(known.flows) > 1
    return [
        row
        for flow in known.flows
        for row in rows_of(flow, prefix=f"{flow.name}/" if several else "", pipelines=True)
    ]


def _lane(one: "LaneStatus", name: str) -> NodeRow:
    state = Text("waits", "yellow") if one.gate else Text("up", "green")
    return NodeRow(name, state, backlog=one.events, oldest=one.seconds, disk=one.bytes or None, lane=True)


def _connector(one: "ConnectorStatus", name: str, *, sends: bool, takes: bool) -> NodeRow:
    log = one.log
    return NodeRow(
        name,
        _state(one),
        one.rates.get("received", 0.0) if sends else None,
        one.rates.get("acked", 0.0) if takes else None,
        one.events.get("rejected", 0),
        one.events.get("failed", 0),
        f"{one.inflight_bytes / one.window_bytes:.0%}" if one.window_bytes else "",
        None if log is None else log.get("backlog_events", 0),
        0.0 if log is None else log.get("oldest_seconds", 0),
        None if log is None else log.get("used_bytes", 0),
        one.inner,
    )


def _state(one: "ConnectorStatus") -> Text:
    """What stops it comes before what it is."""
    if one.state != "up":
        return Text(one.state, STATES[one.state])
    if one.breaker is not None:
        return Text("breaker", "yellow")
    return Text("waits", "yellow") if one.gate else Text("up", "green")


def _pipeline(one: "PipelineStatus", name: str) -> NodeRow:
    rejected = one.events.get("rejected", 0)
    return NodeRow(
        name,
        Text("pipeline", "dim"),
        rejected=rejected,
        window=f"{one.keeps['window_open']:.0f} open" if one.keeps and "window_open" in one.keeps else "",
    )
