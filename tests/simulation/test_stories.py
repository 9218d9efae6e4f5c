"""Stories of whole daemons. `python -m tests.simulation.soak` tells many more."""

from random import Random
from unittest.mock import patch

import pytest

from tests.examples import shared
from tests.simulation.flows import Shape, assembled
from tests.simulation.shrink import shrunk, why
from tests.simulation.story import Broken, Step, Story, draw
from tests.simulation.teller import tell
from walflow import world
from walflow.delivery.sender import Sender
from walflow.testing.simulation import Machine, simulated
from walflow.testing.simulation.ends import Outside, outside
from walflow.wal.directory import Directory

SIMPLE = Story(Shape(("apart",), "all", err=True), (Step("wait", 0.5), Step("cut"), Step("wait", 0.3), Step("kill")))


@pytest.mark.parametrize("seed", shared(range(400)))
def test_a_story(seed: int) -> None:
    tell(draw(seed))


def test_the_same_seed_tells_the_same_story() -> None:
    for seed in (1, 16, 65):
        assert tell(draw(seed)) == tell(draw(seed))


def test_what_happened_is_counted() -> None:
    told = tell(SIMPLE)
    assert told.lives == 3
    assert told.delivered >= 120
    assert told.calls > 0


def test_a_story_that_breaks_is_shrunk() -> None:
    rest = (Step("wait", 0.539), Step("busy", where="near"), Step("clock", -3600.0))
    story = SIMPLE._replace(steps=(*rest, *SIMPLE.steps[:2], *rest), events=300)
    with patch.object(Directory, "sync", lambda *_: None):
        assert "came to" in why(story)
        small = shrunk(story, lambda one: "came to" in why(one))
        assert "came to" in why(small)
    assert len(small.steps) < len(story.steps)
    assert any(step.what == "cut" for step in small.steps)


FULL_OF_ONE = Story(
    Shape(("apart",), "odd", err=False, attempts=3, chunk=4096, chunks=4), (), 323, 41, chokes=(31,), pad=1000
)


def test_an_event_that_fills_a_log_alone_is_given_up() -> None:
    """All others had passed it. No attempt counted, for no other event could come: the log stood for ever."""
    tell(FULL_OF_ONE)
    with patch.object(Sender, "_holds_up", lambda *_: False), pytest.raises(Broken, match="180 s after all is well"):
        tell(FULL_OF_ONE)


def test_also_where_the_sink_tries_for_long_before_it_fails_an_event() -> None:
    """It was given up after twelve failures, of which each took `http_client` ten seconds."""
    shape = FULL_OF_ONE.shape._replace(exits=("story", "http"))
    tell(FULL_OF_ONE._replace(shape=shape))


def test_also_after_a_restart() -> None:
    """What has passed it stands in the log's marks."""
    tell(FULL_OF_ONE._replace(steps=(Step("wait", 3.0), Step("kill"))))


def test_a_good_event_is_not_given_up_because_its_peer_went_away() -> None:
    """It was under way, another had just been taken, and one attempt is all there is."""
    shape = Shape(("apart",), "all", err=True, attempts=1, chunk=4096, chunks=4)
    steps = (Step("wait", 0.876), Step("away", where="near"))
    tell(Story(shape, steps, 1000105, 53, chokes=(37,), pad=1000))


def test_a_copy_is_not_taken_for_another_file_because_a_read_failed() -> None:
    """The file that it was copied from could not be read as the two were compared, so all of it came twice."""
    shape = Shape(("memory",), "batch", err=True, chunk=16384, chunks=4, door="follow", exits=("story", "table"))
    steps = (
        Step("wait", 0.864),
        Step("away", where="dead"),
        Step("wait", 0.296),
        Step("clear"),
        Step("wait", 0.119),
        Step("fail", 50, "read"),
        Step("wait", 0.629),
    )
    tell(Story(shape, steps, 665, 130, pad=1000))


def test_what_comes_from_outside_runs_on_the_machine_of_its_process() -> None:
    """A peer that came back called a daemon without its world: it wrote to the real disk."""

    async def story(machine: Machine) -> None:
        life = machine.start(assembled(SIMPLE.shape))
        seen: list[object] = []
        life.run(lambda: seen.append(world.disk()))
        assert seen == [machine.disk]

    ends = Outside(Random(1), ["client0"], ["near", "far", "dead"])
    token = outside.set(ends)
    try:
        simulated(story, Random(1))
    finally:
        outside.reset(token)


def test_what_was_sent_of_a_file_is_known_although_a_read_of_it_fails() -> None:
    """After kill -9: what cannot be compared with what was sent was taken for another file, and came twice."""
    shape = Shape(
        ("apart",), "batch", err=True, clients=2, chunk=4096, chunks=4, door="follow", exits=("file", "http")
    )
    steps = (Step("fail", 50, "read"), Step("wait", 0.038), Step("wait", 0.271), Step("kill"), Step("wait", 0.07))
    tell(Story(shape, steps, 13872, 17))


def test_a_copy_is_known_although_the_file_was_cut_and_renamed_between_two_looks() -> None:
    """Its name begins as the one that the file had before."""
    shape = Shape(("apart",), "all", err=False, chunk=65536, chunks=8, door="follow", exits=("file", "spark"))
    tell(Story(shape, (Step("wait", 0.5),), 9760, 13))


def test_a_good_event_is_not_given_up_because_a_bad_one_ended_its_connection() -> None:
    """Both were under way to a broker of MQTT, and both had failed before."""
    shape = Shape(("apart",), "robin", err=True, attempts=1, chunks=2, door="kafka", exits=("mqtt", "mqtt two"))
    tell(Story(shape, (), 915, 21, chokes=(3,)))


def test_a_good_event_is_not_given_up_with_one_that_waits_for_another_sink_yet() -> None:
    """Both had one error, and both had failed before. The bad one was still under way to `http_client`."""
    shape = Shape(
        ("apart",), "batch", err=True, attempts=1, chunk=16384, chunks=4, door="mqtt two", exits=("http", "mqtt two")
    )
    tell(Story(shape, (), 7746, 37, chokes=(19,)))
    shape = Shape(
        ("together",), "odd", err=True, attempts=1, chunk=4096, chunks=4, exits=("mqtt two", "mqtt"), clients=1
    )
    tell(Story(shape, (), 6776, 60, chokes=(29,)))
    shape = Shape(("together",), "dedupe", err=True, attempts=1, chunk=16384, chunks=4, door="mqtt two")
    steps = (Step("wait", 0.665), Step("reload"), Step("wait", 4.3))
    tell(Story(shape._replace(exits=("tcp", "http")), steps, 3917, 60, (6,), (21,)))


def test_an_outage_is_over_once_what_failed_is_taken_by_another_output() -> None:
    """Behind a round robin, one output took all that had failed at both. The other one counted as failing, so the
    rest went one at a time, ten seconds apart."""
    shape = Shape(("together",), "robin", err=False, attempts=3, door="kafka", exits=("tcp", "mqtt"))
    steps = (Step("wait", 0.631), Step("away", where="near"), Step("wait", 0.637))
    tell(Story(shape, steps, 3645, 70, chokes=(31,)))
