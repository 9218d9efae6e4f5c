"""Requests by real sockets: what is taken of them, when they are answered, and what they are told."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from pydantic import ValidationError

from connectors.http import HttpServer
from tests.connectors.started import started
from tests.nodes.world import Taker, World
from tests.waiting import PATIENCE, until
from walflow.codecs import JSON, MSGPACK, STRING
from walflow.event import Codec
from walflow.framing import MESSAGES, Incoming, incoming
from walflow.framing.compression import FORMATS
from walflow.nodes.source import RunOutlet
from walflow.testing import MemoryInlet

NDJSON = {"Content-Type": "application/x-ndjson"}
ARRAY = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: dict[str, Any]


class Client:
    """One connection, kept."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def post(self, body: bytes, headers: dict[str, str] | None = None, *, path: str = "/") -> Answer:
        self.send(body, headers, path=path)
        return await self.answer()

    def send(
        self, body: bytes, headers: dict[str, str] | None = None, *, path: str = "/", method: str = "POST"
    ) -> None:
        head = {"Host": "h", "Content-Length": str(len(body)), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode(errors="surrogateescape") + body)

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> Answer:
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")[:-2]
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(first.split()[1]), headers, json.loads(body))

    async def is_closed(self) -> bool:
        async with asyncio.timeout(PATIENCE):
            try:
                return not await self.reader.read(1)
            except ConnectionResetError:
                return True


class Server(NamedTuple):
    port: int
    taker: Taker
    out: RunOutlet
    world: World

    def client(self) -> Client:
        return Client(self.port)

    @property
    def events(self) -> list[bytes]:
        return [payload for block in self.taker.blocks for payload in block.frames.payloads()]

    async def taken(self, count: int = 1) -> None:
        await until(lambda: len(self.taker.blocks) >= count)


@asynccontextmanager
async def serving(
    *, ack: bool = True, codec: Codec = JSON, chain: Incoming | None = None, **config: object
) -> AsyncIterator[Server]:
    """In front of a taker."""
    world, taker = World(), Taker(ack=ack)
    out = world.source(taker, codec=codec, framing=chain or Incoming((), MESSAGES))
    lines = Lines()
    out.log = lines  # type: ignore[assignment]
    connector = HttpServer.model_validate({"url": "127.0.0.1:0", **config})
    async with started(connector.run(MemoryInlet(world.scheduler, linked=False), out)) as task:
        await until(lambda: lines.port is not None or task.done())
        assert lines.port is not None, task
        try:
            yield Server(lines.port, taker, out, world)
        finally:
            for block in taker.blocks:
                if block.receipt.pending > 0:
                    block.receipt.ack("f::taker")


class Lines:
    """A log that keeps the port."""

    port: int | None = None

    def info(self, event: str, **said: object) -> None:
        if event == "listening":
            self.port = int(str(said["address"]).rsplit(":", 1)[1])

    def warning(self, event: str, **said: object) -> None: ...

    error = debug = warning


async def ask(server: Server, body: bytes, headers: dict[str, str] | None = None) -> Answer:
    async with server.client() as client:
        return await client.post(body, headers)


@pytest.mark.parametrize(
    ("body", "headers", "events"),
    [
        (b'{"a":1}', {}, [b'{"a":1}']),
        (b'{"a":\n1}', {}, [b'{"a":\n1}']),
        (b"[1,2]", {}, [b"[1,2]"]),
        (b'[1, {"b": [3]}]', ARRAY, [b"1", b'{"b": [3]}']),
        (b" [\n1,\n[2,\n3]]", ARRAY, [b"1", b"[2,\n3]"]),
        (b"[]", ARRAY, []),
        (b'{"a":1}', ARRAY, [b'{"a":1}']),
        (b"1\n2\n3\n", NDJSON, [b"1", b"2", b"3"]),
        (b"1\r\n\r\n2\n\n3", NDJSON, [b"1", b"2", b"3"]),
        (b"", NDJSON, []),
        (b"1\n2", {"Content-Type": "application/x-ndjson; charset=utf-8"}, [b"1", b"2"]),
        (b"".join(b"%d\n" % n for n in range(10_000)), NDJSON, [b"%d" % n for n in range(10_000)]),
        (gzip.compress(b"1\n2\n", mtime=0), {**NDJSON, "Content-Encoding": "gzip"}, [b"1", b"2"]),
        (zlib.compress(b"1\n2\n"), {**NDJSON, "Content-Encoding": "deflate"}, [b"1", b"2"]),
        (FORMATS["zstd"].compress(b"1\n2\n", 3), {**NDJSON, "Content-Encoding": "zstd"}, [b"1", b"2"]),
    ],
)
async def test_a_request_is_one_event_or_many(body: bytes, headers: dict[str, str], events: Sequence[bytes]) -> None:
    async with serving() as server:
        said = await ask(server, body, headers)
        assert (said.status, said.body) == (200, {"events": len(events)})
        assert server.events == events


