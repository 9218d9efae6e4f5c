"""Each fault that is put into the product is found by its story, and without it that story holds."""

import pytest

from tests.simulation.bites import FAULTS, with_fault
from tests.simulation.directed import DIRECTED, RUNS
from tests.simulation.shrink import why
from tests.simulation.teller import tell

NOT_SEEN = {  # decision 0054 says why
    "a pump leaves the rest of a turn",
    "a pump that is asked while it runs does not run again",
    "after an outage nothing is due at once",
    "events of an earlier run go to a client of this one",
    "of two that fail together both are to blame",
    "the last record of a commit is not marked",
    "what is blameless counts",
}


def test_each_fault_has_a_story_or_a_reason() -> None:
    assert set(FAULTS) - set(DIRECTED) == NOT_SEEN


@pytest.mark.parametrize("name", DIRECTED)
def test_a_fault_is_found(name: str) -> None:
    with with_fault(name):
        assert any(why(DIRECTED[name]._replace(chance=chance)) for chance in range(RUNS))


@pytest.mark.parametrize("name", DIRECTED)
def test_without_the_fault_the_story_holds(name: str) -> None:
    tell(DIRECTED[name])
