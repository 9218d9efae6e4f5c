"""What a tap shows of the blocks that pass, without a daemon. With one: tests/system/test_tap.py."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from walflow import Block, Codec, Frames, Receipt, StreamId
from walflow.admin.tap import NotAnExpression, OpenTap, TapRules, condition
from walflow.admin.tap.rules import parse_path
from walflow.admin.tap.sampler import HELD, Sampler
from walflow.admin.taps import MOST, Taps
from walflow.codecs import JSON, MSGPACK, STRING
from walflow.framing import LINES, WHOLE
from walflow.lang.config import NodeId
from walflow.nodes.ports import PortName, WatchedPorts

PORT = PortName(NodeId("main", "connector", "in"), "out")


def block(
    *events: bytes,
    codec: Codec = JSON,
    meta: dict[str, object] | None = None,
    metas: Sequence[Mapping[str, object]] | None = None,
    position: int | None = None,
) -> Block:
    framing = LINES if codec is JSON else WHOLE
    frames = Frames(framing.join(events), len(events), framing)
    return Block(
        StreamId("main::in", 1, 3),
        frames,
        codec,
        Receipt(lambda receipt: None, len(events)),
        ingest_ns=1_000_000_000,
        meta=meta or {},
        event_metas=metas,
        positions=None if position is None else range(position, position + len(events)),
    )


class Taker:
    def accept(self, block: Block) -> None:
        block.receipt.ack()


class Flow:
    """One port, with a tap."""

    def __init__(self, rules: str = "", *, where: str = "", limit: int = 1000, raw: bool = False) -> None:
        self.ports = WatchedPorts()
        self.port = self.ports.add(PORT, Taker())
        self._rules = TapRules(True, [parse_path(one) for one in rules.split()])
        self._more: dict[str, Any] = {"limit": limit, "raw": raw, "where": condition(where) if where else None}

    async def shown(self, *blocks: Block) -> list[dict[str, Any]]:
        """The lines until the first count, which is the last of them."""
        lines: list[dict[str, Any]] = []
        tap = OpenTap(self.ports, [PORT], self._rules, every=0, **self._more)
        with tap:
            async with aclosing(tap.lines()) as found:
                asyncio.get_running_loop().call_soon(self._send, blocks)
                async for some in found:
                    lines += [json.loads(line) for line in some.splitlines()]
                    if "counts" in lines[-1]:
                        return lines
        raise AssertionError

    def _send(self, blocks: Sequence[Block]) -> None:
        for one in blocks:
            self.port.accept(one)

    async def events(self, *blocks: Block) -> list[Any]:
        return [line.get("event") for line in (await self.shown(*blocks))[:-1]]


async def test_an_event_with_all_that_is_known_of_it() -> None:
    one = block(b'{"a": 1}', b"[2]", meta={"peer": "h"}, metas=[{}, {"own": 1}], position=8)
    first, second, last = await Flow().shown(one)
    head = {"port": "main/in/out", "received": "1970-01-01T00:00:01.000Z", "stream": 3}
    assert first == {**head, "position": 8, "meta": {"peer": "h"}, "event": {"a": 1}}
    assert second == {**head, "position": 9, "meta": {"peer": "h", "own": 1}, "event": [2]}
    counts = last["counts"]
    assert (counts["events"], counts["bytes"], counts["shown"]) == (2, 13, 2)


async def test_no_more_than_the_limit() -> None:
    *events, last = await Flow(limit=3).shown(*(block(b"1", b"2") for _ in range(50)))
    assert len(events) == 3
    assert last["counts"]["events"] == 100


async def test_a_limit_of_none_only_counts() -> None:
    [last] = await Flow(limit=0).shown(block(b"1", b"2"))
    assert (last["counts"]["events"], last["counts"]["shown"]) == (2, 0)


async def test_only_events_for_which_the_condition_is_true() -> None:
    flow = Flow(where='event.n > 1 and string::len(event.s) == 1 and $own == "x"')
    events = [b'{"n": %d, "s": "a"}' % n for n in range(4)] + [b"7"]
    *shown, last = await flow.shown(block(*events, metas=[{"own": "x"}] * 3 + [{"own": "y"}] * 2))
    assert [line["event"]["n"] for line in shown] == [2]
    counts = last["counts"]
    assert (counts["examined"], counts["matched"], counts["failed"]) == (5, 1, 1)
    assert counts["reason"]


async def test_the_events_of_a_large_block_keep_their_positions() -> None:
    events = [b'{"n":%d}' % n for n in range(500)]
    *shown, _ = await Flow(where="event.n % 100 == 99").shown(block(*events, position=1000))
    assert [line["position"] for line in shown] == [1099, 1199, 1299, 1399, 1499]


@pytest.mark.parametrize(
    ("path", "event", "shown"),
    [
        ("event", {"a": 1}, "redacted"),
        ("event.a", {"a": {"b": 1}, "b": 2}, {"a": "redacted", "b": 2}),
        ("event.a.b", {"a": {"b": 1, "c": 2}}, {"a": {"b": "redacted", "c": 2}}),
        ("event.a.b", {"a": [{"b": 1}, {"c": 1}, 3]}, {"a": [{"b": "redacted"}, {"c": 1}, 3]}),
        ("event.*", {"a": 1, "b": [1]}, {"a": "redacted", "b": "redacted"}),
        ("event.*.k", {"a": {"k": 1}, "b": 3}, {"a": {"k": "redacted"}, "b": 3}),
        ("event.a", [{"a": 1}], [{"a": "redacted"}]),
        ("event.a", "text", "text"),
        ("$peer", {"peer": 1}, {"peer": 1}),
    ],
)
async def test_a_redacted_path(path: str, event: object, shown: object) -> None:
    assert await Flow(path).events(block(JSON.encode(event))) == [shown]


async def test_a_redacted_path_of_the_metadata() -> None:
    one = block(b"1", meta={"peer": {"host": "h", "port": 1}})
    [event, _] = await Flow("$peer.host").shown(one)
    assert event["meta"] == {"peer": {"host": "redacted", "port": 1}}


async def test_the_event_of_an_error_is_redacted() -> None:
    error = block(b'{"error":"no","event":{"a":1,"b":2}}', meta={"rejected": True})
    [event, _] = await Flow("event.a").shown(error)
    assert event["event"] == {"error": "no", "event": {"a": "redacted", "b": 2}}


@pytest.mark.parametrize("member", ["text", "bytes"])
async def test_what_came_and_is_no_event_is_redacted_whole(member: str) -> None:
    """A member cannot be found in it. What is redacted of the metadata alone leaves it as it is."""
    error = block(b'{"error":"no","%b":"pin=1"}' % member.encode(), meta={"rejected": True})
    [event, _] = await Flow("event.pin").shown(error)
    assert event["event"] == {"error": "no", member: "redacted"}
    [event, _] = await Flow("$peer.host").shown(error)
    assert event["event"] == {"error": "no", member: "pin=1"}


async def test_a_condition_cannot_ask_for_what_is_redacted() -> None:
    events = block(b'{"pin":1}', b'{"pin":2}')
    assert await Flow("event.pin", where="event.pin == 1").events(events) == []
    metas = block(b"1", metas=[{"pin": 1}])
    assert await Flow("$pin", where="$pin == 1").events(metas) == []


async def test_other_codecs() -> None:
    assert await Flow().events(block(b"text", codec=STRING)) == ["text"]
    assert await Flow().events(block(MSGPACK.encode({"a": 1}), codec=MSGPACK)) == [{"a": 1}]


async def test_bytes_as_they_came() -> None:
    [event, _] = await Flow(raw=True).shown(block(b'{"a":  1}'))
    assert event["bytes"] == "eyJhIjogIDF9"


async def test_what_has_no_json_form() -> None:
    deep = block(b"[" * 512 + b"]" * 512)
    [event, _] = await Flow().shown(deep)
    assert "bytes" in event
    [event, _] = await Flow("event.a").shown(deep)
    assert event["omitted"] == "it has no JSON form, so nothing can be redacted"


async def test_an_event_that_is_too_large_is_named() -> None:
    [event, _] = await Flow().shown(block(b'"' + b"x" * (300 << 10) + b'"'))
    assert event["omitted"] == "an event of 307,202 bytes; the most that is shown is 262,144"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("evnt.a", "--where:1:1: error: unknown constant `evnt`"),
        ("event.a == ", "--where:1:12: error: expected a value, found the end"),
        ('event.a = "b"', "--where:1:9: error: `=` does not stand here"),
        ("1; select 2 from in", "--where:1:2: error"),
        ("true into out; select event from in", "--where takes one expression"),
        ("strin::len(event) > 1", "--where:1:1: error"),
        ("", "--where:1:1: error"),
    ],
)
def test_what_is_no_condition_is_shown_with_its_place(text: str, said: str) -> None:
    with pytest.raises(NotAnExpression) as raised:
        condition(text)
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ["", "evnt.a", "event..a", "event.a.", "a", "$.a."])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="is no path of an event"):
        parse_path(text)


def see(sampler: Sampler, one: Block) -> None:
    sampler.see(PORT, one)
    one.receipt.ack()


def test_a_sampler_that_is_not_asked_holds_nothing() -> None:
    arrived: list[None] = []
    sampler = Sampler(lambda: arrived.append(None))
    see(sampler, block(b"1"))
    assert (sampler.take(), sampler.events, arrived) == ([], 1, [])
    sampler.want(2)
    for _ in range(5):
        see(sampler, block(b"1"))
    assert (len(sampler.take()), sampler.events) == (2, 6)


def test_a_sampler_holds_so_many_bytes_at_most() -> None:
    sampler = Sampler(lambda: None)
    sampler.want(1000)
    for _ in range(9):
        see(sampler, block(b"1" * (HELD // 4 - 1)))
    assert sum(len(taken.frames) for taken in sampler.take()) == HELD


async def test_a_tap_that_is_not_read_holds_up_nothing() -> None:
    flow = Flow()
    tap = OpenTap(flow.ports, [PORT], TapRules(True), limit=10)
    lines: AsyncGenerator[bytes] = tap.lines()
    with tap:
        async with aclosing(lines):
            asyncio.get_running_loop().call_soon(flow.port.accept, block(b"0"))
            await anext(lines)  # and never again
            for _ in range(1000):
                flow.port.accept(block(b"1"))
    assert flow.port.watchers == ()


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("(for event.a of case (i, e) => e end) == [1]", "no `for`"),
        ("event.a == range::range(event.b, 1000000)", "no `range::range`"),
        ("array::contains(range::range(0, 1000000), event.a)", "no `range::range`"),
        ('string::replace(event.a, "", event.b) == ""', "no `string::replace`"),
        ("event.a == 1" + " or event.a == 1" * 70, "at most 1,024 characters"),
    ],
)
def test_a_condition_that_may_take_more_steps_than_an_event_has_bytes(where: str, says: str) -> None:
    with pytest.raises(NotAnExpression, match=says):
        condition(where)


@pytest.mark.parametrize(
    "text", ["[{}] == event.a", '"{}" == event.a', '{{"a": [{}]}} == event.a', "not ([{}] == 1)"]
)
def test_what_a_condition_would_make_while_it_is_read_is_not_made(text: str) -> None:
    """38 lists of a million numbers took 24 s and 4 GB of the daemon."""
    many = ("#{{{}}}" if text.startswith('"') else "{}").format("range :: range(0, 1000000)")
    tracemalloc.start()
    try:
        with pytest.raises(NotAnExpression, match="no `range::range`"):
            condition(text.format(", ".join([many] * 25)) + " or range::contains(1, 2)")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


async def test_a_large_event_is_not_judged_by_a_long_condition() -> None:
    long = "event.n == 1" + " and event.big == event.big" * 30
    large = b'{"n":1,"big":"' + b"x" * 10_000 + b'"}'
    *shown, last = await Flow(where=long).shown(block(b'{"n":1,"big":2}', large, b'{"n":1,"big":3}', position=5))
    assert [line["position"] for line in shown] == [5, 7]
    counts = last["counts"]
    assert (counts["examined"], counts["matched"], counts["failed"]) == (3, 2, 1)
    assert "judges no event of more than" in counts["reason"]


async def test_no_more_taps_than_allowed_are_open_while_their_conditions_are_read() -> None:
    """All ask at once, and each condition is read in a thread meanwhile."""
    ports = WatchedPorts()
    ports.add(PORT, Taker())
    taps = Taps(ports, TapRules(True))
    application = web.Application()
    application.router.add_get("/tap", taps.answer)
    client: TestClient[web.Request, web.Application] = TestClient(TestServer(application))
    async with client:
        asked = [client.get("/tap", params={"at": "main", "where": "event.n > 1"}) for _ in range(12)]
        answers = await asyncio.gather(*asked)
        codes = sorted(answer.status for answer in answers)
        assert codes == [200] * MOST + [503] * (12 - MOST)
        assert taps.open() == MOST
        taps.close()
    assert taps.open() == 0


async def test_a_tap_that_counts_as_open_shows_what_comes_next() -> None:
    """It was counted while its condition was still compiled. Events that passed then were not shown."""
    ports = WatchedPorts()
    port = ports.add(PORT, Taker())
    taps = Taps(ports, TapRules(True))
    application = web.Application()
    application.router.add_get("/tap", taps.answer)
    client: TestClient[web.Request, web.Application] = TestClient(TestServer(application))
    async with client:
        asked = asyncio.create_task(client.get("/tap", params={"at": "main", "where": "event.n > 1"}))
        while not taps.open():  # noqa: ASYNC110  # the daemon has no event for it, and an operator asks too
            await asyncio.sleep(0)
        port.accept(block(b'{"n":2}'))
        answer = await asked
        assert json.loads(await answer.content.readline()) == {"ports": [str(PORT)]}
        assert json.loads(await answer.content.readline())["event"] == {"n": 2}
        taps.close()
