"""The gauges of the two halves of a connector.
Each reads a value that exists anyway, when the metrics are requested."""

from collections.abc import Callable, Mapping

from walflow.metrics import BREAKER_REASONS, GATE_REASONS, Metrics
from walflow.nodes.health import Health
from walflow.nodes.sink import SinkNode
from walflow.nodes.source import SourceNode

DRAIN = "drain"  # the key in all gates while the daemon stops
PAUSED = "paused "  # and the name of a connector: the key in its gates while an operator has paused it


def measure(metrics: Metrics, labels: Mapping[str, str], source: SourceNode, sink: SinkNode, health: Health) -> None:
    metrics.gauge("up", lambda: health.ready, **labels)
    if source.linked:
        metrics.gauge("inflight_bytes", source.inflight, **labels)
        metrics.gauge("window_bytes", lambda: source.limits()[0], **labels)
        for reason in GATE_REASONS:
            metrics.gauge("gate_shut", _gate_shut(source, reason), **labels, reason=reason)
    if sink.linked:
        metrics.gauge("waiting_blocks", lambda: sink.waiting, **labels)
        failures = sink.failures
        metrics.gauge("failures_in_a_row", lambda: failures.row, **labels)
        metrics.gauge("failing_seconds", lambda: failures.seconds(sink.now()), **labels)
        for reason in BREAKER_REASONS:
            metrics.gauge("breaker_open", _breaker_open(sink, health, reason), **labels, reason=reason)


def breaker(sink: SinkNode, health: Health) -> str | None:
    """Why the connector stops its sources, as one of BREAKER_REASONS."""
    if health.state in ("up", "finished") and sink.reason is not None:
        return "triggered"
    if health.state == "finished":
        return "stopped"
    return None if health.state == "up" else health.state


def shut_by(key: str) -> str:
    """The key of a gate as one of GATE_REASONS. Keys that are no reason are names of sinks."""
    if key.startswith(PAUSED):
        return "paused"
    return key if key in ("window", DRAIN) else "sink"


def _gate_shut(source: SourceNode, reason: str) -> Callable[[], bool]:
    return lambda: any(shut_by(key) == reason for key in source.reasons())


def _breaker_open(sink: SinkNode, health: Health, reason: str) -> Callable[[], bool]:
    return lambda: breaker(sink, health) == reason
