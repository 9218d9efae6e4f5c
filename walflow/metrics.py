"""All metrics, by name and labels.

The hot path only adds to a plain int. Text, order and consistency are the scrape's work. It runs on the same loop, so
it never sees half of an update.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from walflow.contract import MetricValue
from walflow.families import Families, Family

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]

SYNC_SECONDS: Final = (100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0, 5.0)
COMMIT_BYTES: Final = tuple(float(1 << power) for power in range(9, 23, 2))


class CountedValue:
    """A counter. Only the loop writes it, so it needs no lock."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class BucketedValues:
    """A histogram: `counts[i]` is the number of values up to and with `bounds[i]`, the last one of values above."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: int


class Reading(NamedTuple):
    """The present value of a gauge."""

    name: str
    labels: Mapping[str, str]
    value: float


def _any(_name: str, _labels: Mapping[str, str]) -> bool:
    return True


class Metrics:
    """Every metric of a process's components. Names carry their unit, and `_total` where they only grow; no peer
    address is ever a label, it would make a series per client."""

    def __init__(self) -> None:
        self._counters: dict[Key, CountedValue] = {}
        self._gauges: dict[Key, Callable[[], float]] = {}
        self._histograms: dict[Key, BucketedValues] = {}

    def counter(self, name: str, **labels: str) -> CountedValue:
        return self._counters.setdefault(_key(name, labels), CountedValue())

    def histogram(self, name: str, bounds: Sequence[float], **labels: str) -> BucketedValues:
        return self._histograms.setdefault(_key(name, labels), BucketedValues(bounds))

    def gauge(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """`read` is called whenever the metrics are asked for; of two under one name and labels the later one."""
        self._gauges[_key(name, labels)] = read

    def forget(self, name: str, **labels: str) -> None:
        """A gauge that can no longer be read."""
        self._gauges.pop(_key(name, labels), None)

    def __iter__(self) -> Iterator[Sample]:
        """The counters."""
        for (name, labels), counter in sorted(self._counters.items(), key=lambda item: item[0]):
            yield Sample(name, dict(labels), counter.value)

    def gauges(self, wanted: Callable[[str, Mapping[str, str]], bool] = _any) -> Iterator[Reading]:
        """Those whose name and labels are `wanted`: only these are read, because some count what may be a million.
        One that fails is left out: what it looks at is just being closed, and the others are worth seeing."""
        for (name, labels), read in sorted(self._gauges.items(), key=lambda item: item[0]):
            of = dict(labels)
            if wanted(name, of) and (value := _read(read)) is not None:
                yield Reading(name, of, value)

    def values(self) -> list[MetricValue]:
        """Counters and gauges, as Prometheus names them."""
        counters = (MetricValue(exposed(name), labels, value) for name, labels, value in self)
        gauges = (MetricValue(exposed(name), labels, value) for name, labels, value in self.gauges())
        return [*counters, *gauges]

    def histograms(self) -> Iterator[tuple[str, Mapping[str, str], BucketedValues]]:
        for (name, labels), histogram in sorted(self._histograms.items(), key=lambda item: item[0]):
            yield name, dict(labels), histogram


def _read(read: Callable[[], float]) -> float | None:
    try:
        return read()
    except Exception:  # noqa: BLE001  # a connector's own code, and a look at it must end nothing
        return None


def _key(name: str, labels: Mapping[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))


def exposed(name: str) -> str:
    """As Prometheus sees it: a log's metrics stand under walflow_wal_, the other ones under walflow_component_."""
    family = CORE.get(name)
    if name.startswith("wal_") or (family is not None and family.own):
        return f"walflow_{name}"
    return f"walflow_component_{name}"


BREAKER_REASONS: Final = ("starting", "restarting", "stopped", "triggered")
GATE_REASONS: Final = ("sink", "window", "drain", "paused")

