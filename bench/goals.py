"""What is aimed at, as ratios of figures of one run, and what this run says of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, cast

from bench.document import Document

Measure = Callable[[Document], Sequence[float]]  # one a round; empty: not measured


@dataclass(frozen=True)
class Goal:
    """`means`: what it is to a user."""

    figure: str
    means: str
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


def rates(mine: str, theirs: str) -> Measure:
    return ratio("events_per_second", mine, theirs)


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


def spark_cases(mine: str, theirs: str) -> Measure:
    """Of two cases of `bench.spark.throughput`, within each round."""

    def measure(document: Document) -> Sequence[float]:
        cases = cast(Sequence[Mapping[str, Any]], document.spark.get("cases", ()))
        ours, others = (
            next((case["rounds"] for case in cases if case["name"] == name), ()) for name in (mine, theirs)
        )
        return [a["rows_per_second"] / b["rows_per_second"] for a, b in zip(ours, others, strict=False)]

    return measure


def spark_ratios(name: str) -> Measure:
    """One of `bench.spark.ratios`."""

    def measure(document: Document) -> Sequence[float]:
        found = cast(Sequence[Mapping[str, Any]], document.spark.get("ratios", ()))
        one = next((one for one in found if one["name"] == name), None)
        if one is None:
            return []
        return [mine / other for mine, other in zip(one["mine_rates"], one["other_rates"], strict=True)]

    return measure


def _sustained(tries: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    return (min(one["rate"], one["sent_at"]) for one in tries if one["processed"] >= one["sent"])


GOALS: Final = (
    Goal(
        "events/s ÷ rsyslog's disk queue (which never syncs)",
        "a log that is synced beside one that is not",
        15,
        25,
        rates("echo", "rsyslog-disk"),
    ),
    Goal(
        "CPU per event ÷ rsyslog's disk queue",
        "what such a log costs of a processor",
        0.06,
        0.035,
        ratio("cpu_us_per_event", "echo", "rsyslog-disk"),
        more=False,
    ),
    Goal(
        "events/s ÷ Redis, AOF always, 1 connection",
        "the same beside a broker that syncs, one producer",
        8,
        15,
        rates("echo", "redis-1"),
    ),
    Goal("events/s ÷ Redis, AOF always, 32 connections", "and many producers", 4, 7, rates("echo", "redis-32")),
    Goal("events/s ÷ the same flow without its wal: echo", "what a log costs", 0.35, 0.5, rates("echo", "plain")),
    Goal("the same, file and echo", "and where a file is written as well", 0.35, 0.5, rates("file", "plain-file")),
    Goal(
        "that flow without its wal ÷ rsyslog in memory",
        "a forwarder without a log",
        1,
        1,
        rates("plain", "rsyslog-memory"),
    ),
    Goal(
        "echo p50 at 1,000 events/s ÷ fdatasync p50",
        "how long a client waits until its event is on disk",
        1.4,
        1.2,
        ratio("p50_us", "latency-echo", "floor"),
        more=False,
    ),
    Goal("`where` on one member ÷ pass", "what a filter costs", 0.25, 0.35, rates("look-where", "look-pass")),
    Goal(
        "the same ÷ rsyslog with mmjsonparse and `if`",
        "a filter beside the usual one",
        3,
        5,
        rates("look-where", "look-rsyslog"),
    ),
    Goal(
        "that `where`, 1 % of misfits ÷ none",
        "events of another shape do not slow the rest down",
        0.9,
        0.97,
        rates("look-misfits", "look-where"),
    ),
    Goal("`where` on two members ÷ pass", "a filter of two conditions", 0.2, 0.3, rates("look-two", "look-pass")),
    Goal("a new event of two members ÷ pass", "a projection", 0.2, 0.4, rates("look-target", "look-pass")),
    Goal("`patch … insert` ÷ pass", "a member is added", 0.12, 0.2, rates("look-insert", "look-pass")),
    Goal(
        "a script of three cases ÷ pass",
        "routing by what is in an event",
        0.12,
        0.35,
        rates("look-script", "look-pass"),
    ),
    Goal(
        "that script with a counter in `state` ÷ without",
        "a script that remembers",
        0.7,
        0.85,
        rates("look-counter", "look-script"),
    ),
    Goal("`re` with two groups ÷ pass", "a regular expression", 0.08, 0.15, rates("look-re", "look-pass")),
    Goal(
        "`where` with the wal in front ÷ without",
        "what a log costs a filter",
        0.75,
        0.85,
        rates("look-wal", "look-where"),
    ),
    Goal(
        "HTTP requests/s with 1 event ÷ an aiohttp handler",
        "a door for requests beside a bare server",
        0.5,
        0.8,
        ratio("requests_per_second", "http-1", "http-1-aiohttp"),
    ),
    Goal(
        "the same with 100 events",
        "each event is validated, which the bare server does not do",
        0.6,
        0.8,
        ratio("requests_per_second", "http-100", "http-100-aiohttp"),
    ),
    Goal(
        "WebSocket messages/s ÷ lines by TCP", "what a message of its own costs", 0.08, 0.13, rates("ws-echo", "echo")
    ),
    Goal(
        "MB/s of a followed file ÷ `tail -F` into `cat`",
        "reading what an application writes; tail and cat are two processes",
        0.5,
        0.8,
        ratio("mb_per_s", "follow", "follow-tail"),
    ),
    Goal(
        "log bytes ÷ payload, blocks of 64 KiB",
        "disk that a log needs, at a high rate",
        1.005,
        1.001,
        figure("log_per_payload", "space-large"),
        more=False,
    ),
    Goal(
        "log bytes ÷ payload, blocks of 10 events",
        "and at a low one",
        1.08,
        1.06,
        figure("log_per_payload", "space-small"),
        more=False,
    ),
    Goal(
        "recovery, MB/s ÷ `dd bs=4M` from the page cache",
        "how soon a killed daemon is there again",
        0.25,
        0.6,
        share("recovery_mb_per_s", "dd_mb_per_s", "recovery"),
    ),
    Goal(
        "MB/s of a log at the bound of its history ÷ one that keeps nothing",
        "what `retain` costs",
        0.95,
        1,
        share("kept_mb_per_s", "acked_mb_per_s", "history"),
    ),
    Goal(
        "the same ÷ a log whose backlog grows",
        "history beside a backlog",
        1,
        2,
        share("kept_mb_per_s", "growing_mb_per_s", "history"),
    ),
    Goal(
        "peak RSS, 10 GB of backlog ÷ 100 MB",
        "a long outage needs disk, not memory",
        1.2,
        1.05,
        ratio("peak_rss_mb", "restart-large", "restart-small"),
        more=False,
    ),
    Goal(
        "catch-up, MB/s ÷ `dd iflag=direct` of the same cold files",
        "how soon a sink that was away has all",
        0.3,
        0.5,
        share("caught_up_mb_per_s", "direct_mb_per_s", "catch-up"),
    ),
    Goal(
        "peak RSS, 10 GB of lag in one lane ÷ 100 MB",
        "its lag needs no memory either",
        1.2,
        1.05,
        ratio("peak_rss_mb", "lag-large", "lag-small"),
        more=False,
    ),
    Goal(
        "of eight lanes at eight places, the slowest's rate ÷ the fastest's",
        "no sink starves",
        0.5,
        0.9,
        share("slowest_mb_per_s", "fastest_mb_per_s", "eight-lanes"),
    ),
    Goal(
        "CPU of `walflow check` of the echo server ÷ `python -c pass`",
        "how long an editor or CI waits",
        40,
        10,
        ratio("cpu_ms", "check", "python"),
        more=False,
    ),
    Goal(
        "rows/s into Spark (noop) ÷ Spark's socket source at its best",
        "events from outside into Spark",
        8,
        15,
        into_spark,
    ),
    Goal(
        "rows/s from the log into Spark ÷ text files, 100 B",
        "a log instead of files; a source in Python",
        0.6,
        0.85,
        spark_cases("walflow, noop, 100 B", "text files, noop, 100 B"),
    ),
    Goal(
        "the same, 1 KB",
        "and with longer events",
        0.6,
        0.85,
        spark_cases("walflow, noop, 1 KB", "text files, noop, 1 KB"),
    ),
    Goal(
        "`readStream` ÷ Spark's source for Kafka",
        "a stream instead of Kafka",
        2.5,
        3,
        spark_ratios("kafka: streaming"),
    ),
    Goal("`spark.read` ÷ Spark's source for Kafka", "a batch instead of Kafka", 4, 5, spark_ratios("kafka: batch")),
    Goal(
        "pipeline on Spark ÷ Spark's own `from_json`, filter and select",
        "a walflow pipeline as a Spark job",
        1,
        2,
        spark_ratios("pipeline: where and target"),
    ),
    Goal(
        "windows by ten groups ÷ Spark's `groupBy(window)`",
        "windows as a Spark job",
        0.3,
        0.6,
        spark_ratios("pipeline: windows by group"),
    ),
    Goal("32 partitions ÷ 8", "many partitions of one log", 0.6, 0.95, spark_ratios("partitions: 32 for 8")),
)
