"""Rounds of results -> medians, ratios within each round, a table and a JSON file."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.table import Table

from bench.cases import Case
from bench.load import Result

Rounds = dict[str, list[Result]]  # by the name of the case, one a round


def figures(cases: Sequence[Case], rounds: Rounds, absent: dict[str, str]) -> Table:
    table = _table("", "events/s", "min-max", "CPU µs/event", "peak RSS MB", "load generator")
    for case in cases:
        if case.name in absent:
            table.add_row(case.name, "absent")
        else:
            table.add_row(case.name, *_figures(rounds[case.name]))
    return table


def ratios(cases: Sequence[Case], rounds: Rounds) -> Table:
    """Within each round, of its median (min-max)."""
    baselines = [case for case in cases if case.baseline and case.name in rounds]
    heads = [f"{what} ÷ {case.baseline}" for case in baselines for what in ("events/s", "CPU")]
    table = _table("", *heads)
    for case in cases:
        if case.name in rounds:
            pairs = [(rounds[case.name], rounds[baseline.name]) for baseline in baselines]
            cells = [cell for mine, theirs in pairs for cell in _ratios(mine, theirs)]
            table.add_row(case.name, *cells)
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", no_wrap=True)
    return table


def _ratios(mine: Sequence[Result], theirs: Sequence[Result]) -> tuple[str, str]:
    if mine is theirs:
        return "1", "1"
    pairs = list(zip(mine, theirs, strict=True))
    return (
        _spread([one.events_per_second / other.events_per_second for one, other in pairs]),
        _spread([one.cpu_us_per_event / other.cpu_us_per_event for one, other in pairs]),
    )


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


def _figures(results: Sequence[Result]) -> list[str]:
    rates = [result.events_per_second for result in results]
    return [
        f"{median(rates):,.0f}",
        f"{min(rates):,.0f}-{max(rates):,.0f}",
        f"{median(result.cpu_us_per_event for result in results):.2f}",
        f"{median(result.peak_rss_mb for result in results):.0f}",
        f"{median(result.generator_share for result in results):.0%}",
    ]


def write_json(file: Path, cases: Sequence[Case], rounds: Rounds, absent: dict[str, str], disk: str) -> None:
    document = {
        "machine": {
            "cpus": os.cpu_count(),
            "cpu": cpu_model(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "disk": disk,
        },
        "cases": [
            {
                "name": case.name,
                "load": asdict(case.load),
                "absent": absent.get(case.name),
                "rounds": [asdict(result) for result in rounds.get(case.name, [])],
            }
            for case in cases
        ],
    }
    file.write_text(json.dumps(document, indent=2) + "\n")


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