async def test_preprocessors_decide_instead_of_the_type() -> None:
    chain = incoming([("decompress", {}), ("separate", {})], messages=True)
    async with serving(chain=chain, codec=STRING) as server:
        assert (await ask(server, gzip.compress(b"one\ntwo", mtime=0), ARRAY)).body == {"events": 2}
        assert server.events == [b"one", b"two"]


async def test_another_codec_takes_the_body_whole() -> None:
    async with serving(codec=MSGPACK) as server:
        assert (await ask(server, b"\x92\x01\x02", NDJSON)).status == 200
        assert server.events == [b"\x92\x01\x02"]


async def test_an_array_may_be_kept_whole() -> None:
    async with serving(arrays="keep") as server:
        assert (await ask(server, b"[1,2]", ARRAY)).body == {"events": 1}


async def test_metadata_is_of_the_request_and_holds_no_secrets() -> None:
    async with serving() as server, server.client() as client:
        secrets = {"Authorization": "Bearer s3cret", "Cookie": "s3cret"}
        await client.post(b"1", {"X-Tag": "a", **secrets}, path="/orders/1?a=b&c")
        meta = server.taker.blocks[0].meta
        assert meta["request"] == {
            "method": "POST",
            "url": {"scheme": "http", "path": "/orders/1", "query": "a=b&c"},
            "headers": {"host": ["h"], "content-length": ["1"], "x-tag": ["a"]},
        }
        assert "s3cret" not in repr(meta)


async def test_200_comes_only_after_the_last_ack() -> None:
    async with serving(ack=False) as server, server.client() as client:
        client.send(b"".join(b"%d\n" % n for n in range(5000)), NDJSON)
        await server.taken(2)
        answer = asyncio.ensure_future(client.answer())
        server.taker.blocks[1].receipt.ack("f::taker")
        for _ in range(2):  # others are answered; what was answered before has arrived then
            assert (await ask(server, b"{")).status == 400
        assert not answer.done()
        server.taker.blocks[0].receipt.ack("f::taker")
        assert (await answer).body == {"events": 5000}


async def test_what_fails_is_answered_with_503() -> None:
    async with serving(ack=False, retry_after=7) as server, server.client() as client:
        client.send(b"1")
        await server.taken()
        server.taker.blocks[0].receipt.fail(OSError("the disk is gone"))
        said = await client.answer()
        assert (said.status, said.headers["retry-after"]) == (503, "7")
        assert "the disk is gone" in said.body["error"]


async def test_202_does_not_wait_for_acks() -> None:
    async with serving(ack=False, answer="taken") as server:
        assert (await ask(server, b"1")).status == 202
        server.taker.blocks[0].receipt.fail(OSError("gone"))
        assert server.world.count("lost_events_total") == 1


async def test_without_an_ack_in_time_the_client_is_told_and_the_events_stay() -> None:
    async with serving(ack=False, ack_timeout=50_000_000) as server:
        said = await ask(server, b"1")
        assert said.status == 504
        assert "may still be delivered" in said.body["error"]
        assert server.out.inflight == len(server.taker.blocks[0].frames.data)


async def test_a_client_that_leaves_takes_nothing_with_it() -> None:
    async with serving(ack=False) as server:
        async with server.client() as client:
            client.send(b"1")
            await server.taken()
        assert server.out.inflight
        server.taker.ack_all()
        assert server.out.inflight == 0
        assert server.world.count("lost_events_total") == 0


