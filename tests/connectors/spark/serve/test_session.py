"""The conversation, with the client that Spark has and with peers that say what they like."""

import asyncio
import os
import re
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from connectors.spark.serve.link import FROM_CLIENTS, ReceivedFrames
from pyspark_walflow import wire
from pyspark_walflow.wire import PREFACE, Code, Damaged, FrameKind, RequestRefused, Right, WireKey
from tests.connectors.spark.bridge_world import TOKEN, Peer, Raw, World, lines_of
from walflow.wal.tools.inspect.view import look

NONCE = "0123456789abcdef"
HELLO = {"version": 1, "right": "full", "nonce": NONCE, "log": None}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path / "log").running() as world:
        yield world


async def prove(raw: Raw, key: WireKey) -> tuple[FrameKind, dict[str, object]]:
    raw.send(PREFACE + wire.control(FrameKind.HELLO, {**HELLO, "right": key.right}))
    kind, challenge = await raw.frame()
    assert kind == FrameKind.CHALLENGE
    raw.send(wire.control(FrameKind.PROOF, {"proof": wire.prove(key, "client", NONCE, str(challenge["nonce"]))}))
    return await raw.frame()


async def test_a_log_is_read_and_committed(world: World) -> None:
    await world.give(b"1", b"2", b"3")
    await world.give(b"4", b"5")
    peer = await world.client()
    assert await peer.call(FrameKind.HEAD) == {"log": peer.log, "floor": 1, "next": 6}
    assert await peer.call(FrameKind.LEASE, consumer="spark", lease="a") == {"committed": 1}
    assert (await peer.call(FrameKind.PLAN, start=1, rows=4, bytes=1 << 20))["end"] == 5
    assert (await peer.call(FrameKind.PLAN, start=1, rows=9, bytes=1))["end"] == 4  # a record at least
    assert 100 < int(str((await peer.call(FrameKind.PLAN, start=1, end=6))["bytes"])) < 300
    assert await peer.call(FrameKind.PLAN, start=6, rows=9, bytes=9) == {"end": 6, "bytes": 0}
    assert (await peer.read(1, 6)).lines == {1: b"1", 2: b"2", 3: b"3", 4: b"4", 5: b"5"}
    assert (await peer.read(4, 5)).lines == {4: b"4", 5: b"5"}
    assert (await peer.read(3, 3)).lines == {}
    assert await peer.call(FrameKind.COMMIT, consumer="spark", position=4) == {"committed": 4}
    assert await peer.call(FrameKind.COMMIT, consumer="spark", position=2) == {"committed": 4}
    assert await peer.call(FrameKind.HEAD, consumer="spark") == {
        "log": peer.log,
        "floor": 4,
        "next": 6,
        "committed": 4,
        "scan": "",
    }
    assert world.outlet.counters["spark_served_events_total"].value == 6
    assert world.outlet.gauges["spark_lag_events spark"]() == 2
    assert world.outlet.gauges["spark_owed_events spark"]() == 2
    assert world.outlet.gauges["spark_sessions"]() == 1
    peer.close()
    await world.until(lambda: world.outlet.gauges["spark_sessions"]() == 0)


async def test_waiting_ends_with_the_first_event_or_with_its_time(world: World) -> None:
    peer = await world.client()
    assert (await peer.call(FrameKind.WAIT, position=1, ms=1))["next"] == 1
    waiting = asyncio.ensure_future(peer.call(FrameKind.WAIT, position=1, ms=10_000))
    await world.give(b"1")
    assert (await waiting)["next"] == 2
    assert (await peer.call(FrameKind.WAIT, position=1, ms=10_000))["next"] == 2
    peer.close()


async def test_a_wait_ends_with_its_peer(world: World) -> None:
    raw = await world.raw()
    await prove(raw, WireKey.of_token(TOKEN))
    raw.send(wire.control(FrameKind.WAIT, {"position": 1, "ms": 10_000}))
    raw.reset()
    await world.until(lambda: world.outlet.gauges["spark_sessions"]() == 0)


