"""Another process takes over, and whatever happens meanwhile, to either of them, nothing is lost, and what is once
stays once. Where nothing else happens, no client notices."""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.simulation.flows import FAR, NEAR, Shape
from tests.simulation.story import PHASES, Step, Story
from tests.simulation.teller import Teller, tell

SHAPES: Final = {
    "echo": Shape(("apart",), "all", err=False, door="tcp", exits=("file", "table"), clients=2),
    "requests": Shape(("together",), "odd", err=True, door="http", exits=("tcp", "spark")),
    "files": Shape(("apart", "apart"), "rows", err=False, door="follow", exits=("file", "http")),
    "no log": Shape((), "robin", err=True, door="http", exits=("story", "http"), clients=2),
}
HAPPENS: Final = {
    "kill": (Step("kill"),),
    "kill old": (Step("kill", 0.0, "old"),),
    "kill new": (Step("kill", 0.0, "new"),),
    "cut": (Step("cut"),),
    "stop": (Step("stop"),),
    "freeze old": (Step("freeze", 60.0, "old"),),
    "freeze new": (Step("freeze", 60.0, "new"),),
    "freeze": (Step("freeze", 0.5, "old"), Step("freeze", 0.5, "new")),
    "second": (Step("second"),),
    "hang": (Step("hang", 0.0, "sync"), Step("wait", 20.0), Step("clear")),
    "full": (Step("full"), Step("wait", 3.0), Step("clear")),
    "away": (Step("away", 0.0, NEAR), Step("away", 0.0, FAR), Step("wait", 3.0), Step("kill", 0.0, "new")),
    "again": (Step("reload"), Step("reload")),
}


def reloaded(phase: str, happens: Sequence[Step]) -> tuple[Step, ...]:
    return Step("wait", 0.3), Step("reload"), Step("until", 0.0, phase), *happens, Step("wait", 1.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("happens", HAPPENS)
@pytest.mark.parametrize("phase", PHASES)
def test_what_happens_in_a_handover_loses_nothing(phase: str, happens: str, shape: str) -> None:
    tell(Story(SHAPES[shape], reloaded(phase, HAPPENS[happens]), events=120))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chance", range(4))
def test_no_client_notices(shape: str, chance: int) -> None:
    """The judge says so."""
    reload = (Step("wait", 0.3), Step("reload"), Step("until", 0.0, "serving"), Step("wait", 6.0))
    told = tell(Story(SHAPES[shape], reload * 4, chance, events=600))
    assert told.lives == 5


class _Noting(Teller):
    phases: tuple[str, ...] = ()

    async def _do(self, step: Step) -> None:
        await super()._do(step)
        self.phases += (self._phase(),)


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_is_met(phase: str) -> None:
    teller = _Noting(Story(SHAPES["echo"], reloaded(phase, ()), events=120))
    teller.run()
    assert teller.phases[2] == phase


@pytest.mark.parametrize("chance", range(8))
def test_what_is_told_to_stop_as_it_leaves_drains_as_at_any_stop(chance: int) -> None:
    """What is in memory is delivered, as long as its sink takes it. A second signal would end that."""
    shape = Shape(("memory",), "all", err=False, exits=("http", "story"))
    slow = Step("lag", 0.3, NEAR)
    told = Story(
        shape, (slow, Step("wait", 0.5), Step("reload"), Step("until", 0.0, "leaving"), Step("stop")), chance
    )
    teller = Teller(told)
    teller.run()
    stopped = [line for line in teller.lines if line["event"] == "stopped"]
    assert [line["left"] for line in stopped] == [0]
    assert not [line for line in teller.lines if line["event"] == "drain ended early"]


def test_a_client_whose_events_wait_in_the_first_of_two_logs_is_not_handed_on() -> None:
    """The next process would have echoed these events to nobody, and the client's next events before them."""
    shape = Shape(("apart", "apart"), "dedupe", err=True, chunks=2, door="tcp", exits=("spark", "tcp"))
    steps = (
        *(Step("wait", 0.012), Step("full"), Step("wait", 0.062)),
        *(Step("reload"), Step("until", 0.0, "switching"), Step("wait", 2.106)),
    )
    tell(Story(shape, steps, 15678, 44))
