"""All metrics, by name and labels.

The hot path only adds to a plain int. Text, order and consistency are the scrape's work. It runs on the same loop, so
it never sees half of an update.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from walflow.contract import MetricValue

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

    def gauges(self) -> Iterator[Reading]:
        """One that fails is left out: what it looks at is just being closed, and the others are worth seeing."""
        for (name, labels), read in sorted(self._gauges.items(), key=lambda item: item[0]):
            value = _read(read)
            if value is not None:
                yield Reading(name, dict(labels), value)

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


Kind = Literal["counter", "gauge", "histogram", "info"]


class Family(NamedTuple):
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()  # beside flow, component, kind and type
    own: bool = False  # of the process, not of a component


def exposed(name: str) -> str:
    """As Prometheus sees it: a log's metrics stand under walflow_wal_, the other ones under walflow_component_."""
    family = CATALOGUE.get(name)
    if name.startswith("wal_") or (family is not None and family.own):
        return f"walflow_{name}"
    return f"walflow_component_{name}"


BREAKER_REASONS: Final = ("starting", "restarting", "stopped", "triggered")
GATE_REASONS: Final = ("sink", "window", "drain", "paused")

CATALOGUE: Final[Mapping[str, Family]] = {
    # sources
    "received_events_total": Family(
        "counter", "Events that were received and decoded. For a log: events that it sent to sinks."
    ),
    "received_bytes_total": Family("counter", "Bytes of the events that were received."),
    "rejected_events_total": Family("counter", "Events that can never be delivered and left by the err port."),
    "dropped_events_total": Family(
        "counter", "Events for a port that is not linked, or for an output that is closed.", ("port",)
    ),
    "filtered_events_total": Family("counter", "Events of a pipeline that no select matched; they are acked."),
    "passed_share": Family("gauge", "The share of events that qos::percentile passes, 0 to 1."),
    "backoff_seconds": Family(
        "gauge", "For how long qos::backpressure passes no event, from its last slow ack on. 0: all pass."
    ),
    "overflow_events_total": Family("counter", "Events that an operator sent to its port `overflow`."),
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
    "quarantined_events_total": Family(
        "counter", "Events that a log could not read any more. Their bytes are in its quarantine directory."
    ),
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
    # sinks
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
        "Seconds since the first failure of the sink, until a minute has passed without one in which it took events. 0: it is well.",
    ),
    "request_seconds": Family(
        "histogram",
        "How long requests of the sink took, by outcome: `taken`, `refused` (for good), `failed` (tried again).",
        ("outcome",),
    ),
    "orphaned_events_total": Family("counter", "Events for a client that has disconnected: acked and dropped."),
    "skipped_events_total": Family(
        "counter", "Events that were in the sink's file already and were not written again."
    ),
    "followed_files": Family("gauge", "Files that the source follows now, open or closed."),
    "open_files": Family("gauge", "Followed files that are open now."),
    "unread_bytes": Family("gauge", "Bytes of followed files that were found and are not read yet."),
    "unended_bytes": Family(
        "gauge", "Bytes of followed files that were read and are held, because their event has no end yet."
    ),
    "damaged_files_total": Family(
        "counter", "Followed compressed files that are damaged, and were read as far as they could be."
    ),
    "disposed_files_total": Family(
        "counter", "Followed files that were deleted or moved (`delete`, `move_to`) after their last ack."
    ),
    "reread_bytes_total": Family(
        "counter", "Bytes of followed files that were read again because a sink failed their events."
    ),
    "truncated_files_total": Family(
        "counter", "How often a followed file was cut, or written anew, and read from its beginning."
    ),
    "waiting_blocks": Family("gauge", "Blocks in the sink's queue."),
    "breaker_open": Family("gauge", "1 while the sink stops every source upstream, by the reason.", ("reason",)),
    # both halves
    "up": Family("gauge", "1 while the connector runs and has begun to send or to receive, or has finished."),
    "restarts_total": Family("counter", "How often the connector failed and was started again."),
    "slow_clients_closed_total": Family("counter", "Connections closed because their client did not read."),
    "idle_clients_closed_total": Family(
        "counter",
        "Connections closed because they were idle, did not answer a ping, or had to make room for a new client.",
    ),
    "refused_connections_total": Family(
        "counter", "Connections of clients that were closed at once because there were too many."
    ),
    "connections_total": Family("counter", "Connections that the client has made to its peer."),
    "connections": Family("gauge", "Connections of HTTP clients that are open."),
    "requests_total": Family("counter", "HTTP requests, received or sent."),
    "refused_requests_total": Family("counter", "HTTP requests that were answered with an error."),
    "repeated_requests_total": Family(
        "counter", "HTTP requests with an Idempotency-Key that was known: answered as before, and not taken again."
    ),
    "commands_total": Family("counter", "Commands to the store, by `kv`, that were carried out."),
    "lookups_total": Family("counter", "Names that `dns_client` has looked up."),
    "retried_requests_total": Family("counter", "HTTP requests that were sent again."),
    "request_bytes": Family("gauge", "Bytes of HTTP requests that are being read or wait for their acks."),
    "unlinked_bytes_total": Family(
        "counter", "Bytes from the peer that were dropped because no pipeline is linked to the source."
    ),
    "failed_handshakes_total": Family(
        "counter", "Connections whose TLS or WebSocket handshake failed or took too long."
    ),
    "dropped_datagrams_total": Family(
        "counter",
        "Datagrams that the kernel dropped before walflow read them, or that were in the kernel when "
        "walflow stopped.",
    ),
    "refused_datagrams_total": Family(
        "counter", "Datagrams that the peer's machine refused because no program listens there."
    ),
    # logs
    "wal_appended_events_total": Family("counter", "Events appended to the log and made durable since the start."),
    "wal_appended_bytes_total": Family("counter", "Bytes appended to the log, with headers."),
    "wal_acked_events_total": Family(
        "counter", "Events of the log that every sink has acked, or that left by the err port and were acked there."
    ),
    "wal_acked_bytes_total": Family("counter", "Bytes of acked events, without headers."),
    "wal_failed_events_total": Family("counter", "Events that a sink failed after the log had sent them."),
    "wal_failed_bytes_total": Family("counter", "Bytes of failed events, without headers."),
    "wal_redelivered_bytes_total": Family("counter", "Bytes of redelivered events, without headers."),
    "wal_rejected_bytes_total": Family("counter", "Bytes of the events that left by the log's err port."),
    "wal_quarantined_bytes_total": Family(
        "counter", "Bytes of the log that could not be read any more and lie in quarantine/."
    ),
    "wal_known_events_total": Family(
        "counter",
        "Events that a log upstream sent again and this log had already, so they were acked and not appended.",
    ),
    "wal_dropped_events_total": Family(
        "counter",
        'Events that were dropped before they were acked because the log was full, with on_full = "drop_oldest".',
    ),
    "wal_dropped_bytes_total": Family(
        "counter", "Bytes of dropped events in the log, computed from their share of a file."
    ),
    "wal_dropped_events": Family("gauge", "Events dropped since the log was made, also before the last restart."),
    "wal_dropped_bytes": Family(
        "gauge", "Bytes of events dropped since the log was made, also before the last restart."
    ),
    "wal_unsynced_events": Family(
        "gauge",
        'Events that are acked to their sources and not synced. A power cut may take them. 0 with sync = "always".',
    ),
    "wal_unsynced_seconds": Family("gauge", "Age of the oldest unsynced event: seconds since its ack to the source."),
    "wal_full": Family("gauge", "1 while the log's budget is used, or almost used."),
    "wal_disk_full": Family("gauge", "1 while the disk is full, or no file can be opened."),
    "wal_cannot_read": Family(
        "gauge",
        "Lanes for which the disk fails to read the next events. The read is tried again; no event is given up.",
    ),
    "wal_read_failures_total": Family("counter", "Reads of the log that the disk failed."),
    "wal_sync_seconds": Family(
        "histogram", 'Time to write and sync a commit; with sync = "interval", time of a sync.'
    ),
    "wal_commit_bytes": Family("histogram", "Bytes of a commit: the records that one sync covers."),
    "wal_low_position": Family("gauge", "Committed offset: every event up to this position is acked by every sink."),
    "wal_durable_position": Family(
        "gauge", "Every event up to this position is on disk, or written if acks do not wait for the disk."
    ),
    "wal_next_position": Family("gauge", "The position (offset) that the next event gets."),
    "wal_backlog_events": Family("gauge", "Events that are durable and that not every sink has acked."),
    "wal_backlog_bytes": Family(
        "gauge", "Bytes of the log after the last position up to which all events are acked."
    ),
    "wal_lane_backlog_events": Family(
        "gauge",
        "Events that are durable and not acked by each sink of the lane. Only of a log with several.",
        ("lane",),
    ),
    "wal_lane_backlog_bytes": Family(
        "gauge", "Bytes of the log after the last position up to which the lane has acked all events.", ("lane",)
    ),
    "wal_lane_oldest_seconds": Family(
        "gauge",
        "Age of the oldest event that not each sink of the lane has acked, to one second, from when it was received. 0: all are acked.",
        ("lane",),
    ),
    "wal_lane_dropped_events": Family(
        "gauge",
        'Events dropped since the log was opened, and not acked by each sink of the lane. With on_full = "drop_oldest".',
        ("lane",),
    ),
    "wal_oldest_seconds": Family(
        "gauge", "Age of the oldest event that is not acked, to one second. 0: all are acked."
    ),
    "wal_clock_lead_seconds": Family(
        "gauge",
        "How far the time by which the log stamps its events is ahead of the wall clock, because that was set back. Windows and ages "
        "are right all the same.",
    ),
    "wal_chunks": Family("gauge", "Chunks (segments) of the log: files with records."),
    "wal_used_bytes": Family(
        "gauge", "Bytes of the log that count in its budget, with preallocated and spare files."
    ),
    "wal_budget_bytes": Family("gauge", "The log's budget: bytes that it may take on disk, chunk_size x max_chunks."),
    "wal_fill_ratio": Family(
        "gauge", "Share of the log's budget that records take, 0 to 1. The breaker triggers at 0.9."
    ),
    "wal_full_in_seconds": Family(
        "gauge",
        "Seconds until the log is full, if what waits in it grows as it did in the last minute. +Inf: it does not grow.",
    ),
    "wal_recovery_seconds": Family("gauge", "Seconds that opening the log took."),
    # operators and buffers in memory
    "held_events": Family(
        "gauge", "Events that the operator holds until a batch is full, or while no output accepts any."
    ),
    "open_outputs": Family("gauge", "Outputs of qos::roundrobin whose sinks accept events."),
    "retried_events_total": Family("counter", "Events that one output failed and another one then got."),
    "memory_backlog_events": Family("gauge", "Events in memory that not every sink has acked."),
    "memory_backlog_bytes": Family("gauge", "Bytes of the blocks in memory that contain these events."),
    "memory_full": Family("gauge", "1 while the buffer in memory is full."),
    "deduplicated_events_total": Family(
        "counter", "Events that were dropped because an event with the same key had been delivered."
    ),
    "keyless_events_total": Family("counter", "Events without the key of qos::dedupe, which pass unchanged."),
    "known_keys": Family("gauge", "Keys that qos::dedupe remembers: an event with one of them is dropped."),
    # Spark
    "spark_lag_events": Family("gauge", "Events that the consumer has not committed.", ("consumer",)),
    "spark_owed_events": Family("gauge", "Events that were served to the consumer and not committed.", ("consumer",)),
    "spark_sessions": Family("gauge", "Connections from Spark that have proved the token or a ticket and are open."),
    "spark_served_events_total": Family("counter", "Events that Spark read, each time it read them."),
    "spark_served_bytes_total": Family("counter", "Bytes of the log that Spark read, headers included."),
    "spark_commits_total": Family("counter", "Commits of consumers that moved their position."),
    "spark_running": Family("gauge", "1 while the pipeline on Spark runs, 0 while its driver starts."),
    "kafka_assigned_partitions": Family("gauge", "Partitions of the topic that this member of the group reads."),
    "kafka_lag_messages": Family(
        "gauge",
        "Consumer lag: messages of the assigned partitions that are not acked yet, as far as the client knows.",
    ),
    "connection_up": Family("gauge", "1 while the connector is connected to its MQTT broker."),
    "unacked_messages": Family("gauge", "Messages that the MQTT broker has sent and that are not acked to it."),
    "kafka_paused": Family("gauge", "1 while the assigned partitions are paused because a sink is away."),
    "kafka_queued_messages": Family("gauge", "Messages that librdkafka has and that no broker has confirmed."),
    "rebalances_total": Family("counter", "Rebalances: how often the consumer group assigned the partitions anew."),
    "messages_total": Family("counter", "Messages that were given to the client of the broker (Kafka, MQTT)."),
    "retried_messages_total": Family(
        "counter", "Messages that were given to the client of the broker again after a failure."
    ),
    "spark_restarts_total": Family("counter", "How often the pipeline's driver ended and was started again."),
    "spark_input_rows_total": Family("counter", "Rows that the pipeline's batches have read."),
    "spark_input_rows_per_second": Family("gauge", "Rows per second of the last batch."),
    "spark_batch_seconds": Family("histogram", "How long a batch of the pipeline on Spark took, in seconds."),
    "spark_state_rows": Family("gauge", "Rows that the pipeline keeps between batches, for example of open windows."),
    "spark_late_rows_total": Family(
        "counter",
        "Rows dropped because they were older than the watermark. Spark combines rows of a batch before it "
        "counts these.",
    ),
    "spark_refused_total": Family("counter", "Connections and requests of Spark that were answered with an error."),
    "spark_published_batches_total": Family("counter", "Batches of results that were published."),
    "spark_published_rows_total": Family("counter", "Rows in published batches of results."),
    "spark_repeated_batches_total": Family("counter", "Batches that Spark published again and the daemon ignored."),
    "spark_staged_bytes": Family("gauge", "Bytes of results that Spark has written and not published."),
    "spark_orphaned_stages_total": Family(
        "counter", "Results of a task that were never published, removed after an hour."
    ),
    "spark_results_backlog_events": Family("gauge", "Rows that are published and that not every sink has acked."),
    "spark_results_fill_ratio": Family("gauge", "Share of their budget that the results' records take, 0 to 1."),
    # the process
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