LONG = wire.HEADER.pack(4097, 0, FrameKind.HELLO)
WRONG_SUM = wire.HEADER.pack(2, 1, FrameKind.HELLO) + b"{}"
DEEP = wire.frame(FrameKind.HELLO, b"[" * 4000)


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        (b"hello\n", Code.PROTOCOL, "it began with b'hello"),
        (b"\x16\x03\x01\x02\x00", Code.PROTOCOL, "it wants TLS"),
        (PREFACE + LONG, Code.PROTOCOL, "a frame of 4097 bytes, where 4096 are the most"),
        (PREFACE + WRONG_SUM, Code.PROTOCOL, "wrong checksum"),
        (PREFACE + wire.frame(FrameKind.OK), Code.PROTOCOL, "kind 50, which no client sends"),
        (PREFACE + wire.HEADER.pack(2, 1, 99), Code.PROTOCOL, "kind 99"),
        (PREFACE + wire.frame(FrameKind.HELLO, b"{"), Code.PROTOCOL, "not JSON"),
        (PREFACE + wire.frame(FrameKind.HELLO, b"[]"), Code.PROTOCOL, "not a JSON object"),
        (PREFACE + DEEP, Code.PROTOCOL, "not JSON" if sys.version_info >= (3, 13) else "nested too deeply"),
        (PREFACE + wire.control(FrameKind.HEAD, {}), Code.PROTOCOL, "HEAD where HELLO should be"),
        (PREFACE + wire.control(FrameKind.HELLO, {**HELLO, "version": 2}), Code.VERSION, "upgrade walflow"),
        (PREFACE + wire.control(FrameKind.HELLO, {**HELLO, "version": 0}), Code.VERSION, "upgrade pyspark_walflow"),
        (
            PREFACE + wire.control(FrameKind.HELLO, {**HELLO, "version": "1"}),
            Code.PROTOCOL,
            "`version` must be a whole",
        ),
        (PREFACE + wire.control(FrameKind.HELLO, {**HELLO, "nonce": "\0"}), Code.PROTOCOL, "hexadecimal"),
        (PREFACE + wire.control(FrameKind.HELLO, {**HELLO, "right": "root"}), Code.PROTOCOL, "no right 'root'"),
    ],
)
async def test_a_bad_beginning_is_one_line_to_both(world: World, said: bytes, code: str, reason: str) -> None:
    raw = await world.raw()
    raw.send(said)
    kind, fields = await raw.frame()
    assert (kind, fields["code"]) == (FrameKind.ERROR, code)
    assert reason in str(fields["message"])
    assert await raw.rest() == b""
    (line,) = world.said("refused")
    assert line["code"] == code
    assert line["reason"] == fields["message"]
    assert world.outlet.counters["spark_refused_total"].value == 1
    await raw.close()


async def test_an_http_client_is_told_so_in_its_own_words(world: World) -> None:
    raw = await world.raw()
    raw.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await raw.rest()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"does not speak HTTP" in answer
    assert "HTTP client" in str(world.said("refused")[0]["reason"])
    await raw.close()


async def test_the_wrong_token_is_denied(world: World) -> None:
    with pytest.raises(RequestRefused, match="the token is not this log's") as refused:
        await world.client(WireKey.of_token("guessed"))
    assert refused.value.code == Code.DENIED
    assert world.refusals() == [Code.DENIED]


async def test_a_ticket_of_another_log_or_right_is_denied(world: World) -> None:
    token = WireKey.of_token(TOKEN)
    for ticket in (
        token.ticket(Right.READ, "another log"),
        WireKey(Right.STAGE, token.ticket(Right.READ, "x").secret),
    ):
        with pytest.raises(RequestRefused, match="the ticket is not this log's"):
            await world.client(ticket)


