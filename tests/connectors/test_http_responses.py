"""Answers of a server as events: what they carry, and when the request's events are acked."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import pytest
from aiohttp import web

from connectors.http import HttpClient
from tests.connectors.started import started
from tests.connectors.test_http_client import QUICK, Peer, origin
from tests.nodes.world import Taker, World
from tests.waiting import until
from walflow.framing import MESSAGES, Incoming, incoming
from walflow.nodes.source import RunOutlet
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, VirtualScheduler


class Asking(NamedTuple):
    inlet: MemoryInlet
    out: RunOutlet
    taker: Taker
    err: Taker

    def ask(self, *events: bytes, **meta: object) -> None:
        data = b"".join(event + b"\n" for event in events)
        self.inlet.give(self.inlet.block(data, meta=meta, origin=origin(7, 6 + len(events))))

    @property
    def events(self) -> list[bytes]:
        return [payload for block in self.taker.blocks for payload in block.frames.payloads()]


@asynccontextmanager
async def asking(
    peer: Peer, *, ack: bool = True, chain: Incoming | None = None, **config: object
) -> AsyncIterator[Asking]:
    world, taker, err = World(), Taker(ack=ack), Taker("f::err", ack=True)
    out = world.source(taker, err, framing=chain or Incoming((), MESSAGES))
    scheduler = LoopScheduler("http")
    inlet = MemoryInlet(cast(VirtualScheduler, scheduler), behind_log=True)
    async with peer.listening() as port:
        url = {"url": f"http://127.0.0.1:{port}/", "reconnect": QUICK, "responses": True}
        try:
            async with started(HttpClient.model_validate({**url, **config}).run(inlet, out), scheduler):
                yield Asking(inlet, out, taker, err)
        finally:
            out.end()
            for block in taker.blocks:
                if block.receipt.pending > 0:
                    block.receipt.ack("f::taker")


async def test_an_answer_is_an_event_with_its_status_headers_and_correlation() -> None:
    peer = Peer(web.Response(status=201, body=b'{"b":2}', headers={"X-Tag": "t", "Set-Cookie": "s3cret"}))
    async with asking(peer) as client:
        client.ask(b'{"a":1}', correlation={"n": 1}, other=2)
        await until(lambda: client.inlet.acked)
        assert client.events == [b'{"b":2}']
        meta = client.taker.blocks[0].meta
        assert meta["correlation"] == {"n": 1}
        assert meta["response"]["status"] == 201  # type: ignore[index]
        assert meta["response"]["headers"]["x-tag"] == ["t"]  # type: ignore[index]
        assert "s3cret" not in repr(meta)
        assert meta.keys() == {"response", "correlation"}
        assert peer.got[0].headers["Accept-Encoding"] == "identity"


async def test_an_answer_without_a_body_is_null() -> None:
    async with asking(Peer(204)) as client:
        client.ask(b"1")
        await until(lambda: client.inlet.acked)
        assert client.events == [b"null"]
        assert "correlation" not in client.taker.blocks[0].meta


async def test_of_a_batch_the_first_event_says_the_correlation() -> None:
    async with asking(Peer(web.Response(body=b"[1,2]")), batch="array") as client:
        client.ask(b"1", b"2", correlation="c")
        await until(lambda: client.inlet.acked)
        assert client.events == [b"[1,2]"]
        assert client.taker.blocks[0].meta["correlation"] == "c"


async def test_preprocessors_cut_an_answer() -> None:
    chain = incoming([("separate", {})], messages=True)
    async with asking(Peer(web.Response(body=b"1\nx\n3")), chain=chain) as client:
        client.ask(b"1")
        await until(lambda: client.inlet.acked)
        assert client.events == [b"1", b"3"]
        assert len(client.err.blocks) == 1


async def test_nothing_is_acked_before_its_answer_is() -> None:
    async with asking(Peer(web.Response(body=b"1"), web.Response(body=b"2")), ack=False) as client:
        client.ask(b"1", b"2")
        await until(
            lambda: len(client.taker.blocks) == 2
        )  # the second request does not wait for the first one's acks
        assert client.inlet.acked == []
        client.taker.ack_all()
        assert len(client.inlet.acked) == 2


async def test_an_answer_that_is_not_delivered_fails_the_request() -> None:
    async with asking(Peer(web.Response(body=b"1")), ack=False) as client:
        client.ask(b"1")
        await until(lambda: client.taker.blocks)
        client.taker.blocks[0].receipt.fail(OSError("gone"))
        assert client.inlet.failed == [(b"1\n", "the answer was not delivered: gone")]


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"body": b"no json"}, "not JSON"),
        ({"body": b'"' + b"x" * 2000 + b'"'}, "max_response_bytes"),
        ({"body": b"1", "headers": {"Content-Encoding": "br"}}, "Content-Encoding"),
    ],
)
async def test_what_is_no_event_leaves_by_err_and_the_request_is_acked(response: dict[str, Any], reason: str) -> None:
    async with asking(Peer(web.Response(**response)), max_response_bytes=1000) as client:
        client.ask(b"1")
        await until(lambda: client.inlet.acked)
        assert client.events == []
        assert reason in json.loads(client.err.blocks[0].frames.data)["error"]


async def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    class BrokenOff(web.Response):
        async def write_eof(self, data: bytes = b"") -> None:
            assert self._req is not None
            assert self._req.transport is not None
            self._req.transport.abort()

    peer = Peer(BrokenOff(body=b"12345"), web.Response(body=b"2"))
    async with asking(peer) as client:
        client.ask(b"1")
        await until(lambda: client.inlet.acked)
        assert client.events == [b"2"]
        assert len({got.key for got in peer.got}) == 1
        assert len(peer.got) == 2


async def test_a_refusal_is_no_event() -> None:
    async with asking(Peer(404)) as client:
        client.ask(b"1")
        await until(lambda: client.inlet.rejected)
        assert client.events == []


@pytest.mark.parametrize("shut", [False, True])
async def test_when_it_stops_what_is_not_acked_fails(shut: bool) -> None:
    peer = Peer(web.Response(body=b"1"))
    async with asking(peer, ack=False) as client:
        if shut:
            client.out._node.gate.trigger("sink", "full")
        client.ask(b"1")
        await until(lambda: client.out.refused if shut else client.taker.blocks)
    assert client.inlet.acked == []
    assert client.inlet.failed == [(b"1\n", "the connector has stopped")]


async def test_while_the_flow_takes_no_events_an_answer_waits() -> None:
    async with asking(Peer(web.Response(body=b"5"))) as client:
        client.out._node.gate.trigger("sink", "full")
        client.ask(b"1")
        await until(lambda: client.out.refused)
        client.out._node.gate.restore("sink")
        await until(lambda: client.inlet.acked)
        assert client.events == [b"5"]
