"""Lanes that are behind: each gets its turns, and leaves the others theirs."""

from functools import partial

from tests.delivery.apart import Apart
from tests.delivery.test_lanes import FAN
from walflow import Block
from walflow.delivery.sender import TURN_BYTES


def test_a_lane_that_catches_up_leaves_each_turn_of_the_loop_to_others() -> None:
    """Its sink acks at once, so no window stops it."""
    flow = Apart(
        FAN, ["near", "far"], away=["far"], config='"lanes": "apart", "chunk_size": 1048576, "max_chunks": 16'
    )
    for number in range(60):
        flow.give(number, size=100_000)
        flow.ack("near")
    far = flow.sinks["far"].node
    sizes: list[int] = []

    def take(block: Block) -> None:
        sizes[-1] += len(block.frames.data)
        far.ack(block)

    def others() -> None:
        sizes.append(0)
        if flow.lanes()["far"]:
            flow.scheduler.call_soon(others)

    others()
    far.begin(flow.world.context("main::far"))
    far.serve(take)
    flow.settle()
    assert flow.lanes()["far"] == 0
    assert len([size for size in sizes if size]) >= 5
    assert max(sizes) <= 2 * TURN_BYTES
    assert flow.world.count("wal_failed_events_total") == 0
    flow.close()


def test_of_eight_lanes_at_eight_places_none_gets_less_than_half_of_the_fastest() -> None:
    """In each step of the loop, as long as all of them lack events.
    Their sinks ack at once, so no window stops one."""
    names = [f"sink{number}" for number in range(8)]
    links = "".join(f"connect /pipeline/after to /connector/{name};" for name in names)
    body = f"create pipeline after from pipelines::passthrough; connect /connector/log to /pipeline/after; {links}"
    config = '"lanes": "apart", "chunk_size": 1048576, "max_chunks": 32'
    before = Apart(body, names, config=config)
    for number in range(40):
        before.give(number, size=10_000)
    for at, name in enumerate(names):
        sink = before.sinks[name]
        for _ in range(5 * at):
            sink.node.ack(sink.waiting.pop(0))
    before.checkpoint()
    before.close()
    flow = Apart(body, names, disk=before.disk, away=names, config=config)
    assert len(set(flow.lanes().values())) == 8, "each is at another place"
    for number in range(40, 240):
        flow.give(number, size=50_000)
    sizes = dict.fromkeys(names, 0)
    together: list[dict[str, int]] = []

    def start(name: str) -> None:
        node = flow.sinks[name].node

        def take(block: Block) -> None:
            sizes[name] += len(block.frames.data)
            node.ack(block)

        node.begin(flow.world.context(f"main::{name}"))
        node.serve(take)

    def look() -> None:
        if all(flow.lanes().values()):
            together.append(dict(sizes))
            flow.scheduler.call_soon(look)

    for name in names:
        flow.scheduler.call_soon(partial(start, name))
    flow.scheduler.call_soon(look)
    flow.settle()
    assert set(flow.lanes().values()) == {0}
    assert len(together) >= 5
    assert all(2 * min(found.values()) >= max(found.values()) for found in together), together
    flow.close()