@pytest.mark.parametrize("proof", ["", "\ud800", "é" * 64, "0" * 64, 7, None, ["0"]])
async def test_whatever_is_no_proof_is_a_wrong_one(world: World, proof: object) -> None:
    raw = await world.raw()
    raw.send(PREFACE + wire.control(FrameKind.HELLO, HELLO))
    await raw.frame()
    raw.send(wire.control(FrameKind.PROOF, {"proof": proof}))
    kind, fields = await raw.frame()
    assert (kind, fields["code"]) == (FrameKind.ERROR, Code.DENIED)
    assert await raw.rest() == b""
    assert world.refusals() == [Code.DENIED]
    await raw.close()


async def test_the_wrong_log_is_refused_after_the_proof_alone(world: World) -> None:
    with pytest.raises(RequestRefused, match="a checkpoint belongs to the log that it began with") as refused:
        await world.client(log="f" * 32)
    assert refused.value.code == Code.WRONG_LOG
    with pytest.raises(RequestRefused, match="token"):
        await world.client(WireKey.of_token("guessed"), log="f" * 32)


async def test_who_proves_nothing_in_time_is_closed(tmp_path: Path) -> None:
    async with World(tmp_path / "log", handshake_timeout=50_000_000).running() as world:
        for said in (b"", PREFACE[:5], PREFACE + wire.control(FrameKind.HELLO, HELLO)):
            raw = await world.raw()
            raw.send(said)
            assert b"no proof of the token within" in await raw.rest()
            await raw.close()
        assert world.refusals() == [Code.PROTOCOL] * 3


async def test_a_place_is_taken_from_who_proved_nothing(tmp_path: Path) -> None:
    async with World(tmp_path / "log", max_connections=2).running() as world:
        peer = await world.client()
        silent = await world.raw()
        await world.until(lambda: len(asyncio.all_tasks()) > 4)
        other = await world.client()
        assert await silent.rest() == b""
        assert "its place was wanted" in str(world.said("refused")[0]["reason"])
        with pytest.raises(RequestRefused, match="2 connections are open") as refused:
            await world.client()
        assert refused.value.code in Code.RETRY
        assert await peer.call(FrameKind.HEAD)
        assert await other.call(FrameKind.HEAD)
        for one in (peer, other):
            one.close()
        await silent.close()


async def said_to(peer: Peer, kind: FrameKind, fields: dict[str, object]) -> RequestRefused | None:
    try:
        await peer.call(kind, **fields)
    except RequestRefused as error:
        return error
    return None


@pytest.mark.parametrize("right", [Right.READ, Right.STAGE])
async def test_a_ticket_opens_what_it_is_for_and_no_more(world: World, right: str) -> None:
    await world.give(b"1")
    whole = await world.client()
    peer = await world.client(WireKey.of_token(TOKEN).ticket(right, whole.log))
    commands: dict[FrameKind, dict[str, object]] = {
        FrameKind.HEAD: {},
        FrameKind.WAIT: {"position": 0, "ms": 0},
        FrameKind.PLAN: {"start": 1, "rows": 1, "bytes": 1},
        FrameKind.LEASE: {"consumer": "spark", "lease": "a"},
        FrameKind.COMMIT: {"consumer": "spark", "position": 2},
        FrameKind.PUBLISH: {"query": "q", "batch": 0, "names": []},
        FrameKind.ABORT: {"names": []},
    }
    may: list[FrameKind] = []
    for kind, fields in commands.items():
        said = await said_to(peer, kind, fields)
        if said is None:
            may.append(kind)
        else:
            assert said.code == Code.DENIED
            assert "needs the token" in str(said)
    assert may == ([FrameKind.HEAD, FrameKind.PLAN] if right == Right.READ else [])
    if right == Right.READ:
        assert (await peer.read(1, 2)).lines == {1: b"1"}
        with pytest.raises(RequestRefused, match="STAGE needs the token"):
            await asyncio.to_thread(peer.client.stage, "n", iter([b"1\n"] * 3))
        assert await peer.call(FrameKind.HEAD)  # what was to be staged is no request
    else:
        with pytest.raises(RequestRefused, match="READ needs the token"):
            await peer.read(1, 2)
        with pytest.raises(RequestRefused, match="nothing is linked"):
            await asyncio.to_thread(peer.client.stage, "n", iter([b"1\n"] * 3))
    assert (await whole.call(FrameKind.HEAD, consumer="spark"))["committed"] == 1
    peer.close()
    whole.close()


