"""A document -> tables, for a terminal and as Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from rich.table import Table

from bench.cases import COMMANDS, EIGHT, FOLLOWED, HISTORY, LAG, LATENCY, RECOVERY, REQUESTS, RESTART, SPACE
from bench.document import Document, Row, cpu_model
from bench.goals import Outcome, outcomes
from bench.spark.report import Document as Spark, markdown as on_spark

__all__ = ["BEGIN", "END", "cpu_model", "markdown", "page", "sections", "terminal"]

BEGIN: Final = "<!-- rows: begin -->"
END: Final = "<!-- rows: end -->"
OURS: Final = "walflow"  # whose ratios are shown

Cells = Sequence[str]

HEADS: Final = ("figure", "what it is to a user", "good", "aim", "measured", "reached")
TEXTS: Final = set(HEADS[:2])  # columns that begin at the left


@dataclass(frozen=True)
class Section:
    intro: str
    heads: Cells
    rows: Sequence[Cells]


@dataclass(frozen=True)
class Column:
    head: str
    name: str
    form: str

    def cell(self, rounds: Sequence[Mapping[str, float]]) -> str:
        """Empty where it was not measured, as in results of an older bench."""
        values = [one[self.name] for one in rounds if self.name in one]
        return format(median(values), self.form) if values else ""


HALF: Final = (
    Column("p50 µs", "half_p50_us", ",.0f"),
    Column("p99 µs", "half_p99_us", ",.0f"),
    Column("p99.9 µs", "half_p999_us", ",.0f"),
)
LOADED: Final = (
    *HALF,
    Column("CPU µs/event", "cpu_us_per_event", ".2f"),
    Column("written ÷ payload", "written_per_byte", ".2f"),
    Column("peak RSS MB", "peak_rss_mb", ".0f"),
    Column("load generator", "generator_share", ".0%"),
)
COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    LATENCY: (
        Column("p50 µs", "p50_us", ",.0f"),
        Column("p99 µs", "p99_us", ",.0f"),
        Column("highest µs", "highest_us", ",.0f"),
    ),
    REQUESTS: (
        Column("requests/s", "requests_per_second", ",.0f"),
        *HALF,
        Column("CPU µs/request", "cpu_us_per_request", ".1f"),
        Column("peak RSS MB", "peak_rss_mb", ".0f"),
    ),
    FOLLOWED: (
        Column("MB/s", "mb_per_s", ",.0f"),
        Column("CPU ms/MB", "cpu_ms_per_mb", ".2f"),
        Column("peak RSS MB", "peak_rss_mb", ".0f"),
    ),
    SPACE: (
        Column("log bytes ÷ payload", "log_per_payload", ".4f"),
        Column("payload a record", "payload_per_record", ",.0f"),
        Column("tag bytes", "tag_bytes", ",.0f"),
    ),
    RESTART: (
        Column("ready after s", "ready_s", ".2f"),
        Column("RSS then, MB", "ready_rss_mb", ".0f"),
        Column("peak RSS MB", "peak_rss_mb", ".0f"),
        Column("delivered, MB/s", "delivered_mb_per_s", ",.0f"),
    ),
    LAG: (
        Column("MB/s", "caught_up_mb_per_s", ",.0f"),
        Column("dd iflag=direct", "direct_mb_per_s", ",.0f"),
        Column("CPU ms/MB", "cpu_ms_per_mb", ".2f"),
        Column("peak RSS MB", "peak_rss_mb", ".0f"),
    ),
    EIGHT: (
        Column("slowest, MB/s", "slowest_mb_per_s", ",.0f"),
        Column("fastest, MB/s", "fastest_mb_per_s", ",.0f"),
        Column("together, MB/s", "together_mb_per_s", ",.0f"),
    ),
    RECOVERY: (
        Column("recovery MB/s", "recovery_mb_per_s", ",.0f"),
        Column("dd bs=4M", "dd_mb_per_s", ",.0f"),
        Column("cksum", "cksum_mb_per_s", ",.0f"),
    ),
    COMMANDS: (Column("CPU ms", "cpu_ms", ",.0f"),),
    HISTORY: (
        Column("MB/s", "kept_mb_per_s", ",.0f"),
        Column("that keeps nothing", "acked_mb_per_s", ",.0f"),
        Column("whose backlog grows", "growing_mb_per_s", ",.0f"),
    ),
}
INTROS: Final = {
    LATENCY: (
        "Latency of a line of 100 bytes, from its write to the read that completes it. Lines are sent at fixed "
        "times, also if earlier ones are not back yet. A floor is the same with a loop that does nothing else."
    ),
    SPACE: "Bytes of the log on the disk: records with header, tag and padding, and the headers of chunks.",
    REQUESTS: (
        "HTTP requests of 32 connections, each with one request under way; an event has 100 bytes. `http_server` "
        "validates each event, and answers once it is acked. Latency at half of the rate, from when one was due."
    ),
    FOLLOWED: (
        "A file that grows as fast as it can be written, in lines of 100 bytes. The rate is that of the first 95 %. "
        "They have arrived when the checkpoint of walflow says so, or behind `cat`. Behind the last event, a "
        "checkpoint waits for half a second."
    ),
    RESTART: (
        "Restart with a log full of blocks of 64 KiB. First the time from the start of the process to `ready`. Then "
        "the whole log is sent to a client that only reads. The row of 10 GB is measured once."
    ),
    LAG: (
        "A log with two sinks in lanes. One has all events; the other was away and has none. When it is back, its "
        "client reads all of them, from files that are not in the page cache. `dd bs=1M iflag=direct` reads the same "
        "files before. The row of 10 GB is measured once."
    ),
    EIGHT: (
        "Eight clients of one log, each in a lane and at another place, until the first has all that it lacks. The "
        "files are in the page cache."
    ),
    COMMANDS: "Commands, from their start to their end, the least of five: CPU in user and system.",
    HISTORY: (
        "Blocks of 64 KiB, a sync for each MiB, in three logs by turns: one keeps what is acked and is at its bound, "
        "one deletes it, in one nothing is acked."
    ),
    RECOVERY: (
        "Recovery reads and verifies a log of one chunk. `dd` and `cksum` read the same file from the page cache."
    ),
}


def sections(document: Document) -> list[Section]:
    made = [_goals(outcomes(document))]
    for table in dict.fromkeys(row.table for row in document.cases if row.table not in COLUMNS):
        rows = _of(document, table)
        made += [_loaded(table, rows), _ratios(table, rows)]
    made += [_plain(table, rows) for table in COLUMNS if (rows := _of(document, table))]
    return [section for section in made if section.rows]


def head(document: Document) -> str:
    machine, settings = document.machine, document.settings
    return (
        f"`python -m bench --rounds {settings['rounds']:g} --seconds {settings['seconds']:g}`: medians of "
        f"{settings['rounds']:g} {'round' if settings['rounds'] == 1 else 'rounds'}. The systems run in turn, each "
        f"for {settings['seconds']:g} s after a warm-up of {settings['warmup']:g} s. {machine['cpus']} CPUs "
        f"({machine['cpu']}) are shared by the system and the load generator. Linux {machine['kernel']}, Python "
        f"{machine['python']}{_peers(machine)}. Load average before the run: {machine['load']}.{_commit(machine)} "
        "Everything sent came back and was compared."
    )


def _commit(machine: Mapping[str, object]) -> str:
    commit = machine.get("commit")
    return f" Commit {str(commit)[:8]}." if commit else ""


def _peers(machine: Mapping[str, object]) -> str:
    return "".join(f", {machine[name]}" for name in ("rsyslog", "redis") if machine.get(name))


def _goals(found: Iterable[Outcome]) -> Section:
    rows = [
        (one.goal.figure, one.goal.means, f"{one.goal.good:g}", f"{one.goal.aim:g}", _spread(one.values), one.verdict)
        for one in found
    ]
    return Section("The goals, and the figures of this run:", HEADS, rows)


def _loaded(table: str, rows: Sequence[Row]) -> Section:
    heads = ("", "events/s", "min-max", *(column.head for column in LOADED))
    said = "Latency at half of the rate, in writes of a millisecond, from when one was due."
    return Section(f"JSON, {table}. {said}", heads, [_filled(row, len(heads), _loaded_cells) for row in rows])


def _loaded_cells(row: Row) -> Cells:
    rates = [one["events_per_second"] for one in row.rounds]
    spread = f"{min(rates):,.0f}-{max(rates):,.0f}"
    return (f"{median(rates):,.0f}", spread, *(column.cell(row.rounds) for column in LOADED))


def _ratios(table: str, rows: Sequence[Row]) -> Section:
    """Within each round."""
    baselines = [row for row in rows if row.baseline and row.rounds]
    heads = ("events/s ÷", *(row.baseline for row in baselines))
    cells = [
        (row.name, *("" if row is other else _spread(_quotients(row, other)) for other in baselines))
        for row in rows
        if row.rounds and row.name.startswith(OURS)
    ]
    return Section(f"Ratios within each round, median (min-max); {table}.", heads, cells if baselines else [])


def _quotients(row: Row, other: Row) -> list[float]:
    pairs = zip(row.rounds, other.rounds, strict=False)
    return [one["events_per_second"] / two["events_per_second"] for one, two in pairs]


def _plain(table: str, rows: Sequence[Row]) -> Section:
    columns = COLUMNS[table]
    extra = _cpu_share if table == LATENCY else None
    heads = ("", *(column.head for column in columns), *(("CPU of a core",) if extra else ()))

    def cells(row: Row) -> Cells:
        return (*(column.cell(row.rounds) for column in columns), *((extra(row),) if extra else ()))

    return Section(INTROS[table], heads, [_filled(row, len(heads), cells) for row in rows])


def _cpu_share(row: Row) -> str:
    shares = [one["cpu_share"] for one in row.rounds if "cpu_share" in one]
    return f"{median(shares):.0%}" if shares else ""


def _filled(row: Row, width: int, cells: Callable[[Row], Cells]) -> Cells:
    if not row.rounds:
        return (row.name, "none", *[""] * (width - 2))
    return (row.name, *cells(row))


def _of(document: Document, table: str) -> list[Row]:
    return [row for row in document.cases if row.table == table]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.4g}"
    return f"{median(values):.4g} ({min(values):.4g}-{max(values):.4g})"


def _missing(document: Document) -> list[str]:
    return [f"{row.name}: {row.missing}" for row in document.cases if row.missing]


def _of_spark(document: Document) -> list[str]:
    return ["### Into Spark", on_spark(Spark(**document.spark)).rstrip()] if document.spark else []


def terminal(document: Document) -> Iterable[str | Table]:
    """To be printed one after the other."""
    yield head(document)
    for section in sections(document):
        yield f"\n{section.intro}\n"
        table = Table(box=None, padding=(0, 3, 0, 0))
        for number, title in enumerate(section.heads):
            right = number and title not in TEXTS
            table.add_column(title, justify="right" if right else "left", no_wrap=True)
        for row in section.rows:
            table.add_row(*row)
        yield table
    yield from (f"\n{part}" for part in (*_of_spark(document), *_missing(document)))


def markdown(document: Document) -> str:
    parts = [head(document)]
    parts += [f"{section.intro}\n\n{aligned(section.heads, section.rows)}" for section in sections(document)]
    parts += _of_spark(document)
    return "\n\n".join([*parts, *_missing(document)]) + "\n"


def aligned(heads: Cells, rows: Iterable[Cells]) -> str:
    """A table of Markdown that can be read as it is."""
    lines = [heads, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    rights = [bool(at) and head not in TEXTS for at, head in enumerate(heads)]
    cells = [
        [
            cell.rjust(width) if right else cell.ljust(width)
            for right, cell, width in zip(rights, line, widths, strict=True)
        ]
        for line in lines
    ]
    rule = ["-" * (width - 1) + (":" if right else "-") for right, width in zip(rights, widths, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (cells[0], rule, *cells[1:]))


def page(text: str, document: Document) -> str:
    """The page with the rows between its markers. Raises ValueError where it has none."""
    return between(text, markdown(document))


def between(text: str, rows: str) -> str:
    """The same, with these rows."""
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} … {END} in it")
    return f"{before}{BEGIN}\n{rows}{END}{behind}"
