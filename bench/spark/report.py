"""One run as a JSON document, and a document as Markdown."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

Rounds = Sequence[Mapping[str, Any]]  # throughput.Result as a mapping, one a round
Row = Sequence[str]

KEY: Final = "spark"  # in a file that has the other table's results too


@dataclass
class Document:
    """What a run came to; lists of results are asdict of what the modules return."""

    machine: dict[str, object]
    settings: dict[str, object]
    cases: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)
    socket: list[dict[str, Any]] = field(default_factory=list)
    ratios: list[dict[str, Any]] = field(default_factory=list)
    memory_mb: dict[str, float] = field(default_factory=dict)


def write(file: Path, document: Document) -> None:
    """Beside what `python -m bench --json` has written there, if it is that."""
    try:
        there: object = json.loads(file.read_text())
    except (OSError, ValueError):
        there = None
    whole = cast(dict[str, object], there) if isinstance(there, dict) else {}
    file.write_text(json.dumps(whole | {KEY: vars(document)}, indent=2) + "\n")


def read(file: Path) -> Document:
    """Raises ValueError, OSError."""
    try:
        return Document(**json.loads(file.read_text())[KEY])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} has no results of python -m bench.spark") from error


def markdown(document: Document) -> str:
    parts = [_head(document)]
    if document.cases:
        parts.append(_throughput(document))
    if document.ratios:
        parts.append(_ratios(document))
    if document.latency:
        parts.append(_latency(document))
    if document.socket:
        parts.append(_socket(document))
    parts.append(_memory(document))
    return "\n\n".join(parts) + "\n"


def _head(document: Document) -> str:
    machine, settings = document.machine, document.settings
    return (
        f"Spark {machine['spark']}, Java {machine['java']}, Python {machine['python']}, `{settings['master']}`, "
        f"driver memory {settings['heap']}. {machine['cpus']} CPUs ({machine['cpu']}) are shared by Spark, walflow "
        f"and the bench. Load average before the run: {machine['load']}."
    )


def _throughput(document: Document) -> str:
    settings = document.settings
    rows = [_case(case, document.cases) for case in document.cases]
    intro = (
        f"A run has {settings['batches']} batches of {settings['batch_mb']:g} MB, without the first. Medians of "
        f"{settings['rounds']} {'round' if settings['rounds'] == 1 else 'rounds'}"
        f"{' after a warm-up round' if settings['warm_rounds'] else ''}, cases in turn. rows/s: rows / "
        "triggerExecution of all those batches. In addBatch: rows / addBatch, without the fixed costs of a batch. "
        "CPU: seconds per million rows, for Spark those of the JVM and its Python workers, "
        "for walflow those of the daemon."
    )
    heads = ("", "rows/s", "min-max", "in addBatch", "÷ text files", "CPU Spark", "CPU walflow")
    return f"{intro}\n\n{table(heads, rows)}"


def _case(case: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> Row:
    rounds = cast(Rounds, case["rounds"])
    rates = [one["rows_per_second"] for one in rounds]
    daemon = [one["daemon_cpu_s_per_million"] for one in rounds]
    return (
        case["name"],
        f"{median(rates):,.0f}",
        f"{min(rates):,.0f}-{max(rates):,.0f}",
        f"{median(one['rows_per_second_adding'] for one in rounds):,.0f}",
        _ratio(case, cases),
        f"{median(one['spark_cpu_s_per_million'] for one in rounds):.2f}",
        "" if None in daemon else f"{median(daemon):.2f}",
    )


def _ratio(case: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> str:
    """Within each round, median (min-max)."""
    text = case["name"].replace("walflow", "text files").replace("from memory", "text files")
    theirs = next((cast(Rounds, other["rounds"]) for other in cases if other["name"] == text), None)
    if theirs is None or text == case["name"]:
        return ""
    pairs = zip(cast(Rounds, case["rounds"]), theirs, strict=True)
    ratios = [mine["rows_per_second"] / other["rows_per_second"] for mine, other in pairs]
    return f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def _ratios(document: Document) -> str:
    settings = document.settings
    rows: list[Row] = []
    for one in document.ratios:
        pairs = [mine / other for mine, other in zip(one["mine_rates"], one["other_rates"], strict=True)]
        rows.append(
            (
                f"{one['mine']} ÷ {one['other']}",
                f"{median(pairs):.2f} ({min(pairs):.2f}-{max(pairs):.2f})",
                "" if one["good"] is None else f"{one['good']:g}",
                "" if one["aim"] is None else f"{one['aim']:g}",
                f"{median(one['mine_rates']):,.0f}",
                f"{median(one['other_rates']):,.0f}",
                f"{median(one['mine_cpu']):.2f}",
                f"{median(one['other_cpu']):.2f}",
            )
        )
    intro = (
        f"Data with an end, unless a row says `readStream`: {settings['ratio_rows']:,} lines of 100 bytes into noop, "
        f"by turns; medians of {settings['rounds']} {'round' if settings['rounds'] == 1 else 'rounds'}. The ratio is "
        "taken within each round. CPU: seconds per million rows, of all processes."
    )
    return f"{intro}\n\n{table(('', 'ratio', 'good', 'aim', 'rows/s', 'of the other', 'CPU', 'of the other'), rows)}"


def _latency(document: Document) -> str:
    columns: Sequence[tuple[str, Callable[[Mapping[str, Any]], str]]] = (
        ("sink", lambda one: one["sink"]),
        ("p50", lambda one: f"{one['p50']:.0f}"),
        ("p99", lambda one: f"{one['p99']:.0f}"),
        ("highest", lambda one: f"{one['highest']:.0f}"),
        ("a batch", lambda one: f"{one['batch']:.0f}"),
        ("rows in it", lambda one: f"{one['rows_a_batch']:.0f}"),
        ("an event alone", lambda one: f"{one['alone']:.0f}"),
        ("its batch", lambda one: f"{one['alone_batch']:.0f}"),
        ("floor", lambda one: f"{one['floor_batch']:.0f}"),
        ("alone ÷ floor", lambda one: f"{one['alone'] / one['floor_batch']:.2f}"),
    )
    rows = [[cell(one) for _, cell in columns] for one in document.latency]
    intro = (
        "Milliseconds from the write of an event to the socket to the end of its batch, with the commits of the sink "
        "and of the checkpoint. 1,000 events of 100 bytes a second go through `tcp_server` and the log. Batches "
        "follow one another without a trigger interval. An event alone: sent when no other event is underway. Floor: "
        "a batch of one row of Spark's own `rate-micro-batch`. "
        "The time of a batch is triggerExecution without latestOffset, medians."
    )
    return f"{intro}\n\n{table([head for head, _ in columns], rows)}"


def _socket(document: Document) -> str:
    by_partitions: dict[object, list[Mapping[str, Any]]] = {}
    for one in document.socket:
        by_partitions.setdefault(one["partitions"], []).append(one)
    rows = [
        (
            "default" if partitions is None else str(partitions),
            _best(tries),
            *(f"{tries[-1][name]:,}" for name in ("rate", "sent", "processed", "largest_batch")),
        )
        for partitions, tries in by_partitions.items()
    ]
    heads = ("numPartitions", "sustained rows/s", "tried last", "sent", "done", "largest batch")
    intro = (
        "Spark's socket source, lines of 100 bytes into noop: the highest rate, found by doubling, at which all "
        f"that was sent in {document.settings['socket_seconds']:g} s was processed {document.settings['grace']:g} s "
        "later. The rate tried last failed twice, unless it was the highest that is tried."
    )
    return f"{intro}\n\n{table(heads, rows)}"


def _best(tries: Sequence[Mapping[str, Any]]) -> str:
    kept = [min(one["rate"], one["sent_at"]) for one in tries if one["processed"] >= one["sent"]]
    return f"{max(kept):,.0f}" if kept else f"below {tries[0]['rate']:,}"


def _memory(document: Document) -> str:
    return f"Peak RSS: {', '.join(f'{name} {size:,.0f} MB' for name, size in document.memory_mb.items())}."


def table(heads: Row, rows: Iterable[Row]) -> str:
    """Aligned, so that it can be read as it is."""
    lines = [heads, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    cells = [
        [
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (cells[0], rule, *cells[1:]))
