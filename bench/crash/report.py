"""The rows as tables, for a page. Of repeats the worst: what a crash loses one time in three is lost."""

import json
from collections.abc import Sequence
from inspect import getdoc
from pathlib import Path
from typing import NamedTuple

from bench.crash.faults import FAULTS
from bench.crash.ledger import Row

COLUMNS = (
    *("system", "acked", "lost", "held up", "twice", "out of order", "altered", "stood still, s"),
    *("good events again after, s", "disk, MB", "memory, MB"),
)


class ComparedSystem(NamedTuple):
    """A system, as it was set up. `acks`: what its ack is. `leaves_out`: faults, and why. `notes`: on faults."""

    name: str
    version: str
    promise: str
    page: str
    acks: str
    leaves_out: dict[str, str]
    notes: dict[str, str]


class Results(NamedTuple):
    machine: str
    command: str
    systems: Sequence[ComparedSystem]
    rows: Sequence[Row]


def store(file: Path, results: Results) -> None:
    """A line for each row."""
    text = json.dumps(results._asdict() | {"systems": [], "rows": []})[: -len('"systems": [], "rows": []}')]
    for name, of in (("systems", results.systems), ("rows", results.rows)):
        text += f'\n"{name}": [\n' + ",\n".join(json.dumps(one._asdict()) for one in of) + "\n],"
    file.write_text(text.rstrip(",") + "\n}\n")


def load(*files: Path) -> Results:
    """Of runs of different systems, together."""
    found = [json.loads(file.read_text()) for file in files]
    return Results(
        found[0]["machine"],
        found[0]["command"],
        [ComparedSystem(**system) for one in found for system in one["systems"]],
        [Row(**row) for one in found for row in one["rows"]],
    )


def page(results: Results) -> str:
    faults = [fault for fault in FAULTS if any(row.fault == fault for row in results.rows)]
    names = [one.name for one in results.systems]
    parts = [f"`{results.command}`. {results.machine}.", "", *_systems(results.systems), ""]
    parts += ["Acked, and never delivered; then delivered twice:", "", f"| fault | {' | '.join(names)} |"]
    parts.append(f"|---|{'---|' * len(names)}")
    for fault in faults:
        cells = [_cell([row for row in results.rows if (row.system, row.fault) == (name, fault)]) for name in names]
        parts.append(f"| {fault} | {' | '.join(cells)} |")
    for fault in faults:
        of_it = [row for row in results.rows if row.fault == fault]
        parts += ["", f"### {fault}", "", _described(fault), "", table(of_it)]
        for one in results.systems:
            if fault in one.leaves_out:
                parts += ["", f"{one.name} is left out: {one.leaves_out[fault]}."]
            if fault in one.notes:
                parts += ["", f"{one.name}: {one.notes[fault]}."]
    return "\n".join(parts)


def _systems(systems: Sequence[ComparedSystem]) -> list[str]:
    lines = ["| system | version | an ack | what its documentation says |", "|---|---|---|---|"]
    lines += [f"| {one.name} | {one.version} | {one.acks} | [{one.promise}]({one.page}) |" for one in systems]
    return lines


def _described(fault: str) -> str:
    return (getdoc(FAULTS[fault]) or "").replace("\n", " ")


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    lost, twice = max(row.lost for row in rows), max(row.twice for row in rows)
    if held := max(row.held for row in rows):
        return f"**all that follows is held up** ({held:,}), {twice:,} twice"
    return f"**{lost:,} lost**, {twice:,} twice" if lost else f"0 lost, {twice:,} twice"


def table(rows: Sequence[Row]) -> str:
    """Rows of one fault."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|{'---:|' * (len(COLUMNS) - 1)}"]
    systems = dict.fromkeys(row.system for row in rows)
    lines += [_line(system, [row for row in rows if row.system == system]) for system in systems]
    return "\n".join(lines)


def _line(system: str, of: Sequence[Row]) -> str:
    again = [row.again_s for row in of]
    refused = next((f" (the bad one: {row.refused})" for row in of if row.refused), "")
    refused += next((f" ({row.note})" for row in of if row.note), "")
    cells = [
        f"{system}{refused}",
        _spread([row.acked for row in of]),
        _spread([row.lost for row in of]),
        _spread([row.held for row in of]),
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
