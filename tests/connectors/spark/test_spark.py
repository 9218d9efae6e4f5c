"""The connector as the runtime runs it."""

import asyncio
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from connectors.spark import Spark
from pyspark_walflow import wire
from pyspark_walflow.client import Endpoint
from pyspark_walflow.wire import PREFACE, Code, FrameKind, RequestRefused, WireKey
from tests.connectors.spark.bridge_world import TOKEN, Raw, World
from tests.system.certificates import Authority
from tests.wal.tools import on_disk
from walflow.errors import Unusable
from walflow.event import Block, Origin
from walflow.net.sockets import CannotListen


async def test_what_is_logged_is_acked_and_stays_over_a_restart(tmp_path: Path) -> None:
    async with World(tmp_path / "log").running() as world:
        await world.give(b"1", b"2")
        assert world.inlet.acked == [b"1\n2\n"]
        uuid = (await world.client()).log
    async with World(tmp_path / "log").running() as world:
        peer = await world.client(log=uuid)
        assert (await peer.read(1, 3)).lines == {1: b"1", 2: b"2"}
        await peer.call(FrameKind.COMMIT, consumer="spark", position=2)
    async with World(tmp_path / "log").running() as world:
        peer = await world.client(log=uuid)
        assert (await peer.call(FrameKind.HEAD, consumer="spark"))["committed"] == 2


async def test_a_full_log_stops_its_sources_until_the_slowest_has_committed(tmp_path: Path) -> None:
    async with World(
        tmp_path / "log", chunk_size=65536, max_chunks=4, consumers=["quick", "slow"]
    ).running() as world:
        line = b'"%s"' % (b"x" * 990)
        given: list[Block] = []
        while world.inlet.breaker is None:
            given.append(world.inlet.lines_of(*[line] * 10))
            world.inlet.give(given[-1])
            await world.until(lambda: world.inlet.breaker is not None or len(world.inlet.acked) == len(given))
        assert "the log is full" in world.inlet.breaker
        peer = await world.client()
        await world.until(lambda: world.outlet.gauges["spark_lag_events quick"]() == len(world.inlet.acked) * 10 > 0)
        after = (await peer.call(FrameKind.WAIT, position=200, ms=10_000))["next"]
        await peer.call(FrameKind.COMMIT, consumer="quick", position=after)
        (held,) = world.said("log held by a consumer")
        assert (held["level"], held["consumer"], held["committed"]) == ("warning", "quick, slow", 1)
        assert world.inlet.breaker is not None
        await peer.call(FrameKind.COMMIT, consumer="slow", position=after)
        await world.until(lambda: world.inlet.breaker is None)
        assert on_disk(world.spark.path) <= 4 * 65536


async def test_the_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "log" / "token"
    async with World(tmp_path / "log", token=None).running() as world:
        assert len(world.said("token made")) == 1
        token = file.read_text().strip()
        assert len(token) > 40
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        await world.client(WireKey.of_token(token))
        with pytest.raises(RequestRefused, match="token"):
            await world.client(WireKey.of_token(TOKEN))
    file.chmod(0o644)
    async with World(tmp_path / "log", token=None).running() as world:
        assert world.said("token made") == []
        assert "chmod 600" in str(world.said("token open to others")[0]["advice"])
        await world.client(WireKey.of_token(token))
        assert [line for line in world.outlet.logged if token in str(line)] == []
    file.write_text("")
    with pytest.raises(Unusable, match="remove it, and a new token is made"):
        async with World(tmp_path / "log", token=None).running():
            pass


async def test_an_address_that_is_taken_leaves_the_log_to_the_next_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for _ in range(2):
            with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{port}"):
                async with World(tmp_path / "log", url=f"127.0.0.1:{port}").running():
                    pass
    async with World(tmp_path / "log").running() as world:
        await world.give(b"1")


async def test_tls_from_end_to_end_and_new_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "localhost", "127.0.0.1")
    async with World(tmp_path / "log", tls=pair).running() as world:
        for number in range(30):
            await world.give(*[b'"%d%s"' % (number, b"x" * 9_000)] * 20)
        endpoint = Endpoint("127.0.0.1", world.port, authority.file)
        peer = await world.client(endpoint=endpoint)
        assert len((await peer.read(1, 601)).lines) == 600
        plain = await world.raw()
        plain.send(PREFACE + wire.control(FrameKind.HELLO, {}))
        assert await plain.rest() in (b"", b"\x15\x03\x01\x00\x02\x02F")
        await plain.close()
        assert world.said("TLS handshake failed")[0]["reason"] == "it does not speak TLS"
        before = await asyncio.to_thread(_serial, world.port, authority)
        authority.issue("localhost", "localhost", "127.0.0.1")
        world.inlet.reopen()
        assert len(world.said("certificates reloaded")) == 1
        assert await asyncio.to_thread(_serial, world.port, authority) != before
        assert await peer.call(FrameKind.HEAD)
        (tmp_path / "localhost.cert").write_text("no certificate")
        world.inlet.reopen()
        assert "cannot use certificate" in str(world.said("certificates not reloaded")[0]["error"])
        await asyncio.to_thread(_serial, world.port, authority)
        peer.close()