CORE: Final[Families] = {
    "received_events_total": Family(
        "counter", "Events that were received and decoded. For a log: events that it sent to sinks."
    ),
    "received_bytes_total": Family("counter", "Bytes of the events that were received."),
    "rejected_events_total": Family("counter", "Events that can never be delivered and left by the err port."),
    "dropped_events_total": Family(
        "counter", "Events for a port that is not linked, or for an output that is closed.", ("port",)
    ),
    "filtered_events_total": Family("counter", "Events of a pipeline that no select matched; they are acked."),
    "state_bytes": Family(
        "gauge",
        "Bytes that a pipeline keeps in `state` and in windows, as walflow estimates them. Of a `state`, what was "
        "overwritten may be among them.",
    ),
    "window_groups": Family("gauge", "Groups that the windows of a pipeline keep."),
    "window_open": Family("gauge", "Windows of a pipeline that hold events."),
    "window_oldest_seconds": Family(
        "gauge", "Seconds for which the oldest open window by interval has been open, by the time of the events."
    ),
    "window_late_events_total": Family(
        "counter", "Events that were older, by their window's script, than the window they came into."
    ),
    "lost_events_total": Family(
        "counter", "Events that a sink failed and that no log upstream can send again. For a log: always 0."
    ),
    "redelivered_events_total": Family("counter", "Events that a log sent again after a sink failed them."),
    "inflight_bytes": Family(
        "gauge", "Bytes that the source has sent and that have no outcome (ack, fail, reject) from every sink yet."
    ),
    "window_bytes": Family("gauge", "Bytes that the source may have in flight before it stops reading."),
    "standstill_seconds": Family(
        "gauge",
        "Seconds for which the source had events and none of them was delivered, shown from 10 s on. 0: it moves, or "
        "has nothing to send.",
    ),
    "longest_wait_seconds": Family(
        "gauge",
        "Seconds for which the longest job of the connector on a thread has been under way: a read, a write, a sync.",
    ),
    "long_waits_total": Family(
        "counter", "Jobs of the connector on a thread (a read, a write, a sync) that took more than 5 seconds."
    ),
    "gate_shut": Family("gauge", "1 while the source is paused, by the reason.", ("reason",)),
    "acked_events_total": Family("counter", "Events that the sink has acked."),
    "acked_bytes_total": Family("counter", "Bytes of the events that the sink has acked."),
    "failed_events_total": Family("counter", "Events that the sink has failed; they may succeed later."),
    "failed_tries_total": Family(
        "counter", "Tries of the sink that failed, those of events that it tries again itself among them."
    ),
    "failures_in_a_row": Family(
        "gauge", "Tries that failed since the sink took something. 0: it has taken something since."
    ),
    "failing_seconds": Family(
        "gauge",
        (
            "Seconds since the first failure of the sink, "
            "until a minute has passed without one in which it took events. 0: it is well."
        ),
    ),
    "waiting_blocks": Family("gauge", "Blocks in the sink's queue."),
    "breaker_open": Family("gauge", "1 while the sink stops every source upstream, by the reason.", ("reason",)),
    "up": Family("gauge", "1 while the connector runs and has begun to send or to receive, or has finished."),
    "restarts_total": Family("counter", "How often the connector failed and was started again."),
    "build_info": Family(
        "info", "Always 1; the labels name the version of walflow and of Python.", ("version", "python"), own=True
    ),
    "topology_edge_info": Family(
        "info",
        "Always 1; one series for each link.",
        ("flow", "component", "kind", "port", "to_component", "to_kind", "to_port"),
        own=True,
    ),
    "ready": Family("gauge", "1 while /readyz answers that the daemon is ready.", own=True),
    "uptime_seconds": Family("gauge", "Seconds since the start of the daemon.", own=True),
    "loop_lag_seconds": Family(
        "gauge", "Delay of the event loop's timer, the longest of the last ten seconds.", own=True
    ),
    "open_taps": Family("gauge", "Open `walflow tap`s, and taps of the page.", own=True),
    "log_lines_dropped_total": Family("counter", "Log lines dropped because stderr was not read.", own=True),
}
"""What walflow counts itself. What a connector or an operator counts stands in its `families`."""