async def test_a_shut_gate_is_503_and_nothing_is_taken() -> None:
    async with serving() as server:
        server.out._node.gate.trigger("sink", "full")
        said = await ask(server, b"1")
        assert (said.status, said.headers["retry-after"]) == (503, "1")
        server.out._node.gate.restore("sink")
        assert (await ask(server, b"2")).status == 200
        assert server.events == [b"2"]


@pytest.mark.parametrize("answer", ["acked", "taken"])
async def test_a_gate_that_shuts_while_the_body_comes(answer: str) -> None:
    async with serving(answer=answer) as server, server.client() as client:
        client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n")
        await until(lambda: server.world.count("requests_total") == 1)
        server.out._node.gate.trigger("sink", "full")
        client.write(b"1")
        assert (await client.answer()).status == 503
        assert server.events == []
        assert server.out.inflight == 0
        assert server.world.count("lost_events_total") == 0


@pytest.mark.parametrize(
    ("body", "headers", "unit", "numbers"),
    [
        (b"1\nx\n3\n", NDJSON, "line", [2]),
        (b"\n\n1\n\nx", NDJSON, "line", [5]),
        (b"1\n" * 5000 + b"x\n", NDJSON, "line", [5001]),
        (b"x", {}, "event", [1]),
        (b"1\n2\n", {}, "event", [1]),
        (b'[1,"' + b"x" * 200 + b'",3]', ARRAY, "event", [2]),
    ],
)
async def test_a_bad_line_is_named_and_nothing_is_taken(
    body: bytes, headers: dict[str, str], unit: str, numbers: list[int]
) -> None:
    async with serving(max_event_bytes=100) as server:
        said = await ask(server, body, headers)
        assert said.status == 400
        assert said.body["error"].startswith(f"{unit} {numbers[0]}: ")
        assert [event[unit] for event in said.body["refused"]] == numbers
        assert server.events == []


@pytest.mark.parametrize(
    ("body", "headers", "error"),
    [
        (b"", {}, "the body is empty; nothing was taken"),
        (b'{"a":nope}', {}, "event 1: not JSON: no value at column 6; nothing was taken"),
        (
            b'1\n{"a":1} 2\n',
            NDJSON,
            "line 2: not JSON: unexpected content after document at column 9; nothing was taken",
        ),
        (b'{"a":\n\xff}', NDJSON, "line 1: not JSON: unexpected end of data at column 6; nothing was taken"),
        (b'{"a":\xff}', NDJSON, "line 1: not JSON: this is not UTF-8; nothing was taken"),
        (
            b'{\n"a" 1}',
            {},
            (
                "event 1: not JSON: unexpected character at line 2, column 5 (for an event a line, send "
                "Content-Type: application/x-ndjson); nothing was taken"
            ),
        ),
    ],
)
async def test_a_refusal_names_one_line(body: bytes, headers: dict[str, str], error: str) -> None:
    async with serving() as server:
        said = str((await ask(server, body, headers)).body["error"])
        assert said.replace(", expected ':' after key", "") == error  # which orjson 3.10 does not say


async def test_on_demand_the_good_ones_are_taken_and_the_bad_ones_listed() -> None:
    async with serving(refuse="events") as server:
        said = await ask(server, b"1\nx\n3\n\ny\n", NDJSON)
        assert said.status == 200
        assert said.body["events"] == 2
        assert [event["line"] for event in said.body["refused"]] == [2, 5]
        assert server.events == [b"1", b"3"]


@pytest.mark.parametrize(
    "body", [b"[1,", b"[1]]", b"[" * 100_000, b"[1,\xff]", b'["\xff"]', b"[1 2]"], ids=lambda body: repr(body[:9])
)
async def test_a_bad_array_is_refused(body: bytes) -> None:
    async with serving() as server:
        assert (await ask(server, body, ARRAY)).status == 400
        assert (await ask(server, b"1")).status == 200
        assert server.events == [b"1"]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"1" * 1001, {}),
        (gzip.compress(b"1" * 1001, mtime=0), {"Content-Encoding": "gzip"}),
        (FORMATS["zstd"].compress(b"1" * 100_000_000, 3), {"Content-Encoding": "zstd"}),
        (b"1\n" * 51, NDJSON),
        (b"[" + b"1," * 50 + b"1]", ARRAY),
        (b"[" + b"1," * 400 + b"1]", ARRAY),
    ],
    ids=["plain", "gzip", "a bomb", "lines", "elements", "very many elements"],
)
async def test_too_large_is_413(body: bytes, headers: dict[str, str]) -> None:
    async with serving(max_body_bytes=1000, max_events=50) as server:
        assert (await ask(server, body, headers)).status == 413
        assert server.events == []


