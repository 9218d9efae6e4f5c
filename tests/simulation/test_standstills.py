"""Whatever stands still says so, with the name of who waits."""

import pytest

from tests.simulation.directed import LOG, MANY
from tests.simulation.flows import NEAR, Shape
from tests.simulation.story import Step, Story
from tests.simulation.teller import Teller

LONG = Step("wait", 100.0)


def behind(exit: str) -> Shape:
    return LOG._replace(exits=(exit, "story"))


FOLLOWS = LOG._replace(door="follow")
AWAY = {("near", "breaker triggered"), ("between0", "standing still")}


@pytest.mark.parametrize(
    ("shape", "trouble", "said"),
    [
        (behind("story"), Step("away", where=NEAR), AWAY),
        (behind("story"), Step("silent", where=NEAR), {("between0", "standing still")}),
        (behind("story"), Step("busy", where=NEAR), {*AWAY, ("between0", "redelivery")}),
        (behind("tcp"), Step("away", where=NEAR), {*AWAY, ("near", "cannot connect")}),
        (behind("tcp"), Step("silent", where=NEAR), {*AWAY, ("between0", "redelivery")}),
        (behind("tcp"), Step("busy", where=NEAR), {*AWAY, ("between0", "redelivery")}),
        (behind("tcp"), Step("down", where=NEAR), {*AWAY, ("near", "cannot connect")}),
        (behind("http"), Step("away", where=NEAR), {*AWAY, ("near", "cannot deliver")}),
        (behind("http"), Step("silent", where=NEAR), {*AWAY, ("near", "cannot deliver")}),
        (behind("http"), Step("busy", where=NEAR), {*AWAY, ("near", "cannot deliver")}),
        (behind("http"), Step("down", where=NEAR), {*AWAY, ("near", "cannot deliver")}),
        (LOG, Step("hang", where="sync"), {("between0", "waits long"), ("client0", "standing still")}),
        (behind("spark"), Step("hang", where="sync"), {("near", "waits long"), ("client0", "standing still")}),
        (behind("spark"), Step("hang", where="read"), {("near", "waits long")}),
        (FOLLOWS, Step("hang", where="read"), {("door", "waits long")}),
        (FOLLOWS, Step("hang", where="entries"), {("door", "waits long")}),
        (FOLLOWS, Step("hang", where="sync_directory"), {("door", "waits long")}),
        (LOG._replace(chunk=4096), Step("full"), {("between0", "breaker triggered"), ("client0", "standing still")}),
    ],
)
def test_what_stands_has_a_line(shape: Shape, trouble: Step, said: set[tuple[str, str]]) -> None:
    teller = Teller(Story(shape, (Step("wait", 0.3), trouble, LONG), events=MANY))
    teller.run()
    assert said <= {(str(line.get("component")), str(line["event"])) for line in teller.lines}