async def test_what_cannot_be_read_is_refused_and_the_conversation_goes_on(world: World) -> None:
    await world.give(*[b"%d" % number for number in range(10)])
    peer = await world.client()
    await peer.call(FrameKind.COMMIT, consumer="spark", position=5)
    for first, end, code, words in (
        (
            4,
            6,
            Code.BELOW_FLOOR,
            "position 4 is gone, the first that can be read is 5: consumer 'spark' committed all",
        ),
        (0, 1, Code.BELOW_FLOOR, "position 0 is gone"),
        (5, 12, Code.BEYOND_HEAD, "position 11 is not there yet: the log ends before 11"),
        (9, 8, Code.PROTOCOL, "a range from 9 to 8"),
    ):
        with pytest.raises(RequestRefused, match=words) as refused:
            await peer.read(first, end)
        assert refused.value.code == code
    for kind, fields, code, words in (
        (FrameKind.PLAN, {"start": 1, "rows": 1, "bytes": 1}, Code.BELOW_FLOOR, r"below 5 at 2\S+Z from 127.0.0.1"),
        (FrameKind.PLAN, {"start": 12, "rows": 1, "bytes": 1}, Code.BEYOND_HEAD, "not there yet"),
        (FrameKind.COMMIT, {"consumer": "spark", "position": 12}, Code.BEYOND_HEAD, "cannot commit 12"),
        (
            FrameKind.COMMIT,
            {"consumer": "other", "position": 6},
            Code.UNDECLARED,
            "no consumer 'other' .* declared: spark",
        ),
        (FrameKind.LEASE, {"consumer": "other", "lease": "a"}, Code.UNDECLARED, "no consumer 'other'"),
        (FrameKind.LEASE, {"consumer": "spark", "lease": ""}, Code.PROTOCOL, "`lease` must be 1 to 200 printable"),
        (FrameKind.COMMIT, {"consumer": 7, "position": 6}, Code.PROTOCOL, "`consumer` must be text"),
        (FrameKind.COMMIT, {"consumer": "spark", "position": -1}, Code.PROTOCOL, "`position` must be a whole number"),
        (
            FrameKind.COMMIT,
            {"consumer": "spark", "position": True},
            Code.PROTOCOL,
            "`position` must be a whole number",
        ),
        (FrameKind.HEAD, {"consumer": "other"}, Code.UNDECLARED, "no consumer 'other'"),
        (FrameKind.PUBLISH, {"query": "q", "batch": 0, "names": []}, Code.DENIED, "nothing is linked"),
    ):
        with pytest.raises(RequestRefused, match=words) as refused:
            await peer.call(kind, **fields)
        assert refused.value.code == code
    assert (await peer.read(5, 11)).lines.keys() >= set(range(5, 11))
    assert [entry["level"] for entry in world.said("refused")] == ["warning"] * 15
    peer.close()


