"""A chain at work on a stream of a source, and ways to cut the stream."""

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.nodes.world import Taker, World
from walflow.codecs import BINARY
from walflow.framing import Incoming, Named, outgoing

LIMIT = 1 << 20


def events_of(chain: Incoming, reads: Sequence[bytes], *, complete: bool = True) -> tuple[list[bytes], list[str]]:
    """The events, and the reasons of what is none. A peer that is hung up on sends nothing more."""
    good, bad = Taker(ack=True), Taker(ack=True)
    world = World()
    out = world.source(good, bad, codec=BINARY, framing=chain)
    out.max_event_bytes = LIMIT
    hung_up: list[bool] = []
    stream = out.stream({}, broken=lambda: hung_up.append(True))
    for read in reads:
        if not hung_up:
            stream.feed_messages([read]) if chain.messages else stream.feed(read)
            world.scheduler.run()
    stream.eof(complete=complete)
    world.scheduler.run()
    assert out.inflight == 0
    reasons = [str(value["error"]) for block in bad.blocks for value in block.values]  # type: ignore[index]
    return [payload for block in good.blocks for payload in block.frames.payloads()], reasons


def written(chain: Sequence[Named], events: Sequence[bytes]) -> bytes:
    """What a sink writes."""
    out = outgoing(chain)
    payloads = list(events)
    for encode in out.encoders:
        payloads = [encode(payload) for payload in payloads]
    return out.framing.join(payloads) if payloads else b""


def cut(stream: bytes, data: st.DataObject) -> list[bytes]:
    """Into reads at any bytes."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reads = [stream[low:high] for low, high in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    return [read for read in reads if read]
