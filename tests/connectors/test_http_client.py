"""Requests to a real server that answers as it is told: what it gets, and what becomes of the events."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from aiohttp import web
from multidict import CIMultiDictProxy
from pydantic import ValidationError

from connectors.http import HttpClient
from connectors.http.batches import lanes, parcels
from tests.connectors.started import started
from tests.system.certificates import Authority
from tests.waiting import until
from walflow.codecs import STRING
from walflow.event import Origin
from walflow.framing import MESSAGES
from walflow.runtime.loop import LoopScheduler
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

QUICK = {"retry": {"interval_ms": 1, "growth_rate": 1.0}}


class Got(NamedTuple):
    body: bytes
    headers: dict[str, str]

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


class Peer:
    """Gives the answers of `script` in their order, then 200 to all."""

    def __init__(self, *script: web.Response | int | BaseException) -> None:
        self.script = list(script)
        self.got: list[Got] = []
        self.all_headers: list[CIMultiDictProxy[str]] = []
        self.at_once = 0  # requests without an answer
        self.most_at_once = 0
        self.hold: asyncio.Event | None = None

    async def answer(self, request: web.Request) -> web.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            body = await request.read()
            if self.hold is not None:
                await self.hold.wait()
            self.got.append(Got(body, dict(request.headers)))
            self.all_headers.append(request.headers)
            said = self.script.pop(0) if self.script else 200
        finally:
            self.at_once -= 1
        if isinstance(said, BaseException):
            assert request.transport is not None
            request.transport.abort()
            raise said
        return said if isinstance(said, web.Response) else web.Response(status=said, text="a reason\nand more")

    @asynccontextmanager
    async def listening(self, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


@asynccontextmanager
async def posting(
    port: int, *, replaceable: bool = False, behind_log: bool = True, **config: object
) -> AsyncIterator[MemoryInlet]:
    scheduler = LoopScheduler("http")
    virtual = cast(VirtualScheduler, scheduler)
    inlet = MemoryInlet(virtual, behind_log=behind_log, replaceable=replaceable)
    connector = HttpClient.model_validate({"url": f"http://127.0.0.1:{port}/in", "reconnect": QUICK, **config})
    async with started(connector.run(inlet, MemoryOutlet(virtual, linked=False)), scheduler):
        yield inlet


def origin(first: int, last: int) -> Origin:
    return Origin("log-1", first, last, 1)


async def test_an_event_is_a_request_and_acked_after_2xx() -> None:
    peer = Peer(200, 204)
    async with peer.listening() as port, posting(port) as inlet:
        inlet.give(inlet.lines_of(b'{"a":1}', b"2", origin=origin(7, 8)))
        await until(lambda: len(inlet.acked) == 2)
        assert [got.body for got in peer.got] == [b'{"a":1}', b"2"]
        assert {got.headers["Content-Type"] for got in peer.got} == {"application/json"}
        assert len(inlet.settled) == 1


def server_context(authority: Authority) -> ssl.SSLContext:
    """That lets in only clients whose certificate the authority has signed."""
    own = authority.issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own["cert"], own["key"])
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_by_tls_with_an_authority_and_a_certificate_of_its_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    peer = Peer()
    async with peer.listening(tls=server_context(authority)) as port:
        tls = {"cafile": authority.file, "domain": "localhost", **authority.issue("edge-1")}
        async with posting(port, url=f"https://127.0.0.1:{port}/in", tls=tls) as inlet:
            inlet.give(inlet.lines_of(b"1"))
            await until(lambda: inlet.acked)
    assert [got.body for got in peer.got] == [b"1"]


@pytest.mark.parametrize(
    ("trusts", "domain", "shows"),
    [("other", "localhost", True), ("ca", "example.org", True), ("ca", "localhost", False)],
    ids=["another authority", "another name", "no certificate of its own"],
)
async def test_a_peer_that_is_not_trusted_or_does_not_trust_gets_no_event(
    tmp_path: Path, trusts: str, domain: str, shows: bool
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    own = authority.issue("edge-1") if shows else {}
    peer = Peer()
    async with peer.listening(tls=server_context(authority)) as port:
        tls = {"cafile": {"ca": authority, "other": other}[trusts].file, "domain": domain, **own}
        async with posting(port, url=f"https://127.0.0.1:{port}/in", tls=tls) as inlet:
            inlet.give(inlet.lines_of(b"1"))
            await until(lambda: inlet.triggered)
            assert inlet.acked == []
    assert peer.got == []


@pytest.mark.parametrize(
    ("batch", "bodies"),
    [
        ("lines", [b'{"a": 1}\n2\n', b"3\n"]),
        ("array", [b'[{"a": 1},2]', b"[3]"]),
    ],
)
async def test_a_batch(batch: str, bodies: Sequence[bytes]) -> None:
    peer = Peer()
    async with peer.listening() as port, posting(port, batch=batch, max_batch_events=2) as inlet:
        pretty = inlet.block(b'\0\0\0\x08{"a":\n1}\0\0\0\x012', framing=MESSAGES)
        inlet.give(pretty, inlet.lines_of(b"3"))
        await until(lambda: len(inlet.settled) == 2)
        assert [got.body for got in peer.got] == bodies
        assert [json.loads(line) for got in peer.got for line in got.body.splitlines()]


async def test_a_batch_of_another_codec_is_rejected_with_the_reason() -> None:
    peer = Peer()
    async with peer.listening() as port, posting(port, batch="lines") as inlet:
        inlet.give(inlet.block(b"one\n", codec=STRING))
        await until(lambda: inlet.rejected)
        assert "wants the codec json" in inlet.rejected[0][1]
        assert peer.got == []


async def test_4xx_is_a_reject_with_the_first_line_of_its_body() -> None:
    peer = Peer(404)
    async with peer.listening() as port, posting(port) as inlet:
        inlet.give(inlet.lines_of(b"1", b"2"))
        await until(lambda: len(inlet.settled) == 1)
        assert inlet.rejected == [(b"1\n", "404 Not Found: a reason")]
        assert inlet.acked == [b"2\n"]


async def test_one_bad_event_of_a_batch_is_rejected_alone() -> None:
    class Picky(Peer):
        async def answer(self, request: web.Request) -> web.Response:
            self.got.append(Got(await request.read(), dict(request.headers)))
            return web.Response(status=400 if b"5" in self.got[-1].body.splitlines() else 200)

    peer = Picky()
    async with peer.listening() as port, posting(port, batch="lines") as inlet:
        inlet.give(inlet.lines_of(*(b"%d" % n for n in range(10)), origin=origin(1, 10)))
        await until(lambda: len(inlet.settled) == 1)
        assert [data for data, _ in inlet.rejected] == [b"5\n"]
        assert b"".join(inlet.acked) == b"0\n1\n2\n3\n4\n6\n7\n8\n9\n"
        assert len({got.key for got in peer.got}) == len(peer.got)


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504, 302])
async def test_what_may_be_answered_otherwise_later_is_sent_again_with_the_same_key(status: int) -> None:
    peer = Peer(*[status] * 8)
    async with peer.listening() as port, posting(port) as inlet:
        inlet.give(inlet.lines_of(b"1", b"2", origin=origin(1, 2)))
        await until(lambda: len(inlet.acked) == 2)
        assert [got.body for got in peer.got] == [b"1"] * 9 + [b"2"]  # in order
        assert len({got.key for got in peer.got}) == 2
        assert inlet.triggered
        assert inlet.breaker is None


class Poisoned(Peer):
    """Answers 500 to each request with one of these lines, and to all while `away`."""

    def __init__(self, *poison: bytes, status: int = 500) -> None:
        super().__init__()
        self.poison = {*poison}
        self.status = status
        self.away = False

    async def answer(self, request: web.Request) -> web.Response:
        self.got.append(Got(await request.read(), dict(request.headers)))
        bad = self.away or self.poison & {*self.got[-1].body.splitlines()}
        return web.Response(status=self.status if bad else 200, text="a reason")


async def test_the_poison_fails_alone_after_its_attempts_each_of_which_saw_another_pass() -> None:
    peer = Poisoned(b"1")
    # a log would get it back while nothing else comes
    async with peer.listening() as port, posting(port, attempts=3, behind_log=False) as inlet:
        inlet.give(inlet.lines_of(b"1", b"2"))
        await until(lambda: inlet.acked == [b"2\n"])
        for number in (b"3", b"4"):
            tries = len([got for got in peer.got if got.body == b"1"])
            await until(lambda tries=tries: len([got for got in peer.got if got.body == b"1"]) > tries)  # type: ignore[misc]
            assert inlet.failed == []
            inlet.give(inlet.lines_of(number))
            await until(lambda number=number: number + b"\n" in inlet.acked)  # type: ignore[misc]
        await until(lambda: inlet.failed)
        [(data, cause)] = inlet.failed
        assert data == b"1\n"
        assert re.fullmatch(r"500 Internal Server Error: a reason \(attempt \d+\)", cause)
        assert len({got.key for got in peer.got if got.body == b"1"}) == 1


async def test_500_to_all_is_a_sink_that_is_away_and_nothing_fails() -> None:
    peer = Poisoned()
    peer.away = True
    async with (
        peer.listening() as port,
        posting(port, behind_log=False, batch="lines", max_batch_events=4, attempts=1) as inlet,
    ):
        inlet.give(inlet.lines_of(*(b"%d" % n for n in range(8))))
        await until(lambda: len(peer.got) > 30)
        assert inlet.failed == []
        assert inlet.breaker is not None
        assert re.fullmatch(r"500 Internal Server Error: a reason \(\d+ in a row\)", inlet.breaker)
        assert inlet.lines.count("cannot deliver") == 1  # it was triggered all the time
        peer.away = False
        await until(lambda: len(inlet.settled) == 1)
        assert inlet.failed == inlet.rejected == []
        assert inlet.breaker is None


async def test_while_only_poison_is_in_hand_the_sources_may_send_and_the_breaker_stays_triggered() -> None:
    peer = Poisoned(b"1")
    async with peer.listening() as port, posting(port, behind_log=False) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.half_opened)
        assert inlet.breaker is not None
        inlet.give(inlet.lines_of(b"2"))
        await until(lambda: inlet.acked)
        assert inlet.failed == []


async def test_behind_a_log_that_may_send_no_more_it_hands_back_what_failed() -> None:
    """All that it has in hand has failed, and nothing new comes: the log has sent as many as may be unacked. The
    breaker stays triggered, half open, so that the log sends others."""
    peer = Poisoned(b"1")
    async with peer.listening() as port, posting(port) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.failed)
        assert inlet.breaker is not None
        assert inlet.half_opened
        inlet.give(inlet.lines_of(b"2"))
        await until(lambda: inlet.acked)
        assert inlet.breaker is None


async def test_while_the_server_is_away_what_comes_shuts_the_sources_again() -> None:
    peer = Poisoned()
    peer.away = True
    async with peer.listening() as port, posting(port) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.half_opened)
        inlet.give(inlet.lines_of(b"2"))
        assert not inlet.half_opened
        assert inlet.breaker is not None
        await until(lambda: b"2" in [got.body for got in peer.got])


async def test_one_poison_of_a_batch_keeps_no_neighbour() -> None:
    peer = Poisoned(b"7")
    async with peer.listening() as port, posting(port, batch="lines", max_batch_events=100) as inlet:
        inlet.give(inlet.lines_of(b"7", *(b"%d" % n for n in range(10, 510))))
        await until(lambda: sum(data.count(b"\n") for data in inlet.acked) == 500)
        assert not any(b"\n7\n" in b"\n" + data for data in inlet.acked)
        assert {data for data, _ in inlet.failed} <= {b"7\n"}
        assert len(peer.got) < 100


async def test_a_batch_that_is_all_there_is_passes_but_for_the_poison() -> None:
    peer = Poisoned(b"37")
    async with peer.listening() as port, posting(port, batch="lines", behind_log=False) as inlet:
        inlet.give(inlet.lines_of(*(b"%d" % n for n in range(100))))
        await until(lambda: sum(data.count(b"\n") for data in inlet.acked) == 99)
        assert inlet.failed == []


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_server_that_an_event_ends_takes_the_others(status: int) -> None:
    peer = Poisoned(b"1", status=status)
    async with peer.listening() as port, posting(port) as inlet:
        inlet.give(inlet.lines_of(b"1", b"2", b"3"))
        await until(lambda: len(inlet.acked) == 2)


async def test_a_server_that_never_answers_one_event_takes_the_others() -> None:
    class Hung(Peer):
        async def answer(self, request: web.Request) -> web.Response:
            if await request.read() == b"1":
                await asyncio.Event().wait()
            return web.Response()

    async with Hung().listening() as port, posting(port, timeout=300_000_000) as inlet:
        inlet.give(inlet.lines_of(b"1", b"2"))
        await until(lambda: inlet.acked == [b"2\n"])


async def test_an_event_with_an_equal_value_does_not_overtake_the_poison_and_others_do() -> None:
    peer = Poisoned(b'{"u":1,"n":0}')
    events = [b'{"u":%d,"n":%d}' % (1 + number % 2, number) for number in range(6)]
    async with peer.listening() as port, posting(port, order_by="u", concurrency=2, attempts=99) as inlet:
        inlet.give(inlet.lines_of(*events))
        await until(lambda: len(inlet.acked) == 3)
        assert inlet.acked == [event + b"\n" for event in events[1::2]]


async def test_a_rejected_event_says_how_often_it_had_failed() -> None:
    peer = Peer(500, 404)
    async with peer.listening() as port, posting(port) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.rejected)
        assert inlet.rejected == [(b"1\n", "404 Not Found: a reason (attempt 2)")]


async def test_a_connection_that_breaks_and_a_server_that_is_away() -> None:
    peer = Peer(ConnectionResetError(), ConnectionResetError())
    async with peer.listening() as port:
        async with posting(port) as inlet:
            inlet.give(inlet.lines_of(b"1"))
            await until(lambda: inlet.acked)
            assert len(peer.got) == 3
    async with posting(port) as inlet:
        inlet.give(inlet.lines_of(b"2"))
        await until(lambda: inlet.breaker)
        assert "cannot deliver" in inlet.lines
        assert inlet.failed_tries[0] == f"cannot connect to 127.0.0.1:{port}: Connection refused"
        async with peer.listening(port):
            await until(lambda: inlet.acked)
        assert inlet.breaker is None


@pytest.mark.test
async def test_retry_after_is_waited_for() -> None:
    peer = Peer(web.Response(status=503, headers={"Retry-After": "1"}))
    async with peer.listening() as port, posting(port) as inlet:
        begun = asyncio.get_running_loop().time()
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.acked)
        assert asyncio.get_running_loop().time() - begun >= 1.0


@pytest.mark.test
async def test_retry_after_is_by_the_servers_clock() -> None:
    year = "Thu, 01 Jan 1970 00:00:0"
    peer = Peer(web.Response(status=503, headers={"Date": f"{year}1 GMT", "Retry-After": f"{year}2 GMT"}))
    async with peer.listening() as port, posting(port) as inlet:
        begun = asyncio.get_running_loop().time()
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.acked)
        assert asyncio.get_running_loop().time() - begun >= 1.0


async def test_no_answer_in_time() -> None:
    peer = Peer()
    peer.hold = asyncio.Event()
    async with peer.listening() as port, posting(port, timeout=300_000_000) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: inlet.breaker)
        assert inlet.breaker == "no answer within 0.3 s (2 in a row)"
        peer.hold.set()
        await until(lambda: inlet.acked)


async def test_when_it_stops_what_has_no_answer_fails() -> None:
    peer = Peer()
    peer.hold = asyncio.Event()
    async with peer.listening() as port:
        async with posting(port) as inlet:
            inlet.give(inlet.lines_of(b"1", b"2"))
            await until(lambda: peer.at_once == 1)
        assert sorted(data for data, _ in inlet.failed) == [b"1\n", b"2\n"]
        peer.hold.set()


async def test_concurrency_bounds_how_many_wait() -> None:
    peer = Peer()
    peer.hold = asyncio.Event()
    async with peer.listening() as port, posting(port, concurrency=4) as inlet:
        inlet.give(inlet.lines_of(*(b"%d" % n for n in range(20))))
        await until(lambda: peer.at_once == 4)
        peer.hold.set()
        await until(lambda: len(inlet.settled) == 1)
        assert peer.most_at_once == 4
        assert sorted(int(got.body) for got in peer.got) == list(range(20))


async def test_keys_are_of_the_log_and_the_position_and_stay_over_a_restart() -> None:
    keys: list[list[str]] = []
    peer = Peer()
    async with peer.listening() as port:
        for _ in range(2):
            peer.got.clear()
            async with posting(port) as inlet:
                inlet.give(inlet.lines_of(b"1", b"1", origin=origin(4, 5)))
                await until(lambda inlet=inlet: len(inlet.acked) == 2)  # type: ignore[misc]
            keys.append([got.key for got in peer.got])
    assert keys[0] == keys[1]
    assert keys[0][0].startswith("log-1-4.0")
    assert keys[0][0] != keys[0][1]


def test_events_made_of_one_position_have_keys_of_their_own() -> None:
    inlet = MemoryInlet(VirtualScheduler())
    for positions in ([4, 4, 5], None):  # None: a filter has removed some
        block = inlet.lines_of(b"1", b"1", b"1", origin=origin(4, 5))
        block.positions = positions
        made = parcels([block], 1, 1 << 20)
        assert len({parcel.key for parcel in made}) == 3
        for parcel in made:
            inlet.ack(parcel.blocks[0])


def test_a_key_is_the_same_for_a_part_of_a_block() -> None:
    inlet = MemoryInlet(VirtualScheduler())
    keys: list[list[str]] = []
    for sizes in ([7], [2, 3, 2]):
        block = inlet.lines_of(*[b"%d" % number for number in (1, 1, 1, 2, 3, 3, 4)], origin=origin(4, 9))
        block.positions = [4, 4, 5, 5, 5, 7, 9]
        keys.append([])
        for part in block.split(sizes):
            for parcel in parcels([part], 1, 1 << 20):
                keys[-1].append(parcel.key)
                inlet.ack(parcel.blocks[0])
    assert keys[0] == keys[1]
    assert len({*keys[0]}) == 7


async def test_a_token_is_read_at_each_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    peer = Peer()
    async with peer.listening() as port, posting(port, token={"file": str(file)}, headers={"X-Tag": "a"}) as inlet:
        inlet.give(inlet.lines_of(b"1"))
        await until(lambda: len(inlet.acked) == 1)
        file.write_text("two\n")
        inlet.give(inlet.lines_of(b"2"))
        await until(lambda: len(inlet.acked) == 2)
        assert [got.headers["Authorization"] for got in peer.got] == ["Bearer one", "Bearer two"]
        assert peer.got[0].headers["X-Tag"] == "a"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"url": "ftp://h/"}, "is not http://"),
        ({"url": "h:1"}, "is not http://"),
        ({"url": "http://h:x/"}, "is no URL"),
        ({"url": "http://a:b@h/"}, "name a file in `token`"),
        ({"url": "http://h/ "}, "holds what no URL can hold"),
        ({"url": "http://h/", "tls": True}, "write https://"),
        ({"url": "http://h/", "headers": {"Content-Length": "1"}}, "is set by the connector"),
        ({"url": "http://h/", "headers": {"X Y": "1"}}, "is no name of a header"),
        ({"url": "http://h/", "headers": {"X": "1\r\nY: 2"}}, "holds what no header can hold"),
        ({"url": "http://h/", "token": "t", "headers": {"Authorization": "t"}}, "name one"),
    ],
)
def test_configurations_that_are_refused(config: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError, match=line):
        HttpClient.model_validate(config)


def test_what_is_warned_of() -> None:
    def warnings(**config: object) -> str:
        return "; ".join(HttpClient.model_validate(config).guarantee(behind_log=True).warnings)

    assert warnings(url="http://h/") == ""
    assert "token goes to" in warnings(url="http://h/", token={"env": "T"})
    assert warnings(url="https://h/", token={"env": "T"}) == ""
    assert "token stands in the flow file" in warnings(url="https://h/", token="t")
    assert "Authorization" in warnings(url="https://h/", headers={"Authorization": "t"})
    assert HttpClient(url="http://h/").guarantee(behind_log=False).warnings


@pytest.mark.parametrize("batch", ["event", "lines"])
async def test_events_of_one_value_are_sent_in_their_order(batch: str) -> None:
    peer = Peer(*[500, 200, 503] * 5)
    peer.hold = asyncio.Event()
    events = [f'{{"user":{{"id":{number % 7}}},"n":{number}}}'.encode() for number in range(140)]
    config: dict[str, Any] = {"batch": batch, "max_batch_events": 3, "concurrency": 4, "order_by": "user.id"}
    async with peer.listening() as port, posting(port, **config) as inlet:
        inlet.give(inlet.lines_of(*events[:70]), inlet.lines_of(*events[70:]))
        await until(lambda: peer.at_once > 1)
        peer.hold.set()
        await until(lambda: len(inlet.settled) == 2)
        got = [json.loads(line) for one in peer.got for line in one.body.splitlines()]
    for user in range(7):
        numbers = [event["n"] for event in got if event["user"]["id"] == user]
        assert list(dict.fromkeys(numbers)) == [number for number in range(140) if number % 7 == user]


def test_lanes_keep_what_is_equal_together_and_events_without_it_too() -> None:
    inlet = MemoryInlet(VirtualScheduler())
    block = inlet.lines_of(
        b'{"a":{"b":1}}',
        b'{"a":1}',
        b"2",
        b'{"a":{"b":1}}',
        b'{"a":{"b":{"x":1,"y":2}}}',
        b'{"a":{"b":{"y":2,"x":1}}}',
    )
    made = lanes([block], ["a", "b"], 1000)
    assert sorted(sum(part.frames.count for part in lane) for lane in made.values()) == [2, 2, 2]
    for part in [part for lane in made.values() for part in lane]:
        part.receipt.ack()
    assert len(inlet.settled) == 1


async def test_an_order_by_members_wants_json() -> None:
    peer = Peer()
    async with peer.listening() as port, posting(port, order_by="a", concurrency=2) as inlet:
        inlet.give(inlet.block(b"text\n", codec=STRING))
        await until(lambda: inlet.rejected)
        assert "order_by wants the codec json" in inlet.rejected[0][1]