async def test_a_handshake_takes_a_place(tmp_path: Path) -> None:
    """Whoever has not even said hello has proved nothing, and goes first."""
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "localhost", "127.0.0.1")
    hour = 3_600_000_000_000
    async with World(tmp_path / "log", tls=pair, max_connections=3, handshake_timeout=hour).running() as world:
        silent = [await world.raw() for _ in range(6)]
        await world.until(lambda: len(world.said("refused")) == 3)
        for raw in silent[:3]:
            assert await raw.rest() == b""
        peers = [await world.client(endpoint=Endpoint("127.0.0.1", world.port, authority.file)) for _ in range(3)]
        assert {line["reason"] for line in world.said("refused")} == {"its place was wanted"}
        for raw in silent[3:]:
            assert await raw.rest() == b""
        late = await world.raw()  # all have proved who they are
        assert await late.rest() == b""
        assert world.said("refused")[-1]["reason"] == "3 connections are open"
        for peer in peers:
            assert await peer.call(FrameKind.HEAD)
            peer.close()
        for raw in (*silent, late):
            await raw.close()
        assert not world.said("TLS handshake failed")


def _serial(port: int, authority: Authority) -> object:
    context = authority.client_context()
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as s,
    ):
        assert isinstance(s, ssl.SSLSocket)
        return (s.getpeercert() or {})["serialNumber"]


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path / "log", socket_url="127.0.0.1:0", consumers=[]).running() as world:
        yield world


def _plain_port(world: World) -> int:
    return int(str(world.said("listening for a socket source")[0]["address"]).rsplit(":", 1)[1])


async def test_the_plain_port_is_the_bridges_too(both: World) -> None:
    await both.until(lambda: both.said("listening for a socket source"))
    await both.give(b"1")
    peer = await both.client(endpoint=Endpoint("127.0.0.1", _plain_port(both)))
    assert (await peer.read(1, 2, "")).lines == {1: b"1"}
    peer.close()


async def test_without_consumers_the_socket_source_is_whom_the_log_is_kept_for(both: World) -> None:
    await both.until(lambda: both.said("listening for a socket source"))
    await both.give(b"1", b"2")
    peer = await both.client()
    with pytest.raises(RequestRefused, match="declared: none"):
        await peer.call(FrameKind.COMMIT, consumer="(socket)", position=2)
    reader = Raw(*await asyncio.open_connection("127.0.0.1", _plain_port(both)))
    assert await reader.reader.readline() == b"1\n"
    assert await reader.reader.readline() == b"2\n"
    assert (await peer.call(FrameKind.HEAD))["floor"] == 3
    await reader.close()


async def test_the_plain_port_does_not_go_round_tls(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("localhost", "127.0.0.1")
    async with World(tmp_path / "log", tls=pair, socket_url="127.0.0.1:0").running() as world:
        await world.until(lambda: world.said("listening for a socket source"))
        raw = Raw(*await asyncio.open_connection("127.0.0.1", _plain_port(world)))
        raw.send(PREFACE)
        assert (await raw.frame())[1]["code"] == Code.DENIED
        assert await raw.rest() == b""
        assert "has no TLS" in str(world.said("refused")[0]["reason"])
        await raw.close()


async def test_results_come_back_where_out_is_linked(tmp_path: Path) -> None:
    async with World(tmp_path / "log", linked=True).running() as world:
        peer = await world.client()
        name = "0" * 32
        staged = await asyncio.to_thread(peer.client.stage, name, iter([b'{"a":1}\n{"a"', b":2}\n"]))
        assert staged["rows"] == 2
        assert await peer.call(FrameKind.PUBLISH, query="q", batch=0, names=[name]) == {"fresh": True, "rows": 2}
        assert await peer.call(FrameKind.PUBLISH, query="q", batch=0, names=[name]) == {"fresh": False, "rows": 2}
        assert await peer.call(FrameKind.ABORT, names=[]) == {}
        with pytest.raises(RequestRefused) as refused:
            await peer.call(FrameKind.PUBLISH, query="q", batch=1, names=["1" * 32])
        assert refused.value.code == Code.UNKNOWN_STAGE
        await world.until(lambda: world.outlet.sent)
        for block in world.outlet.sent:
            block.receipt.ack()
        assert await peer.call(FrameKind.HEAD)


def test_what_check_says() -> None:
    said = Spark(path="w").guarantee(behind_log=False)
    assert said.warnings == ()
    assert "in w takes up to 1,073,741,824 bytes on disk, then it stops its sources" in said.notes[0]
    spark = Spark.model_validate(
        {"path": "w", "url": "0.0.0.0:1", "insecure": "a lab", "token": "t", "consumers": ["a", "b"]}
    )
    said = spark.guarantee(behind_log=False)
    assert "stays there until each of a, b has committed it" in said.sink
    assert any("open to the network without TLS: a lab" in one for one in said.warnings)
    assert any("the token stands in the flow file" in one for one in said.warnings)


def test_what_walflow_compiled_is_no_key_of_a_flow_file() -> None:
    """Reading it runs what it names: `check` of a stranger's flow must not."""
    with pytest.raises(ValidationError, match="walflow alone sets this key"):
        Spark.model_validate({"path": "w", "pipeline": "gASVAAAAAA=="})


async def test_what_a_log_upstream_sends_again_is_not_appended_again(tmp_path: Path) -> None:
    for life in range(2):
        world = World(tmp_path / "log")
        world.inlet.upstream = world.inlet.upstream._replace(straight=True)
        async with world.running():
            assert world.said("knows what it has of logs and files upstream")[0]["positions"] == 2 * life
            world.inlet.give(world.inlet.lines_of(b"1", b"2", origin=Origin("ab" * 16, 1, 2, 1, term=7)))
            await world.until(lambda: world.inlet.acked == [b"1\n2\n"])  # noqa: B023
            peer = await world.client()
            assert (await peer.read(1, 3)).lines == {1: b"1", 2: b"2"}
            assert world.inlet.gauges["wal_durable_position"]() == 2