async def test_one_planner_at_a_time(world: World) -> None:
    one, other, again = [await world.client() for _ in range(3)]
    await one.call(FrameKind.LEASE, consumer="spark", lease="query 1")
    await one.call(FrameKind.LEASE, consumer="spark", lease="query 1")
    with pytest.raises(RequestRefused, match=r"'spark' is planned by 127\.0\.0\.1:\d+ since 2\S+Z") as refused:
        await other.call(FrameKind.LEASE, consumer="spark", lease="query 2")
    assert refused.value.code == Code.LEASED
    await again.call(FrameKind.LEASE, consumer="spark", lease="query 1")  # the same one, come back
    with pytest.raises(OSError, match=r"closed|reset"):
        await one.call(FrameKind.HEAD)
    with pytest.raises(RequestRefused, match="is planned by"):
        await other.call(FrameKind.LEASE, consumer="spark", lease="query 2")
    again.close()
    await world.until(lambda: world.outlet.gauges["spark_sessions"]() == 1)
    await other.call(FrameKind.LEASE, consumer="spark", lease="query 2")
    other.close()


async def test_what_is_damaged_is_lost_and_told(tmp_path: Path) -> None:
    async with World(tmp_path / "log").running() as world:
        for number in range(5):
            await world.give(b'"event %d"' % number)
        (chunk,) = (tmp_path / "log").glob("*.wal")
        data = chunk.read_bytes()
        with chunk.open("r+b") as file:
            file.seek(data.index(b"event 2"))
            file.write(b"E")
        peer = await world.client()
        for _ in range(2):
            read = await peer.read(1, 6)
            assert [tuple(lost) for lost in read.lost] == [(3, 3, "corrupt", False)]
            assert sorted(read.lines) == [1, 2, 4, 5]
        assert world.outlet.counters["quarantined_events_total"].value == 1
        assert len(world.said("quarantined")) == 1
        assert [name.suffix for name in sorted((tmp_path / "log" / "quarantine").iterdir())] == [".bytes", ".json"]
        await peer.call(FrameKind.COMMIT, consumer="spark", position=6)
        peer.close()


async def test_lost_positions_at_the_front_are_lost_and_not_committed(tmp_path: Path) -> None:
    """The log acks what it lost; whoever has not committed it must hear of it, also after a restart."""
    async with World(tmp_path / "log", chunk_size=1024).running() as world:
        for number in range(5):
            await world.give(b'"%d%s"' % (number, b"x" * 900))
        await world.until(lambda: 5 in [slot.durable for slot in look(str(tmp_path / "log")).slots if slot])
        first = min((tmp_path / "log").glob("*.wal"))  # and its end is no reason any more to write the cursor
        first.write_bytes(first.read_bytes()[:200] + bytes(900))
        peer = await world.client()
        assert [tuple(lost)[:2] for lost in (await peer.read(1, 6)).lost] == [(1, 1)]
        await world.until(lambda: not first.exists())  # it is acked, so it goes
        peer.close()
    async with World(tmp_path / "log", chunk_size=1024).running() as world:
        peer = await world.client()
        assert (await peer.call(FrameKind.HEAD))["floor"] == 1
        read = await peer.read(1, 6)
        assert [tuple(lost)[:2] for lost in read.lost] == [(1, 1)]
        assert sorted(read.lines) == [2, 3, 4, 5]
        peer.close()


async def test_a_peer_that_reads_the_files_is_told_where_the_records_are(tmp_path: Path) -> None:
    async with World(tmp_path / "log", chunk_size=1 << 16).running() as world:
        for number in range(40):
            await world.give(*[b'"%04d %s"' % (number * 10 + line, b"x" * 500) for line in range(10)])
        peer = await world.client()
        sent = await peer.read(15, 391)
        places = (await peer.read(15, 391, files=True)).places
        assert len(places) > 2
        lines: dict[int, bytes] = {}
        for place in places:
            for records in place.records(391, 1 << 14):
                lines |= lines_of(bytes(records))
        assert {position: line for position, line in lines.items() if position > 10} == sent.lines
        assert world.outlet.counters["spark_served_events_total"].value == 2 * 376
        assert world.outlet.counters["spark_served_bytes_total"].value == pytest.approx(2 * sum(sent.sizes), rel=0.1)
        assert world.outlet.gauges["spark_owed_events spark"]() == 390
        assert (await peer.read(3, 3, files=True)).places == []
        peer.close()


