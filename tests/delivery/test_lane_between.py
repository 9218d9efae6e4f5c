"""What holds or chooses events stands between a log and several sinks:
they share one lane, and each event passes it once."""

from collections.abc import Callable

import pytest

from tests.delivery.apart import Apart
from tests.delivery.test_lane_marks import JOINED
from tests.delivery.test_lanes import BY_WHERE, CHOOSER, pipeline

SINKS = ["near", "far"]
EVENTS = list(range(6))
BATCHES_OF_TWO = """
  define operator o from generic::batch with count = 2 end; create operator o;
  select event from in into o; select event from o into out; select event from o into other;
"""


def chosen(flow: Apart) -> None:
    assert sorted([*flow.ids("near"), *flow.ids("far")]) == EVENTS
    assert len(flow.ids("near")) == len(flow.ids("far"))


def both(flow: Apart) -> None:
    assert flow.ids("near") == flow.ids("far") == EVENTS


def test_each_event_is_in_one_window_and_passes_beside_it_once() -> None:
    """The sinks of a window are the buffers of its results."""
    body = """
  define window w from tumbling with size = 2 end;
  select {"n": aggr::stats::count(), "sum": aggr::stats::sum(event.id)} from in[w] into out;
  select event from in into other;
"""
    results, beside = "p/results/out", "p/results/other"
    flow = Apart(pipeline(body) + BY_WHERE, [*SINKS, results, beside], away=SINKS)
    assert list(flow.outlet.lanes) == [f"{results}+{beside}"]
    for number in EVENTS:
        flow.give(number)
        flow.ack(results, beside)
    assert flow.sinks[results].got == [{"n": 2, "sum": 1}, {"n": 2, "sum": 5}, {"n": 2, "sum": 9}]
    assert flow.ids(beside) == EVENTS
    assert list(flow.lanes().values()) == [0]
    flow.close()


BETWEEN: dict[str, tuple[str, Callable[[Apart], None]]] = {
    "round robin": (pipeline(CHOOSER) + BY_WHERE, chosen),
    "batch": (pipeline(BATCHES_OF_TWO) + BY_WHERE, both),
    "dedupe": (JOINED, both),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_each_event_passes_it_once(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    body, judge = BETWEEN[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("keys"))  # a dedupe keeps its keys beside the flow
        flow = Apart(body, SINKS)
        assert len(flow.outlet.lanes) == 1
        for number in EVENTS:
            flow.give(number)
            flow.ack(*SINKS)
        judge(flow)
        assert list(flow.lanes().values()) == [0]
        flow.checkpoint()
        assert flow.log.low == len(EVENTS)
        flow.close()
        again = Apart(body, SINKS, disk=flow.disk)
        again.ack(*SINKS)
        assert (again.sinks["near"].got, again.sinks["far"].got) == ([], []), "nothing comes again"
        again.close()