async def test_what_preprocessors_inflate_counts() -> None:
    chain = incoming([("decompress", {}), ("separate", {})], messages=True)
    async with serving(chain=chain, codec=STRING) as server:
        assert (await ask(server, gzip.compress(b"x" * 1000 + b"\n", mtime=0) * 10_000)).status == 413
        assert (await ask(server, gzip.compress(b"\n" * 1_000_000, mtime=0))).status == 413
        assert server.events == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Encoding": "br"}, 415),
        ({"Content-Encoding": "gzip, gzip"}, 415),
        ({"Content-Encoding": "gzip"}, 400),  # and the body is none
        ({"Origin": "http://evil.example"}, 403),
        ({f"X-{n}": "x" * 1000 for n in range(40)}, 431),
        ({"Idempotency-Key": "x" * 256}, 400),
    ],
)
async def test_what_is_refused(headers: dict[str, str], status: int) -> None:
    async with serving() as server:
        assert (await ask(server, b"1", headers)).status == status
        assert server.events == []


async def test_only_methods_with_a_body_are_taken() -> None:
    async with serving() as server:
        for method, status in (("PUT", 200), ("PATCH", 200), ("GET", 405), ("DELETE", 405), ("OPTIONS", 405)):
            async with server.client() as client:
                client.send(b"1", method=method)
                assert (await client.answer()).status == status


async def test_a_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    async with serving(token={"file": str(file)}) as server:
        assert (await ask(server, b"1")).status == 401
        assert (await ask(server, b"1", {"Authorization": "Bearer other"})).status == 401
        assert (await ask(server, b"1", {"Authorization": "Bearer \udcff"})).status == 401
        assert (await ask(server, b"1", {"Authorization": "Bearer s3cret"})).status == 200
        file.write_text("n3w")
        assert (await ask(server, b"1", {"Authorization": "Bearer n3w"})).status == 200
        file.unlink()
        assert (await ask(server, b"1", {"Authorization": "Bearer n3w"})).status == 503


async def test_a_repeated_key_is_not_taken_again() -> None:
    async with serving() as server:
        key = {"Idempotency-Key": "k1"}
        first = await ask(server, b"1", key)
        again = await ask(server, b"1", key)
        assert (first.status, again.status, again.body) == (200, 200, first.body)
        assert again.headers["idempotency-replayed"] == "true"
        assert (await ask(server, b"2", key)).status == 422
        assert (await ask(server, b"2", {"Idempotency-Key": "k2"})).status == 200
        assert server.events == [b"1", b"2"]


@pytest.mark.parametrize("ends", [b"\xe9 \xe8", b"\xff \xef\xbf\xbd"], ids=["two of Latin-1", "a replacement"])
async def test_keys_that_read_alike_are_not_one(ends: bytes) -> None:
    """What is no text is no key: the second of these was answered as if it had come before,
    and its event was not taken."""
    async with serving() as server:
        first, second = [
            await ask(server, b"1", {"Idempotency-Key": f"caf{end}"})
            for end in ends.decode(errors="surrogateescape").split()
        ]
        assert first.status == 400
        assert "not UTF-8" in str(first.body)
        assert "idempotency-replayed" not in second.headers
        assert (await ask(server, b"1", {"Idempotency-Key": "caf\u00e9"})).status == 200
        assert (await ask(server, b"1", {"Idempotency-Key": "caf\u00e8"})).status == 200


@pytest.mark.parametrize(
    "lines",
    ["Transfer-Encoding: gzip, chunked", "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked"],
)
async def test_a_transfer_coding_that_is_not_understood_is_501(lines: str) -> None:
    async with serving() as server, server.client() as client:
        client.write(f"POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n1\r\n1\r\n0\r\n\r\n".encode())
        assert (await client.answer()).status == 501
        assert await client.is_closed()
        assert server.events == []


