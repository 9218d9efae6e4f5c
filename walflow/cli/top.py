"""`walflow top`: what a running daemon does now, the busiest first."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from walflow.cli.admin_client import AdminClient, AdminOption, TokenOption, answered

if TYPE_CHECKING:
    from rich.console import RenderableType

    from walflow.admin.document import Status

LINES = 5  # troubles that are shown


def top(
    sort: Annotated[
        Literal["rate", "lag", "backlog", "disk", "rejected", "name"], typer.Option(help="What comes first.")
    ] = "rate",
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    admin: AdminOption = "127.0.0.1:9898",
    admin_token_file: TokenOption = None,
) -> None:
    """Show the nodes of a running daemon, sorted and refreshed each second, until Ctrl-C.

    Of a log with several sinks, each lane has a row with what its sinks lack. `read/s` are events that a source or a
    log sends into the flow. `acked/s` are events that a sink or a log has acked. `flight` is the share of a source's
    window that is in flight; for a pipeline, the number of open windows. `oldest` is the age of the oldest event that
    is not acked.
    """
    from walflow.cli.status import read, refresh, show

    client = AdminClient(admin, admin_token_file)
    with answered():
        if once:
            show(_lines(read(client.ask("/status")), sort))
        else:
            refresh(client, lambda known: _lines(known, sort))


def _lines(known: "Status", sort: str) -> "list[RenderableType]":
    from walflow.cli.node_table import SORTS, all_rows, table_of, total_of
    from walflow.cli.status import head, troubles

    rows = all_rows(known)
    rows.sort(key=lambda row: row.name)
    if sort in SORTS:
        rows.sort(key=SORTS[sort])
    told = [line for flow in known.flows for one in flow.connectors for line in troubles(one, flow, known.state)]
    return [head(known), table_of([*rows, total_of(rows)]), *told[:LINES]]