async def test_a_peer_that_does_not_read_is_waited_for_and_not_buffered(world: World) -> None:
    for _ in range(20):
        await world.give(*[b'"%s"' % (b"x" * 9_997)] * 100)
    raw = await world.raw()
    raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
    raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
    await prove(raw, WireKey.of_token(TOKEN))
    raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
    raw.send(wire.control(FrameKind.READ, {"first": 1, "end": 2001, "consumer": "spark"}))
    served = world.outlet.counters["spark_served_bytes_total"]
    await world.until(lambda: served.value)
    before = -1
    while before != served.value:
        before = served.value
        peer = await world.client()  # meanwhile the others are served
        await peer.read(1, 1)
        peer.close()
        await asyncio.sleep(0.05)
    assert served.value < 15_000_000  # in the kernel, and not one slice more than that
    raw.reset()
    await world.until(lambda: world.outlet.gauges["spark_sessions"]() == 0)
    await world.until(lambda: not _chunks_open_for_reading(world))


def _chunks_open_for_reading(world: World) -> int:
    names = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_link(name)]
    return sum(name.endswith(".wal") and name.startswith(world.spark.path) for name in names) - 1  # the writer's


def _is_link(name: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{name}")


@pytest.mark.test
async def test_a_flood_of_requests_waits_in_the_kernel(world: World) -> None:
    await world.give(b"1")
    raw = await world.raw()
    await prove(raw, WireKey.of_token(TOKEN))
    count = 20_000
    raw.send(wire.control(FrameKind.HEAD, {}) * count)
    for _ in range(count):
        assert (await raw.frame())[0] == FrameKind.OK
    await raw.close()


async def test_a_stopping_daemon_says_so(tmp_path: Path) -> None:
    async with World(tmp_path / "log").running() as world:
        raw = await world.raw()
        await prove(raw, WireKey.of_token(TOKEN))
        raw.send(wire.control(FrameKind.WAIT, {"position": 1, "ms": 10_000}))
        await asyncio.sleep(0)
    kind, fields = await raw.frame()
    assert (kind, fields["code"]) == (FrameKind.ERROR, Code.STOPPING)
    assert await raw.rest() == b""
    await raw.close()


async def test_requests_in_the_wrong_order_end_it(world: World) -> None:
    for kind in (FrameKind.HELLO, FrameKind.PROOF, FrameKind.LINES, FrameKind.STAGED):
        raw = await world.raw()
        assert (await prove(raw, WireKey.of_token(TOKEN)))[0] == FrameKind.WELCOME
        raw.send(wire.frame(kind, b"{}"))
        answer, fields = await raw.frame()
        assert answer == FrameKind.ERROR
        assert f"{kind.name} where a request should be" in str(fields["message"])
        assert await raw.rest() == b""
        await raw.close()


async def test_the_daemon_proves_that_it_knows_the_token(world: World) -> None:
    raw = await world.raw()
    kind, welcome = await prove(raw, WireKey.of_token(TOKEN))
    assert kind == FrameKind.WELCOME
    assert isinstance(welcome["proof"], str)
    raw.send(wire.control(FrameKind.HEAD, {}))
    assert (await raw.frame())[0] == FrameKind.OK
    await raw.close()


@given(
    payloads=st.lists(st.tuples(st.sampled_from(sorted(FROM_CLIENTS)), st.binary(max_size=300)), max_size=10),
    cuts=st.lists(st.integers(1, 40), min_size=1),
)
def test_frames_come_whole_however_they_are_cut(payloads: list[tuple[FrameKind, bytes]], cuts: list[int]) -> None:
    stream = PREFACE + b"".join(wire.frame(kind, payload) for kind, payload in payloads)
    frames, found, at, turn = ReceivedFrames(), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        found += frames.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert found == payloads


@given(junk=st.binary(min_size=1, max_size=200), greeted=st.booleans(), cut=st.integers(1, 50))
def test_any_bytes_are_frames_or_damaged(junk: bytes, greeted: bool, cut: int) -> None:
    frames = ReceivedFrames()
    data = PREFACE + junk if greeted else junk
    found: list[tuple[FrameKind, bytes]] = []
    said = "nothing"
    try:
        for at in range(0, len(data), cut):
            found += frames.feed(data[at : at + cut])
    except Damaged as error:
        said = str(error)
    assert said.isprintable()
    for kind, payload in found:
        assert wire.HEADER.pack(len(payload), zlib.crc32(payload), kind) + payload in data


async def lease(peer: Peer, scan: str, **more: object) -> RequestRefused | None:
    fields = {"consumer": "spark", "lease": f"of {id(peer)}", "scan": scan, **more}
    return await said_to(peer, FrameKind.LEASE, fields)


async def test_two_checkpoints_on_one_consumer_are_told_of_each_other(world: World) -> None:
    one, other, again = await world.client(), await world.client(), await world.client()
    assert await lease(one, "first", process="process 1 of driver 9 on a") is None
    refused = await lease(other, "second", process="process 2 of driver 9 on a")
    assert refused is not None
    assert refused.code == Code.TAKEN
    assert re.search(r"is read by .* \(process 1 of driver 9 on a\) since .*, and .* \(process 2 of", str(refused))
    same = await lease(again, "first")
    assert same is not None
    assert same.code == Code.LEASED, "the same checkpoint comes after a planner that is just ending"
    one.close()
    await world.until(lambda: world.outlet.gauges["spark_sessions"]() == 2)
    assert await lease(other, "second") is None, "nothing was committed, so nothing is lost to it"


async def test_a_consumer_belongs_to_the_checkpoint_that_committed(tmp_path: Path) -> None:
    async with World(tmp_path / "log").running() as world:
        await world.give(*[b"%d" % number for number in range(10)])
        peer = await world.client()
        assert await lease(peer, "first") is None
        assert (await peer.call(FrameKind.COMMIT, consumer="spark", position=5, scan="first"))["committed"] == 5
    async with World(tmp_path / "log").running() as world:
        peer, old = await world.client(), await world.client()
        for scan in ("second", ""):
            refused = await lease(peer, scan)
            assert refused is not None
            assert refused.code == Code.NEW_CHECKPOINT
            assert "consumer 'spark' belongs to another checkpoint, which committed all below 5 at" in str(refused)
        with pytest.raises(RequestRefused) as late:
            await peer.call(FrameKind.COMMIT, consumer="spark", position=8, scan="second")
        assert late.value.code == Code.NEW_CHECKPOINT
        assert await lease(peer, "second", new=True) is None
        with pytest.raises(RequestRefused) as overtaken:
            await old.call(FrameKind.COMMIT, consumer="spark", position=9, scan="first")
        assert overtaken.value.code == Code.TAKEN
        assert (await peer.call(FrameKind.COMMIT, consumer="spark", position=8, scan="second"))["committed"] == 8
    async with World(tmp_path / "log").running() as world:
        peer = await world.client()
        refused = await lease(peer, "first")
        assert refused is not None
        assert refused.code == Code.NEW_CHECKPOINT
        assert await lease(peer, "second") is None


async def test_a_consumer_of_before_scans_keeps_its_checkpoint_and_refuses_a_new_one(world: World) -> None:
    await world.give(*[b"%d" % number for number in range(10)])
    peer = await world.client()
    await peer.call(FrameKind.COMMIT, consumer="spark", position=5)
    refused = await lease(peer, "new")
    assert refused is not None
    assert refused.code == Code.NEW_CHECKPOINT
    assert await lease(peer, "") is None
