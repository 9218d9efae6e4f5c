"""docs/reference/spark-protocol.md is enough to read a log through the bridge: the client here knows that page, and
nothing of walflow or of its client."""

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import socket
import struct
import zlib
from pathlib import Path

import google_crc32c
import pytest

from pyspark_walflow import wire
from tests.connectors.spark.bridge_world import TOKEN, World

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "spark-protocol.md"
TEXT = PAGE.read_text()
KINDS = {name: int(number) for number, name in re.findall(r"^\| (\d+) \| `([A-Z]+)` \|", TEXT, re.MULTILINE)}
CODES = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \|$", TEXT.partition("## Errors")[2], re.MULTILINE)


class PageClient:
    def __init__(self, port: int, token: str, right: str = "full") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=100)
        self.socket.sendall(b"WALFLOW/1\r\n\r\n")
        ours, key = secrets.token_hex(8), token.encode()
        self.send("HELLO", version=1, right=right, nonce=ours, log=None)
        theirs = self.expect("CHALLENGE")["nonce"]
        self.send("PROOF", proof=self.hmac(key, "proof", "client", right, ours, theirs).hex())
        welcome = self.expect("WELCOME")
        assert welcome["proof"] == self.hmac(key, "proof", "server", right, theirs, ours).hex()
        self.log = welcome["log"]

    def hmac(self, key: bytes, *words: str) -> bytes:
        return hmac.new(key, b"\0".join(word.encode() for word in ("walflow", *words)), hashlib.sha256).digest()

    def send(self, kind: str, **fields: object) -> None:
        payload = json.dumps(fields).encode()
        self.socket.sendall(struct.pack("<IIB", len(payload), zlib.crc32(payload), KINDS[kind]) + payload)

    def frame(self, *, summed: bool = True) -> tuple[int, bytes]:
        size, checksum, kind = struct.unpack("<IIB", self.exactly(9))
        payload = self.exactly(size)
        assert checksum == (zlib.crc32(payload) if summed or kind != KINDS["DATA"] else 0)
        return kind, payload

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data)) or pytest.fail("closed")
        return data

    def expect(self, wanted: str) -> dict[str, str]:
        kind, payload = self.frame()
        assert kind == KINDS[wanted], payload
        return json.loads(payload)  # type: ignore[no-any-return]

    def ask(self, kind: str, **fields: object) -> dict[str, str]:
        self.send(kind, **fields)
        return self.expect("OK")

    def read(self, first: int, end: int, *, summed: bool = True) -> dict[int, bytes]:
        self.send("READ", first=first, end=end, consumer="spark", summed=summed)
        events: dict[int, bytes] = {}
        while (frame := self.frame(summed=summed))[0] != KINDS["OK"]:
            assert frame[0] == KINDS["DATA"]
            events |= events_in(frame[1][4:])
        return {position: event for position, event in events.items() if first <= position < end}

    def read_files(self, first: int, end: int) -> dict[int, bytes]:
        self.send("READ", first=first, end=end, consumer="spark", files=True)
        events: dict[int, bytes] = {}
        while (frame := self.frame())[0] != KINDS["OK"]:
            assert frame[0] == KINDS["PLACE"]
            place = json.loads(frame[1])
            data = Path(place["path"]).read_bytes()[place["offset"] : place["limit"]]
            seed, body = place["seed"], struct.unpack_from("<I", data, 4)[0]
            assert struct.unpack_from("<I", data, 40)[0] == google_crc32c.extend(seed, data[48 : 48 + body])
            events |= events_in(data)
        return {position: event for position, event in events.items() if first <= position < end}


def events_in(data: bytes) -> dict[int, bytes]:
    """Of whole records."""
    events: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        _, length, position, _, _, count, _, tag = struct.unpack_from("<4sIQqQIHH", data, at)
        lines = data[at + 48 + tag : at + 48 + length].split(b"\n")[:count]
        events |= dict(enumerate(lines, position))
        at += (48 + length + 7) & ~7
    return events


async def test_a_client_made_from_the_page_reads_and_commits(tmp_path: Path) -> None:
    async with World(tmp_path / "log").running() as world:
        for number in range(4):
            await world.give(*[b'{"n":%d}' % (number * 10 + line) for line in range(10)])
        await asyncio.to_thread(_converse, world.port)


def _converse(port: int) -> None:
    client = PageClient(port, TOKEN)
    head = client.ask("HEAD", consumer="spark")
    assert head == {"log": client.log, "floor": 1, "next": 41, "committed": 1, "scan": ""}
    assert client.ask("WAIT", position=40, ms=1)["next"] == 41
    assert client.ask("LEASE", consumer="spark", lease="page") == {"committed": 1}
    assert client.ask("PLAN", start=1, rows=25, bytes=1 << 20)["end"] == 26
    assert client.ask("LOCATE", first=5, end=41, since=1 << 62, before=(1 << 63) - 1) == {"first": 5, "end": 5}
    assert client.ask("LOCATE", first=5, end=41, since=0, before=1 << 62) == {"first": 5, "end": 41}
    assert client.read(5, 26) == {position: b'{"n":%d}' % (position - 1) for position in range(5, 26)}
    assert client.read(5, 26, summed=False) == client.read(5, 26)
    assert client.read_files(5, 26) == client.read(5, 26)
    assert client.ask("COMMIT", consumer="spark", position=26) == {"committed": 26}
    client.send("READ", first=5, end=26, consumer="spark")
    assert client.expect("ERROR")["code"] == "below-floor"
    client.socket.close()


def test_the_page_has_every_kind_code_and_limit() -> None:
    assert {kind.name: kind.value for kind in wire.FrameKind} == KINDS
    assert sorted(CODES) == sorted(
        value for name, value in vars(wire.Code).items() if isinstance(value, str) and name.isupper()
    )
    assert f"{wire.MAX_CONTROL:,} bytes" in TEXT.replace("\n", " ")
    assert f"up to {wire.MAX_PAYLOAD:,}" in TEXT
    assert wire.PREFACE == b"WALFLOW/1\r\n\r\n"
    assert f"begins with these {len(wire.PREFACE)} bytes" in TEXT
    assert wire.HEADER.size == 9
    listed = re.search(r"((?:`[a-z-]+`, )*`[a-z-]+` and `[a-z-]+`) may go away", TEXT)
    assert listed is not None
    assert set(re.findall(r"`([a-z-]+)`", listed[1])) == wire.Code.RETRY
