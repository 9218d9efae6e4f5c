"""The daemon's counters as Prometheus families, made at each scrape."""

import platform
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from walflow import __version__
from walflow.admin.catalogue import help_of, of_assembly
from walflow.admin.rates import Rates
from walflow.metrics import CORE, BucketedValues, exposed
from walflow.plan import NodeId
from walflow.runtime.daemon import Daemon
from walflow.world import monotonic


def registry(
    daemon: Daemon, rates: Rates, lines_dropped: Callable[[], int], open_taps: Callable[[], int]
) -> CollectorRegistry:
    """A registry that includes process_resident_memory_bytes, process_open_fds and similar metrics."""
    made = CollectorRegistry()
    made.register(DaemonCollector(daemon, rates, lines_dropped, open_taps))
    ProcessCollector(registry=made)
    return made


class DaemonCollector(Collector):
    def __init__(
        self, daemon: Daemon, rates: Rates, lines_dropped: Callable[[], int], open_taps: Callable[[], int]
    ) -> None:
        self._daemon = daemon
        self._rates = rates
        self._lines_dropped = lines_dropped
        self._open_taps = open_taps
        self._families = of_assembly(daemon.assembly)

    def collect(self) -> Iterator[Metric]:
        yield from self._components()
        yield from self._topology()
        yield self._own("build_info", 1, {"version": __version__, "python": platform.python_version()})
        yield self._own("ready", not self._daemon.readiness.lacking())
        yield self._own("uptime_seconds", monotonic() - self._daemon.started)
        yield self._own("loop_lag_seconds", self._rates.lag)
        yield self._own("open_taps", self._open_taps())
        yield self._own("log_lines_dropped_total", self._lines_dropped())

    def describe(self) -> list[Metric]:
        """Nothing before the first scrape; otherwise the registry would collect to find out."""
        return []

    def _components(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, labels, value in self._daemon.metrics:
            family = families.setdefault(name, CounterMetricFamily(exposed(name), self._help(name, labels)))
            family.add_sample(exposed(name), dict(labels), value)
        for name, labels, reading in self._daemon.metrics.gauges():
            family = families.setdefault(name, GaugeMetricFamily(exposed(name), self._help(name, labels)))
            family.add_sample(exposed(name), dict(labels), float(reading))
        for name, labels, histogram in self._daemon.metrics.histograms():
            family = families.setdefault(name, HistogramMetricFamily(exposed(name), self._help(name, labels)))
            _add(family, exposed(name), labels, histogram)
        yield from families.values()

    def _help(self, name: str, labels: Mapping[str, str]) -> str:
        return help_of(name, labels.get("type", ""), self._families)

    def _topology(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("walflow_topology_edge_info", CORE["topology_edge_info"].help)
        for link in self._daemon.assembly.links:
            labels = {**link.source.labels, "port": link.source_port, **_target(link.target, link.target_port)}
            family.add_sample(family.name, labels, 1)
        yield family

    def _own(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> Metric:
        kind = CounterMetricFamily if CORE[name].kind == "counter" else GaugeMetricFamily
        family = kind(exposed(name), CORE[name].help)
        family.add_sample(exposed(name), dict(labels or {}), float(value))
        return family


def _target(node: NodeId, port: str) -> dict[str, str]:
    return {"to_component": node.name, "to_kind": node.kind, "to_port": port}


def _add(family: Metric, name: str, labels: Mapping[str, str], histogram: BucketedValues) -> None:
    total = 0
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        total += count
        family.add_sample(f"{name}_bucket", {**labels, "le": bound}, total)
    family.add_sample(f"{name}_count", dict(labels), total)
    family.add_sample(f"{name}_sum", dict(labels), histogram.sum)
