"""Counters, gauges and histograms; and that what is shown stands in the reference."""

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from tests.flows.builder import TICKS, flow_of, json_only
from tests.lang.world import REGISTRY, assembled
from walflow.admin.catalogue import help_of, of_assembly, of_connectors, of_operators
from walflow.admin.rates import OVER, Rates
from walflow.contract import Connector, Guarantee, Ports
from walflow.delivery import LETTER_FAMILIES, LOG_FAMILIES
from walflow.delivery.ages import MARKS, Ages
from walflow.families import Families, Family
from walflow.metrics import CORE, BucketedValues, Metrics, exposed
from walflow.net import BROKER_FAMILIES, CERTIFICATE_FAMILIES, CLIENT_FAMILIES, REQUEST_FAMILIES, SERVER_FAMILIES
from walflow.registry import connectors
from walflow.tables import TABLE_FAMILIES

ROOT = Path(__file__).parents[2]
TYPES: dict[str, Families] = {**of_operators("walflow"), **of_connectors("walflow")}
ALL = [(type, name) for type, families in {"": CORE, **TYPES}.items() for name in families]


def test_a_gauge_that_fails_is_left_out_and_the_others_are_shown() -> None:
    metrics = Metrics()
    metrics.gauge("fine", lambda: 1, component="a")
    metrics.gauge("closed", lambda: 1 // 0, component="a")
    assert [(reading.name, reading.value) for reading in metrics.gauges()] == [("fine", 1)]
    metrics.forget("fine", component="a")
    metrics.forget("fine", component="a")
    assert list(metrics.gauges()) == []


def test_only_what_is_wanted_is_read() -> None:
    """It may count a million groups."""
    metrics = Metrics()
    read: list[str] = []

    def reading(name: str) -> float:
        read.append(name)
        return 1.0

    metrics.gauge("cheap", partial(reading, "cheap"), flow="f")
    metrics.gauge("dear", partial(reading, "dear"), flow="f")
    (found,) = metrics.gauges(lambda name, labels: name == "cheap" and "flow" in labels)
    assert (found.name, read) == ("cheap", ["cheap"])


def test_a_histogram_counts_a_bound_as_within() -> None:
    histogram = BucketedValues([1.0, 2.0])
    for value in (0.5, 1.0, 1.5, 2.0, 99.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.sum) == ([2, 2, 1], 104.0)


LABELS = {"flow", "component", "kind", "type", "port", "reason", "consumer", "lane", "log", "outcome", "code"}


def test_names_carry_their_unit_and_labels_are_of_a_closed_set() -> None:
    for type, name in ALL:
        family = TYPES[type][name] if type else CORE[name]
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert name.endswith("_total") is (family.kind == "counter"), name
        if family.kind == "info":
            assert name.endswith("_info"), name
        else:
            assert set(family.labels) <= LABELS, name
        assert exposed(name).startswith("walflow_")
        assert family.help.endswith("."), name


COUNTED = re.compile(r'(?:counter|gauge|histogram)\(\s*"([a-z0-9_]+)"')


def counted_in(files: Iterable[Path]) -> set[str]:
    ours = [file for file in files if "templates" not in file.parts]  # those are of people's own connectors
    return {name for file in ours for name in COUNTED.findall(file.read_text())}


def room_of(type: str) -> Path:
    """Where a connector's code is."""
    path = ROOT / "connectors" / connectors()[type].__module__.split(".")[1]
    return path if path.is_dir() else path.with_suffix(".py")


def test_walflow_declares_what_it_counts() -> None:
    clients = {**CLIENT_FAMILIES, **SERVER_FAMILIES, **REQUEST_FAMILIES, **BROKER_FAMILIES, **CERTIFICATE_FAMILIES}
    shared = {**clients, **LOG_FAMILIES, **LETTER_FAMILIES, **TABLE_FAMILIES}
    operators = {name for families in of_operators("walflow").values() for name in families}
    counted = counted_in((ROOT / "walflow").rglob("*.py"))
    assert "received_events_total" in counted
    assert counted - CORE.keys() - shared.keys() - operators == set()


@pytest.mark.parametrize("type", sorted(of_connectors("walflow")))
def test_a_connector_declares_what_it_counts(type: str) -> None:
    room = room_of(type)
    beside = [other for other in of_connectors("walflow") if room_of(other) == room]
    declared = {name for one in beside for name in TYPES[one]}
    counted = counted_in(room.rglob("*.py") if room.is_dir() else [room])
    assert counted - CORE.keys() - declared == set(), f"these want a line in the `families` of {type}"


def test_one_name_means_one_thing() -> None:
    """Prometheus has one help for a name."""
    seen: dict[str, Family] = dict(CORE)
    for families in TYPES.values():
        for name, family in families.items():
            assert seen.setdefault(name, family) == family, name


class Strange(Connector):
    ports: ClassVar[Ports] = Ports(("in",), ())
    families: ClassVar[Families] = {"flown_events_total": Family("counter", "Events that flew away.")}

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(sink="flown")


def test_a_stranger_s_metric_has_its_own_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = flow_of("ticks -> bird", ticks=TICKS, bird=json_only("bird"))
    assembly = assembled(text, registry={**REGISTRY, "bird": Strange})
    assert help_of("flown_events_total", "bird", of_assembly(assembly)) == "Events that flew away."
    assert help_of("other_total", "bird", of_assembly(assembly)) == "Of connector type bird."
    assert help_of("up", "bird", of_assembly(assembly)) == CORE["up"].help


def test_rates_are_over_the_last_seconds() -> None:
    metrics = Metrics()
    rates = Rates(metrics)
    received = metrics.counter("received_events_total", flow="f", component="c")
    rates.look(0.0)
    assert rates.of("f", "c") == {}
    received.value = 100
    rates.look(1.0)
    assert rates.of("f", "c") == {"received": 100.0}
    metrics.counter("acked_events_total", flow="f", component="c").value = 3
    for second in range(2, OVER + 2):
        rates.look(float(second))
    assert rates.of("f", "c") == {"acked": 0.6, "received": 0.0}
    assert rates.of("f", "other") == {}


def test_the_lag_is_the_worst_of_the_last_ten() -> None:
    rates = Rates(Metrics())
    assert rates.lag == 0.0
    rates.lagged(3.0)
    for _ in range(9):
        rates.lagged(0.1)
    assert rates.lag == 3.0
    rates.lagged(0.1)
    assert rates.lag == 0.1


def test_the_age_of_the_oldest_is_that_of_its_commit() -> None:
    ages = Ages()
    assert ages.oldest(0.0, low=0) == 0.0
    ages.note(10.0, durable=100, low=0)
    ages.note(10.5, durable=150, low=0)  # within a second of the other: to a second they are the same
    ages.note(20.0, durable=200, low=0)
    assert ages.oldest(30.0, low=0) == 20.0
    assert ages.oldest(30.0, low=120) == 20.0
    assert ages.oldest(30.0, low=150) == 10.0
    assert ages.oldest(30.0, low=200) == 0.0


def test_the_age_begins_anew_once_all_is_acked() -> None:
    ages = Ages()
    ages.note(10.0, durable=100, low=0)
    ages.note(10.1, durable=200, low=100)
    assert ages.oldest(10.2, low=100) == pytest.approx(0.1)


def test_a_backlog_of_days_is_remembered_in_little_and_its_oldest_exactly() -> None:
    ages = Ages()
    for second in range(10 * MARKS):
        ages.note(float(second), durable=second + 1, low=0)
    assert len(ages._marks) <= MARKS
    assert ages.oldest(10.0 * MARKS, low=0) == 10.0 * MARKS
    middle = 5 * MARKS
    assert ages.oldest(10.0 * MARKS, low=middle) == pytest.approx(10.0 * MARKS - middle, abs=32)
