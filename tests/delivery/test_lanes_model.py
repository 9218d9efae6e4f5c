"""Lanes against a model that keeps a set of events for each sink: whatever fails, stops and crashes, each sink gets
what is its own, nothing that it has acked before the last checkpoint comes again, and the log ends empty."""

from typing import Final

from hypothesis import HealthCheck, given, settings, strategies as st

from tests.delivery.apart import Apart
from tests.examples import examples

SINKS: Final = ["near", "far", "odd"]

GRAPHS: Final = [
    """
  create pipeline all from pipelines::passthrough;
  connect /connector/log to /pipeline/all;
  connect /pipeline/all to /connector/near;
  connect /pipeline/all to /connector/far;
  connect /pipeline/all to /connector/odd;
""",
    """
  define pipeline p into out, some pipeline
    select event from in into out;
    select event from in where event.id % 2 == 1 into some;
  end;
  create pipeline p;
  connect /connector/log to /pipeline/p;
  connect /pipeline/p/out to /connector/near;
  connect /pipeline/p/out to /connector/far;
  connect /pipeline/p/some to /connector/odd;
""",
    """
  define pipeline both into out, some pipeline
    define operator two from generic::batch with count = 2, timeout = 100000000 end;
    create operator two;
    select event from in into two;
    select event from two into out;
    select event from two where event.id % 2 == 1 into some;
  end;
  create pipeline both;
  create pipeline all from pipelines::passthrough;
  connect /connector/log to /pipeline/both;
  connect /connector/log to /pipeline/all;
  connect /pipeline/both/out to /connector/near;
  connect /pipeline/both/some to /connector/odd;
  connect /pipeline/all to /connector/far;
""",
]

sinks = st.sampled_from(SINKS)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("give"), st.integers(1, 5)),
        st.tuples(st.just("ack"), sinks),
        st.tuples(st.just("fail"), sinks),
        st.tuples(st.just("trigger"), sinks),
        st.tuples(st.just("restore"), sinks),
        st.tuples(st.sampled_from(["checkpoint", "crash", "close"]), st.none()),
    ),
    max_size=25,
)
relinks = st.lists(
    st.one_of(
        st.tuples(st.just("give"), st.integers(1, 5)),
        st.tuples(st.just("ack"), sinks),
        st.tuples(st.just("ack"), sinks),
        st.tuples(st.just("trigger"), sinks),
        st.tuples(st.just("restore"), sinks),
        st.tuples(st.just("checkpoint"), st.none()),
        st.tuples(st.just("relink"), st.integers(0, len(GRAPHS) - 1)),
        st.tuples(st.just("crash"), st.none()),
    ),
    max_size=25,
)


class Model:
    def __init__(self, graph: int) -> None:
        self.graph = graph
        self.flow = Apart(GRAPHS[graph], SINKS)
        self.given: list[int] = []
        self._graphs: list[set[int]] = []  # of each event: those that the flow has had since
        self.acked: dict[str, set[int]] = {sink: set() for sink in SINKS}
        self._fresh: dict[str, set[int]] = {sink: set() for sink in SINKS}  # acked in this life, after a checkpoint
        self.stored: dict[str, set[int]] = {sink: set() for sink in SINKS}

    def do(self, action: str, of: object) -> None:
        flow = self.flow
        if action == "give":
            assert isinstance(of, int)
            ids = range(len(self.given), len(self.given) + of)
            self.given += ids
            self._graphs += [{self.graph} for _ in ids]
            flow.give(*ids)
        elif action in ("crash", "close"):
            self._end(action)
        elif action == "relink":
            assert isinstance(of, int)
            self.graph = of
            for graphs in self._graphs:
                graphs.add(of)
            self._end("close")
        elif action == "checkpoint":
            flow.checkpoint()
            self._store()
        else:
            assert isinstance(of, str)
            self._settle(action, of)

    def _settle(self, action: str, name: str) -> None:
        sink = self.flow.sinks[name]
        if action == "ack":
            ids = {value["id"] for block in sink.waiting for value in block.values}  # type: ignore[index]
            self.acked[name] |= ids
            if name in self.flow.outlet.lanes:  # a lane of several sinks has acked when all of them have
                self._fresh[name] |= ids
            sink.ack()
        elif action == "fail":
            sink.fail()
        elif action == "trigger":
            sink.node.trigger("away")
        else:
            sink.node.restore()
        self.flow.settle()

    def _end(self, action: str) -> None:
        if action == "close":
            self._store()
            self.flow.close()
        else:
            self.flow.crash()
        self._fresh = {sink: set() for sink in SINKS}
        self.flow = Apart(GRAPHS[self.graph], SINKS, disk=self.flow.disk)

    def _store(self) -> None:
        for sink, fresh in self._fresh.items():
            self.stored[sink] |= fresh

    def own(self, sink: str) -> set[int]:
        """What it must get: a link that filters may have been there when the event's turn came."""
        return {one for one in self.given if self._graphs[one] == {0} or sink != "odd" or one % 2}

    def may(self, sink: str) -> set[int]:
        return {one for one in self.given if 0 in self._graphs[one] or sink != "odd" or one % 2}

    def check_no_repeats(self) -> None:
        """Of what comes to a lane of its own."""
        for sink in SINKS:
            if sink in self.flow.outlet.lanes:
                again = {value["id"] for block in self.flow.sinks[sink].waiting for value in block.values}  # type: ignore[index]
                assert not again & self.stored[sink], sink

    def finish(self) -> None:
        for _ in range(30):
            for sink in SINKS:
                self._settle("restore", sink)
                self._settle("ack", sink)
            self.flow.checkpoint()
            if self.flow.log.low == self.flow.log.durable:
                break
        for sink in SINKS:
            assert self.own(sink) <= self.acked[sink] <= self.may(sink), sink
        assert self.flow.log.low == self.flow.log.durable
        assert not any(self.flow.lanes().values())
        self.flow.close()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(60))
@given(st.integers(0, len(GRAPHS) - 1), actions)
def test_each_sink_gets_what_is_its_own(graph: int, what: list[tuple[str, object]]) -> None:
    model = Model(graph)
    for action, of in what:
        model.do(action, of)
        model.check_no_repeats()
    model.finish()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(60))
@given(st.integers(0, len(GRAPHS) - 1), relinks)
def test_each_sink_gets_what_is_its_own_with_whatever_links(graph: int, what: list[tuple[str, object]]) -> None:
    """The last graph merges two sinks, the first part all. What a sink had acked in a lane of its own, and was
    stored, does not come to it again when it has a lane of its own again."""
    model = Model(graph)
    for action, of in what:
        model.do(action, of)
        model.check_no_repeats()
    model.finish()
