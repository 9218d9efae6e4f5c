"""What is aimed at, as ratios of figures of one run, and what this run says of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, cast

from bench.document import Document

Measure = Callable[[Document], Sequence[float]]  # one a round; empty: not measured


@dataclass(frozen=True)
class Goal:
    figure: str
    good: float
    aim: float
    measure: Measure
    more: bool = True  # is better

    def verdict(self, value: float) -> str:
        for name, mark in (("aim", self.aim), ("good", self.good)):
            if value >= mark if self.more else value <= mark:
                return name
        return "missed"


@dataclass(frozen=True)
class Outcome:
    goal: Goal
    values: Sequence[float]

    @property
    def verdict(self) -> str:
        return self.goal.verdict(median(self.values)) if self.values else "not measured"


def outcomes(document: Document) -> list[Outcome]:
    return [Outcome(goal, goal.measure(document)) for goal in GOALS]


def ratio(name: str, mine: str, theirs: str) -> Measure:
    """Of two rows, within each round."""

    def measure(document: Document) -> Sequence[float]:
        ours, others = document.row(mine), document.row(theirs)
        if ours is None or others is None:
            return []
        pairs = zip(ours.rounds, others.rounds, strict=False)  # what was measured once has one round
        return [one[name] / other[name] for one, other in pairs if name in one and other.get(name)]

    return measure


def share(mine: str, theirs: str, key: str) -> Measure:
    """Of two figures of one row."""

    def measure(document: Document) -> Sequence[float]:
        row = document.row(key)
        return [one[mine] / one[theirs] for one in row.rounds] if row is not None else []

    return measure


def figure(name: str, key: str) -> Measure:
    def measure(document: Document) -> Sequence[float]:
        row = document.row(key)
        return [one[name] for one in row.rounds] if row is not None else []

    return measure


def into_spark(document: Document) -> Sequence[float]:
    """Rows a second of walflow's source, of each round, over the highest rate that Spark's socket source
    sustained."""
    cases = cast(Sequence[Mapping[str, Any]], document.spark.get("cases", ()))
    tries = cast(Sequence[Mapping[str, Any]], document.spark.get("socket", ()))
    best = max(_sustained(tries), default=0.0)
    rounds = next((case["rounds"] for case in cases if case["name"] == "walflow, noop, 100 B"), ())
    return [one["rows_per_second"] / best for one in rounds] if best else []


def _sustained(tries: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    return (min(one["rate"], one["sent_at"]) for one in tries if one["processed"] >= one["sent"])


GOALS: Final = (
    Goal(
        "events/s ÷ rsyslog's disk queue (which never syncs)",
        15,
        25,
        ratio("events_per_second", "echo", "rsyslog-disk"),
    ),
    Goal(
        "`where` on one member ÷ rsyslog mmjsonparse + if",
        3,
        5,
        ratio("events_per_second", "look-where", "look-rsyslog"),
    ),
    Goal("the same ÷ pass", 0.25, 0.35, ratio("events_per_second", "look-where", "look-pass")),
    Goal("that `where`, 1 % of misfits ÷ none", 0.9, 0.97, ratio("events_per_second", "look-misfits", "look-where")),
    Goal("`where` on two members ÷ pass", 0.2, 0.3, ratio("events_per_second", "look-two", "look-pass")),
    Goal("a new event of two members ÷ pass", 0.2, 0.3, ratio("events_per_second", "look-target", "look-pass")),
    Goal("`patch … insert` ÷ pass", 0.12, 0.2, ratio("events_per_second", "look-insert", "look-pass")),
    Goal("a script of three cases ÷ pass", 0.12, 0.2, ratio("events_per_second", "look-script", "look-pass")),
    Goal(
        "that script with a counter in `state` ÷ without",
        0.7,
        0.85,
        ratio("events_per_second", "look-counter", "look-script"),
    ),
    Goal("`where` with the wal in front ÷ without", 0.75, 0.85, ratio("events_per_second", "look-wal", "look-where")),
    Goal("events/s ÷ Redis, AOF always, 1 connection", 8, 15, ratio("events_per_second", "echo", "redis-1")),
    Goal("events/s ÷ Redis, AOF always, 32 connections", 4, 7, ratio("events_per_second", "echo", "redis-32")),
    Goal("events/s ÷ the same flow without its wal: echo", 0.35, 0.5, ratio("events_per_second", "echo", "plain")),
    Goal("the same, file and echo", 0.35, 0.5, ratio("events_per_second", "file", "plain-file")),
    Goal(
        "that flow without its wal ÷ rsyslog in memory", 1, 1, ratio("events_per_second", "plain", "rsyslog-memory")
    ),
    Goal(
        "CPU per event ÷ rsyslog's disk queue",
        0.06,
        0.035,
        ratio("cpu_us_per_event", "echo", "rsyslog-disk"),
        more=False,
    ),
    Goal(
        "echo p50 at 1,000 events/s ÷ fdatasync p50", 2.2, 1.5, ratio("p50_us", "latency-echo", "floor"), more=False
    ),
    Goal(
        "HTTP requests/s with 1 event ÷ an aiohttp handler",
        0.5,
        0.8,
        ratio("requests_per_second", "http-1", "http-1-aiohttp"),
    ),
    Goal(
        "the same with 100 events",
        0.8,
        1,
        ratio("requests_per_second", "http-100", "http-100-aiohttp"),
    ),
    Goal("MB/s of a followed file ÷ `tail -F` into `cat`", 0.5, 0.8, ratio("mb_per_s", "follow", "follow-tail")),
    Goal(
        "recovery, MB/s ÷ `dd bs=4M` from the page cache",
        0.25,
        0.6,
        share("recovery_mb_per_s", "dd_mb_per_s", "recovery"),
    ),
    Goal(
        "MB/s of a log at the bound of its history ÷ one that keeps nothing",
        0.95,
        1,
        share("kept_mb_per_s", "acked_mb_per_s", "history"),
    ),
    Goal("the same ÷ a log whose backlog grows", 1, 2, share("kept_mb_per_s", "growing_mb_per_s", "history")),
    Goal(
        "peak RSS, 10 GB of backlog ÷ 100 MB",
        1.2,
        1.05,
        ratio("peak_rss_mb", "restart-large", "restart-small"),
        more=False,
    ),
    Goal(
        "catch-up, MB/s ÷ `dd iflag=direct` of the same cold files",
        0.3,
        0.5,
        share("caught_up_mb_per_s", "direct_mb_per_s", "catch-up"),
    ),
    Goal(
        "peak RSS, 10 GB of lag in one lane ÷ 100 MB",
        1.2,
        1.05,
        ratio("peak_rss_mb", "lag-large", "lag-small"),
        more=False,
    ),
    Goal(
        "of eight lanes at eight places, the slowest's rate ÷ the fastest's",
        0.5,
        0.9,
        share("slowest_mb_per_s", "fastest_mb_per_s", "eight-lanes"),
    ),
    Goal("log bytes ÷ payload, blocks of 64 KiB", 1.005, 1.001, figure("log_per_payload", "space-large"), more=False),
    Goal(
        "log bytes ÷ payload, blocks of 10 events", 1.08, 1.06, figure("log_per_payload", "space-small"), more=False
    ),
    Goal("rows/s into Spark (noop) ÷ Spark's socket source at its best", 8, 15, into_spark),
)
