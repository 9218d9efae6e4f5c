"""`mime_mapping`: the media type of a body decides its codec, in requests and in answers."""

from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from connectors.http import HttpClient, HttpServer
from tests.connectors.test_http_client import Peer
from tests.connectors.test_http_replies import answering, echo, saying
from tests.connectors.test_http_responses import asking
from tests.flows.builder import flow_of, pipeline
from tests.waiting import until
from walflow.codecs import JSON, MSGPACK, STRING
from walflow.plan import load

MAPPING = {
    "application/json": {"name": "json", "config": {"mode": "sorted"}},
    "text/plain": "string",
    "application/x-msgpack": "msgpack",
}


def of(content_type: str) -> dict[str, str]:
    return {"Content-Type": content_type}


@pytest.mark.parametrize(
    ("content_type", "body", "value"),
    [
        ("text/plain; charset=utf-8", b"{", "{"),
        ("Application/X-MsgPack", b"\x93\x01\x02\x0a", [1, 2, 10]),
        ("application/json", b'[{"b":1},\n2]', [{"b": 1}, 2]),  # one event, as a body of any other type is
        ("text/html", b"[1]", [1]),  # `codec`, for no type is mapped
        ("", b"1", 1),
    ],
)
async def test_a_request_has_the_codec_of_its_type(content_type: str, body: bytes, value: object) -> None:
    async with answering(mime_mapping=MAPPING) as server, server.client() as client:
        client.send(body, of(content_type) if content_type else {})
        (block,) = await server.came()
        assert block.values == [value]


async def test_a_body_that_its_codec_cannot_read_is_refused() -> None:
    async with answering(mime_mapping={"*/*": "msgpack", "text/plain": "string"}) as server:
        assert (await server.ask(b"\xc1", of("text/html"))).status == 400
        assert (await server.ask(b"\xff", of("text/plain"))).status == 400


@pytest.mark.parametrize(
    ("headers", "body", "content_type"),
    [
        ({"Content-Type": "application/json"}, b'{"a":"x","b":1}', "application/json"),
        (
            {"content-type": ["application/x-msgpack"]},
            msgspec.msgpack.encode({"b": 1, "a": "x"}),
            "application/x-msgpack",
        ),
        ({}, b'{"b":1,"a":"x"}', "application/json"),
    ],
)
async def test_an_answer_has_the_codec_of_its_type(headers: object, body: bytes, content_type: str) -> None:
    async with answering(saying({"headers": headers}), mime_mapping=MAPPING) as server:
        said = await server.ask(b'{"b":1,"a":"x"}', of("text/html"))
        assert (said.status, said.body, said.headers["content-type"]) == (200, body, content_type)


async def test_an_answer_without_a_type_has_the_codec_of_all_others() -> None:
    async with answering(echo, mime_mapping={"*/*": "string", "application/json": "json"}) as server:
        said = await server.ask(b'"x"', of("application/json"))
        assert (said.body, said.headers["content-type"]) == (b"x", "text/plain")


async def test_an_answer_that_its_codec_cannot_write_is_a_500_and_leaves_by_err() -> None:
    async with answering(saying({"headers": {"content-type": "application/json"}}), mime_mapping=MAPPING) as server:
        said = await server.ask(b"\xc4\x01\xff", of("application/x-msgpack"))
        assert said.status == 500
        assert b"cannot be sent" in said.body
        assert len(server.err.blocks) == 1


async def test_the_answers_of_a_server_have_the_codecs_of_their_types() -> None:
    peer = Peer(
        web.Response(body=b"\x91\x01", content_type="application/x-msgpack"),
        web.Response(text="[1]", content_type="text/plain"),
        web.Response(text="[1]", content_type="text/html"),
        web.Response(text="{", content_type="application/json"),
    )
    async with asking(peer, mime_mapping=MAPPING) as client:
        client.ask(b"1", b"2", b"3", b"4")
        await until(lambda: len(client.inlet.acked) == 4)
        assert [value for block in client.taker.blocks for value in block.values] == [[1], "[1]", [1]]
        assert len(client.err.blocks) == 1


async def test_the_type_of_its_requests() -> None:
    async with (
        asking(peer := Peer(), mime_mapping=MAPPING) as client,
        asking(
            named := Peer(), mime_mapping=MAPPING, headers={"content-type": "text/plain", "X": ["1", "2"]}
        ) as other,
    ):
        for one in (client, other):
            one.ask(b'"a"')
            await until(lambda one=one: one.inlet.acked)  # type: ignore[misc]
    assert peer.got[0].headers["Content-Type"] == "application/json"
    assert named.got[0].headers["Content-Type"] == "text/plain"


async def test_a_header_with_several_values() -> None:
    async with asking(peer := Peer(), headers={"X-Tag": ["a", "b"]}) as client:
        client.ask(b"1")
        await until(lambda: client.inlet.acked)
    assert peer.all_headers[0].getall("X-Tag") == ["a", "b"]


def test_the_codec_of_its_requests() -> None:
    client = HttpClient.model_validate({"url": "http://h/", "mime_mapping": MAPPING})
    assert client.sink_codec(JSON) is JSON
    named = client.model_copy(update={"headers": {"Content-Type": "text/plain"}})
    assert named.sink_codec(JSON) is STRING
    others = HttpClient.model_validate({"url": "http://h/", "mime_mapping": {"*/*": "msgpack"}})
    assert others.sink_codec(JSON) is MSGPACK


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"json": "json"}, "is no media type"),
        ({"text/plain; charset=utf-8": "string"}, "is no media type"),
        ({"text/plain": "text"}, "Unknown codec text"),
        ({"text/plain": {"name": "json", "config": {"mode": "upside-down"}}}, "mode"),
    ],
)
def test_what_cannot_be_mapped(mapping: object, said: str) -> None:
    for connector in (HttpServer, HttpClient):
        with pytest.raises(Exception, match=said):
            connector.model_validate({"url": "http://127.0.0.1:1/", "mime_mapping": mapping})
    with pytest.raises(ValueError, match="one event"):
        HttpClient.model_validate({"url": "http://h/", "mime_mapping": {}, "batch": "lines"})


def messages(directory: Path, beside: str, answers: str) -> list[str]:
    file = directory / "flow.troy"
    mapping = 'config = {"url": "127.0.0.1:1", "mime_mapping": {"text/plain": "string"}}'
    file.write_text(
        flow_of(
            f"door -> filter -> {answers}",
            door=f"http_server with {beside} {mapping} end",
            filter=pipeline('select event from in where event.a == "1" into out;'),
            out='stdio with codec = "json" end',
        )
    )
    return [diagnostic.message for diagnostic in load([file])[1]]


def test_check_does_not_say_of_its_events_what_is_true_for_one_codec(tmp_path: Path) -> None:
    assert not [said for said in messages(tmp_path, 'codec = "syslog",', "out") if "makes" in said]


def test_postprocessors_are_refused(tmp_path: Path) -> None:
    said = messages(tmp_path, 'postprocessors = ["base64"],', "door")
    assert [line for line in said if "want one codec" in line]
