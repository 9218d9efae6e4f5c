"""The rows as a table: of repeats the worst, for a crash that loses something one time in three loses something."""

from collections.abc import Sequence

from bench.crash.ledger import Row

COLUMNS = (
    *("fault", "system", "acked", "lost", "twice", "out of order", "altered", "stood still, s"),
    *("good events again after, s", "disk, MB", "memory, MB"),
)


def markdown(rows: Sequence[Row]) -> str:
    places = dict.fromkeys((row.fault, row.system) for row in rows)
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for fault, system in places:
        of = [row for row in rows if (row.fault, row.system) == (fault, system)]
        lines.append(_line(fault, system, of))
    return "\n".join(lines)


def _line(fault: str, system: str, of: Sequence[Row]) -> str:
    again = [row.again_s for row in of]
    refused = next((f" (the bad one: {row.refused})" for row in of if row.refused), "")
    cells = [
        fault,
        f"{system}{refused}",
        _spread([row.acked for row in of]),
        _spread([row.lost for row in of]),
        _twice(of),
        _spread([row.disordered for row in of]),
        _spread([row.altered for row in of]),
        f"{max(row.still_s for row in of):.1f}",
        "never" if None in again else f"{max(one for one in again if one is not None):.1f}",
        f"{max(row.disk_mb for row in of):.0f}",
        f"{max(row.rss_mb for row in of):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _twice(of: Sequence[Row]) -> str:
    own = max(row.sent_twice for row in of)
    return _spread([row.twice for row in of]) + (f" ({own:,} of them sent twice)" if own else "")


def _spread(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{high:,}" if low == high else f"{low:,}-{high:,}"