@pytest.mark.parametrize("coding", ["chunked", "CHUNKED", " chunked "])
async def test_chunked_is_understood(coding: str) -> None:
    async with serving() as server, server.client() as client:
        client.write(f"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {coding}\r\n\r\n1\r\n1\r\n0\r\n\r\n".encode())
        assert (await client.answer()).status == 200
        assert server.events == [b"1"]


async def test_a_key_whose_request_is_under_way_waits_for_its_outcome() -> None:
    async with serving(ack=False) as server, server.client() as one, server.client() as two:
        one.send(b"1", {"Idempotency-Key": "k"})
        await server.taken()
        two.send(b"1", {"Idempotency-Key": "k"})
        await until(lambda: server.world.count("repeated_requests_total") == 1)
        server.taker.ack_all()
        assert [(await one.answer()).status, (await two.answer()).status] == [200, 200]
        assert server.events == [b"1"]


async def test_a_key_whose_request_failed_may_come_again() -> None:
    async with serving(ack=False) as server, server.client() as client:
        for cause in (OSError("no"), None):
            client.send(b"1", {"Idempotency-Key": "k"})
            await server.taken(1 if cause else 2)
            receipt = server.taker.blocks[-1].receipt
            receipt.fail(cause) if cause else receipt.ack("f::taker")
            assert (await client.answer()).status == (503 if cause else 200)


async def test_keys_are_forgotten_after_their_window() -> None:
    async with serving(idempotency_window=5_000_000_000, idempotency_keys=2) as server:
        for key in ("a", "a", "b", "c", "a"):  # c drives a out
            await ask(server, b"1", {"Idempotency-Key": key})
        assert len(server.events) == 4
        server.world.scheduler.advance(6)
        await ask(server, b"1", {"Idempotency-Key": "a"})
        assert len(server.events) == 5


async def test_requests_in_one_write_are_answered_in_order() -> None:
    async with serving() as server, server.client() as client:
        for number in range(5):
            client.send(b"%d" % number)
        assert [(await client.answer()).status for _ in range(5)] == [200] * 5
        assert server.events == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_thousand_requests_in_one_write() -> None:
    """More than are read ahead, and than one client's turn has."""
    async with serving() as server, server.client() as client, server.client() as other:
        for number in range(1000):
            client.send(b"%d" % number)
        assert (await other.post(b"1000")).status == 200
        assert [(await client.answer()).status for _ in range(1000)] == [200] * 1000
        assert sorted(map(int, server.events)) == list(range(1001))


async def test_requests_whose_client_is_answered_in_parts_wait_for_their_turn() -> None:
    async with serving(ack=False) as server, server.client() as client:
        for number in range(300):
            client.send(b"%d" % number)
        for number in range(300):
            await server.taken(number + 1)
            assert len(server.taker.blocks) == number + 1
            server.taker.blocks[number].receipt.ack("f::taker")
        assert [(await client.answer()).status for _ in range(300)] == [200] * 300


