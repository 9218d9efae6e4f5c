"""What a log keeps is read beside the daemons of a simulated machine: the tools see its disk, and no other."""

import pytest

from tests.simulation.flows import Shape
from tests.simulation.story import Step, Story
from tests.simulation.teller import Teller
from walflow.codecs import JSON
from walflow.delivery import RecordFeed
from walflow.delivery.tag import Tags
from walflow.wal import Record
from walflow.wal.tools.inspect import check
from walflow.world import entered

QUIET = (Step("wait", 0.5),)
DIES = (Step("wait", 0.3), Step("kill"), Step("wait", 0.2), Step("cut"), Step("wait", 0.1), Step("stop"))


@pytest.mark.parametrize("steps", [QUIET, DIES])
def test_all_that_was_ever_acked_can_be_replayed(steps: tuple[Step, ...]) -> None:
    teller = Teller(Story(Shape(("apart",), "all", err=False, retain=1 << 24), steps))
    teller.run()
    with entered(teller.machine.other("tools")):
        feed = RecordFeed("/log0", None, None, follow=False)
        assert feed.open() == []
        records = feed.read(1 << 30)
        assert feed.read(1) == []
        view, findings = check("/log0")
    assert all(isinstance(one, Record) for one in records)
    assert (records[0].position, feed.end) == (1, view.found.durable)  # type: ignore[union-attr]
    tags, found = Tags(), set[tuple[str, int]]()
    for one in records:
        assert isinstance(one, Record)
        for payload in tags.decode(one.tag).framing.payloads(one.payload):
            event = JSON.decode(payload)
            assert isinstance(event, dict)
            found.add((str(event["from"]), int(event["n"])))
    assert found == {(name, n) for name, client in teller.outside.clients.items() for n in range(client.wants)}
    assert not [one for one in findings if one.kind != "torn"]
