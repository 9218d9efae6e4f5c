"""Answers that the flow makes: by real sockets, with a flow of a few lines between the two halves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from connectors.http import HttpServer
from tests.connectors.started import started
from tests.connectors.test_http_server import ARRAY, NDJSON, Client, Lines
from tests.nodes.world import Taker, World
from tests.waiting import PATIENCE, until
from walflow import Block, Codec, Frames, Receipt
from walflow.codecs import JSON, MSGPACK, STRING
from walflow.framing import LINES, MESSAGES, Incoming
from walflow.nodes.sink import SinkNode

Flow = Callable[[Block, SinkNode], None]


class Answering(NamedTuple):
    port: int
    sink: SinkNode
    world: World
    err: Taker
    kept: list[Block]  # came from the source, and wait for the test

    def client(self) -> Client:
        return Client(self.port)

    async def ask(self, body: bytes = b"", headers: dict[str, str] | None = None, method: str = "POST") -> "Said":
        async with self.client() as client:
            client.send(body, headers, method=method)
            return await said(client)

    async def answers_others(self) -> None:
        """Two of them: what was answered before has arrived then."""
        for _ in range(2):
            assert (await self.ask(b"{")).status == 400

    async def came(self, count: int = 1) -> list[Block]:
        await until(lambda: len(self.kept) >= count)
        return self.kept


class Said(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def said(client: Client) -> Said:
    """An answer whose body is anything."""
    async with asyncio.timeout(PATIENCE):
        head = await client.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")[:-2]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await client.reader.readexactly(int(headers.get("content-length", "0")))
    return Said(int(first.split()[1]), headers, body)


class FlowOf:
    """What stands between the halves."""

    name = "f::flow"

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.sink: SinkNode | None = None

    def accept(self, block: Block) -> None:
        assert self.sink is not None
        self._flow(block, self.sink)


@asynccontextmanager
async def answering(
    flow: Flow | None = None, *, behind_log: bool = False, codec: Codec = JSON, **config: object
) -> AsyncIterator[Answering]:
    """Without `flow`, what comes is kept for the test."""
    world, err, kept = World(), Taker("f::err", ack=True), list[Block]()
    between = FlowOf(flow or (lambda block, _: kept.append(block)))
    out = world.source(between, codec=codec, framing=Incoming((), MESSAGES))
    connector = HttpServer.model_validate({"url": "127.0.0.1:0", **config})
    sink = world.sink(connector.sink_codec(codec), MESSAGES, err=err)
    sink.upstream = sink.upstream._replace(behind_log=behind_log)
    between.sink = sink
    lines = Lines()
    out.log = lines  # type: ignore[assignment]
    async with started(connector.run(sink, out)) as task:
        await until(lambda: lines.port is not None or task.done())
        assert lines.port is not None, task
        try:
            yield Answering(lines.port, sink, world, err, kept)
        finally:
            for block in kept:
                if block.receipt.pending > 0:
                    block.receipt.ack("f::flow")


def echo(block: Block, sink: SinkNode) -> None:
    sink.accept(block)


def saying(response: object, *, nested: bool = False) -> Flow:
    """With this `$response`."""

    def flow(block: Block, sink: SinkNode) -> None:
        sink.accept(with_response(block, response, nested=nested))

    return flow


def with_response(block: Block, response: object, *, nested: bool = False) -> Block:
    ours: Mapping[str, Any] = block.meta["http_server"]  # type: ignore[assignment]
    metas: dict[str, object] = {"response": response}
    if nested:
        metas = {"http_server": {**ours, "response": response}}
    return again(block, [metas] * block.frames.count)


def again(block: Block, metas: Sequence[Mapping[str, object]] | None = None) -> Block:
    """As it would come out of a pipeline, or of a log."""
    return Block(
        block.stream,
        block.frames,
        block.codec,
        block.receipt,
        ingest_ns=block.ingest_ns,
        meta=block.meta,
        event_metas=metas,
    )


def filtered(block: Block, _: SinkNode) -> None:
    block.receipt.ack()


@pytest.mark.parametrize(
    ("body", "headers", "answer", "content_type"),
    [
        (b'{"a":1}', {}, b'{"a":1}', "application/json"),
        (b"1\n2\n", NDJSON, b"1\n2\n", "application/x-ndjson"),
        (b"1", NDJSON, b"1\n", "application/x-ndjson"),
        (b"[1,2]", ARRAY, b"[1,2]", "application/json"),
        (b"[1]", ARRAY, b"[1]", "application/json"),
        (b'{"a":1}', ARRAY, b'{"a":1}', "application/json"),
    ],
)
async def test_what_comes_back_is_the_answer_in_the_form_of_the_request(
    body: bytes, headers: dict[str, str], answer: bytes, content_type: str
) -> None:
    async with answering(echo) as server:
        got = await server.ask(body, headers)
        assert (got.status, got.body, got.headers["content-type"]) == (200, answer, content_type)


@pytest.mark.parametrize(
    ("codec", "body", "content_type"),
    [(STRING, b"some text", "text/plain; charset=utf-8"), (MSGPACK, b"\x92\x01\x02", "application/octet-stream")],
)
async def test_an_answer_has_the_codec_of_the_connector(codec: Codec, body: bytes, content_type: str) -> None:
    async with answering(echo, codec=codec) as server:
        got = await server.ask(body)
        assert (got.status, got.body, got.headers["content-type"]) == (200, body, content_type)


@pytest.mark.parametrize("nested", [False, True])
async def test_status_and_headers_are_those_of_the_metadata(nested: bool) -> None:
    headers = {
        "X-One": "1",
        "x-two": ["a", "b"],
        "Content-Type": "text/html",
        "content-length": "9",
        "Connection": "close",
    }
    async with (
        answering(saying({"status": 418, "headers": headers}, nested=nested)) as server,
        server.client() as client,
    ):
        for _ in range(2):
            client.send(b"1")
            got = await said(client)
            assert (got.status, got.body) == (418, b"1")
            assert got.headers["x-one"] == "1"
            assert got.headers["x-two"] == "b"
            assert got.headers["content-type"] == "text/html"
            assert "connection" not in got.headers


async def test_204_has_no_body() -> None:
    async with answering(saying({"status": 204})) as server, server.client() as client:
        for _ in range(2):
            client.send(b"1")
            got = await said(client)
            assert (got.status, got.body) == (204, b"")
            assert "content-length" not in got.headers


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_request_without_a_body_is_the_event_null(method: str) -> None:
    async with answering(echo) as server:
        assert (await server.ask(method=method)).body == b"null"


async def test_other_methods_are_refused() -> None:
    async with answering(echo) as server:
        got = await server.ask(method="OPTIONS")
        assert got.status == 405
        assert b"GET, DELETE" in got.body


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (1, "is no record"),
        ({"status": "200"}, "from 200 to 599"),
        ({"status": 101}, "from 200 to 599"),
        ({"status": True}, "from 200 to 599"),
        ({"headers": []}, "headers is no record"),
        ({"headers": {"a b": "1"}}, "is no name of a header"),
        ({"headers": {"a": "1\r\nSet-Cookie: x"}}, "what no header can hold"),
        ({"headers": {"a": 1}}, "what no header can hold"),
        ({"headers": {"a": ["x" * 40_000]}}, "bytes"),
    ],
)
async def test_what_is_no_answer_is_500_and_leaves_by_err(response: object, reason: str) -> None:
    async with answering(saying(response)) as server:
        got = await server.ask(b"1")
        assert got.status == 500
        assert reason in got.body.decode()
        assert reason in server.err.blocks[0].frames.data.decode()


async def test_the_first_event_that_comes_back_says_how() -> None:
    def flow(block: Block, sink: SinkNode) -> None:
        sink.accept(again(block, [{"response": {"status": 201}}, {"response": 1}, {}]))

    async with answering(flow) as server:
        got = await server.ask(b"1\n2\n3\n", NDJSON)
        assert (got.status, got.body) == (201, b"1\n2\n3\n")
        assert server.err.blocks == []


async def test_of_several_requests_in_one_block_only_the_bad_one_leaves_by_err() -> None:
    async with answering(behind_log=True) as server, server.client() as one, server.client() as other:
        one.send(b"1")
        await server.came()
        other.send(b"2")
        first, second = await server.came(2)
        for block in (first, second):
            block.receipt.ack("f::log")
        metas = [{**first.meta, "response": 1}, {**second.meta, "response": {"status": 202}}]
        batch = first.with_frames(Frames(LINES.join([b"1", b"2"]), 2, LINES), JSON, Receipt(lambda _: None, 2))
        server.sink.accept(again(batch, metas))
        assert (await said(one)).status == 500
        got = await said(other)
        assert (got.status, got.body) == (202, b"2")
        assert len(server.err.blocks) == 1


async def test_an_answer_that_is_too_large_is_500() -> None:
    def twice(block: Block, sink: SinkNode) -> None:
        block.receipt.fork(1)
        sink.accept(block)
        sink.accept(block)

    async with answering(twice, max_body_bytes=10) as server:
        got = await server.ask(b"12345678")
        assert got.status == 500
        assert b"max_body_bytes" in got.body


async def test_the_answer_waits_for_the_other_sinks() -> None:
    async with answering() as server, server.client() as client:
        client.send(b"1")
        (block,) = await server.came()
        block.receipt.fork(1)
        server.sink.accept(again(block))
        answer = asyncio.ensure_future(said(client))
        await server.answers_others()
        assert not answer.done()
        block.receipt.ack("f::other")
        assert (await answer).body == b"1"


async def test_if_another_sink_fails_the_answer_is_503() -> None:
    async with answering() as server, server.client() as client:
        client.send(b"1")
        (block,) = await server.came()
        block.receipt.fork(1)
        server.sink.accept(again(block))
        block.receipt.fail(OSError("the disk is gone"))
        got = await said(client)
        assert got.status == 503
        assert b"the disk is gone" in got.body


async def test_taken_does_not_wait_for_the_other_sinks() -> None:
    async with answering(answer="taken") as server, server.client() as client:
        client.send(b"1")
        (block,) = await server.came()
        block.receipt.fork(1)
        server.sink.accept(again(block))
        assert (await said(client)).body == b"1"
        block.receipt.fail(OSError("gone"))
        assert server.world.count("lost_events_total") == 1


async def test_an_event_that_is_filtered_out_is_500_at_once() -> None:
    async with answering(filtered) as server:
        got = await server.ask(b"1")
        assert got.status == 500
        assert b"the flow gave no answer" in got.body


async def test_of_some_events_that_are_filtered_out_the_others_are_the_answer() -> None:
    def flow(block: Block, sink: SinkNode) -> None:
        first, second, third = block.split([1, 1, 1])
        second.receipt.ack()
        sink.accept(first)
        sink.accept(third)

    async with answering(flow) as server:
        assert (await server.ask(b"1\n2\n3\n", NDJSON)).body == b"1\n3\n"


async def test_behind_a_log_the_answer_comes_after_the_ack() -> None:
    async with answering(behind_log=True) as server, server.client() as client:
        client.send(b"1\n2\n", NDJSON)
        (block,) = await server.came()
        later = again(block).split([1, 1])
        copies = [from_log(part) for part in later]
        for part in later:
            part.receipt.ack("f::log")
        server.sink.accept(copies[0])
        answer = asyncio.ensure_future(said(client))
        await server.answers_others()
        assert not answer.done()
        server.sink.accept(copies[1])
        assert (await answer).body == b"1\n2\n"


def from_log(block: Block) -> Block:
    """As a log sends it, with a receipt of its own."""
    receipt = Receipt(lambda _: None, block.frames.count)
    return block.with_frames(block.frames, block.codec, receipt)


async def test_behind_a_log_without_an_answer_it_is_504_and_a_late_one_is_counted() -> None:
    async with answering(behind_log=True, ack_timeout=50_000_000) as server, server.client() as client:
        client.send(b"1")
        (block,) = await server.came()
        late = from_log(block)
        block.receipt.ack("f::log")
        got = await said(client)
        assert got.status == 504
        assert b"the flow gave no answer within 0.05 s" in got.body
        server.world.scheduler.advance(1)
        server.sink.accept(late)
        assert server.world.count("orphaned_events_total") == 1


async def test_what_comes_back_of_an_earlier_start_answers_no_request() -> None:
    async with answering(behind_log=True) as server, server.client() as client:
        client.send(b"1")
        (block,) = await server.came()
        number = block.meta["http_server"]["request_id"]  # type: ignore[index]
        for other in (None, "x", True, -1, number - 1, number + 1):
            meta = {"http_server": {"request_id": other}}
            server.sink.accept(again(from_log(block), [meta]))
        assert server.world.count("orphaned_events_total") == 6
        server.sink.accept(again(block))
        assert (await said(client)).body == b"1"


async def test_a_repeated_key_gets_the_same_answer_and_is_not_taken_again() -> None:
    async with answering(saying({"status": 201})) as server, server.client() as client:
        for replayed in (False, True):
            client.send(b"1", {"Idempotency-Key": "a"})
            got = await said(client)
            assert (got.status, got.body) == (201, b"1")
            assert ("idempotency-replayed" in got.headers) is replayed
        assert server.world.count("repeated_requests_total") == 1


async def test_the_key_of_a_lost_answer_gets_it_when_it_comes() -> None:
    async with answering(behind_log=True) as server:
        async with server.client() as client:
            client.send(b"1", {"Idempotency-Key": "a"})
            (block,) = await server.came()
        copy = from_log(block)
        block.receipt.ack("f::log")
        async with server.client() as client:
            client.send(b"1", {"Idempotency-Key": "a"})
            await until(lambda: server.world.count("repeated_requests_total") == 1)
            server.sink.accept(copy)
            assert (await said(client)).body == b"1"


async def test_bad_events_of_a_request_are_named_in_a_header() -> None:
    async with answering(echo, refuse="events") as server:
        got = await server.ask(b"1\nx\n3\n{\n", NDJSON)
        assert (got.status, got.body, got.headers["refused-events"]) == (200, b"1\n3\n", "2, 4")


async def test_a_request_whose_client_has_left_holds_nothing() -> None:
    async with answering(behind_log=True) as server:
        async with server.client() as client:
            client.send(b"1")
            (block,) = await server.came()
        copy = from_log(block)
        block.receipt.ack("f::log")
        server.sink.accept(copy)
        assert held_bytes(server) == 0


def held_bytes(server: Answering) -> int:
    return int(sum(sample.value for sample in server.world.metrics if sample.name == "request_bytes"))