async def test_a_client_of_http_1_0_is_answered_in_its_way() -> None:
    async with serving() as server:
        async with server.client() as client:
            client.write(b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n1")
            assert (await client.answer()).headers["connection"] == "keep-alive"
            client.write(b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\n2")
            assert (await client.answer()).headers["connection"] == "close"
            assert await client.is_closed()
        assert server.events == [b"1", b"2"]


@pytest.mark.test
async def test_a_request_to_upgrade_is_answered_in_http_1_1() -> None:
    """Java's client sends it so."""
    async with serving() as server, server.client() as client:
        upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"}
        for number in range(2):
            client.send(b"%d" % number, upgrade)
        head = (
            b"POST / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        client.write(head)
        await until(lambda: server.world.count("requests_total") == 3)
        client.write(b"1\r\n2\r\n0\r\n\r\n")
        client.send(gzip.compress(b"3"), {**upgrade, "Content-Encoding": "gzip"})
        client.send(b"4")
        assert [(await client.answer()).status for _ in range(5)] == [200] * 5
        assert server.events == [b"0", b"1", b"2", b"3", b"4"]
        assert server.taker.blocks[1].meta["request"] == server.taker.blocks[0].meta["request"]
        client.write(b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\nPOST / HTTP/1.1\r\n")
        assert (await client.answer()).status == 405
        assert await client.is_closed()


async def test_the_answer_to_head_has_no_body() -> None:
    async with serving() as server, server.client() as client:
        client.write(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert (await client.reader.read()).endswith(b"\r\n\r\n")


async def test_a_client_that_sends_no_more_is_answered() -> None:
    async with serving(ack=False) as server, server.client() as client:
        client.send(b"1")
        client.writer.write_eof()
        await server.taken()
        server.taker.ack_all()
        assert (await client.answer()).status == 200
        assert await client.is_closed()


async def test_trailers_and_extensions_of_chunks_are_no_part_of_the_events() -> None:
    async with serving() as server, server.client() as client:
        head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.write(head + b"1;a=b\r\n1\r\n0\r\nX-Trailer: t\r\n\r\n")
        assert (await client.answer()).status == 200
        assert server.events == [b"1"]
        assert "x-trailer" not in repr(server.taker.blocks[0].meta)


async def test_a_chunked_body_and_expect_continue() -> None:
    async with serving() as server, server.client() as client:
        client.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.write(b"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n")
        assert (await client.answer()).status == 200
        assert server.events == [b"[1,2]"]


async def test_at_the_limit_a_new_connection_replaces_the_one_idle_longest() -> None:
    async with serving(ack=False, max_connections=2) as server, server.client() as busy, server.client() as idle:
        busy.send(b"1")
        await server.taken()
        async with server.client() as third:
            assert await idle.is_closed()
            third.send(b"2")
            await server.taken(2)
            async with server.client() as fourth:
                assert await fourth.is_closed()
        server.taker.ack_all()
        assert (await busy.answer()).status == 200


async def test_a_body_that_does_not_come_is_408() -> None:
    async with serving(body_timeout=50_000_000) as server, server.client() as client:
        client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1")
        assert (await client.answer()).status == 408


async def test_a_head_that_does_not_come_is_closed() -> None:
    async with serving(idle_timeout=50_000_000) as server, server.client() as client:
        client.write(b"POST / HTTP/1.1\r\nHost: h\r\n")
        assert await client.is_closed()


async def test_slow_bodies_make_room_for_a_good_one() -> None:
    size = 1 << 20
    async with serving() as server:
        slow = [server.client() for _ in range(10)]
        for client in slow:
            await client.__aenter__()
            client.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + b"x" * (size - 1))
        await until(lambda: server.world.count("refused_requests_total") >= 3)
        assert (await ask(server, b"1")).status == 200
        assert (await ask(server, b"1\n" * 50_000, NDJSON)).status == 200
        for client in slow:
            await client.__aexit__()


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"url": "https://127.0.0.1:1"}, "there is no `tls`"),
        ({"url": "http://127.0.0.1:1", "tls": {"cert": "c", "key": "k"}}, "write https://"),
        ({"url": "127.0.0.1:1/path"}, "is not host:port"),
        ({"url": "127.0.0.1:1", "max_body_bytes": 0}, "greater than or equal to 1"),
    ],
)
def test_configurations_that_are_refused(config: dict[str, object], line: str) -> None:
    with pytest.raises(ValidationError, match=line):
        HttpServer.model_validate(config)


def test_beyond_loopback_it_warns() -> None:
    assert "without TLS" in HttpServer(url="0.0.0.0:1").guarantee(behind_log=False).warnings[0]
    assert HttpServer(url="127.0.0.1:1").guarantee(behind_log=False).warnings == ()


async def test_long_requests_one_behind_the_other_are_taken_whole() -> None:
    """From the second one on, the parser expects that they are long:
    it takes the head, and then the body in one piece."""
    bodies = [b"".join(b"%d\n" % n for n in range(at, at + 2000)) for at in range(0, 10_000, 2000)]
    async with serving() as server, server.client() as client:
        for body in (*bodies, b"1"):
            client.send(body, NDJSON)
        for body in bodies:
            assert (await client.answer()).body == {"events": body.count(b"\n")}
        assert (await client.answer()).body == {"events": 1}
        assert b"".join(block.frames.data for block in server.taker.blocks) == b"".join(bodies) + b"1\n"
