from tests.simulation.soak import ENOUGH, SOMETIMES, Ledger, lacking
from tests.simulation.story import draw, moments


def test_what_never_happened_is_said_once_there_were_enough_stories() -> None:
    met = dict.fromkeys(SOMETIMES[1:], 1)
    assert lacking(Ledger(stories=ENOUGH - 1, met=met)) == []
    assert lacking(Ledger(stories=ENOUGH, met=met)) == [SOMETIMES[0]]
    assert lacking(Ledger(stories=ENOUGH, met={**met, SOMETIMES[0]: 1})) == []


def test_each_fault_meets_each_state() -> None:
    """As they are drawn, which costs nothing."""
    found = {moment for seed in range(6_000) for moment in moments(draw(seed))}
    assert {what for what in SOMETIMES if not what.startswith("line ")} <= found
