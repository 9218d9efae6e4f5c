"""What every sink owes, of those that answer: `dns_client`, `schema_registry` and `kv`."""

import asyncio
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode

from connectors.dns import DnsClient
from connectors.kv import Kv
from connectors.kv.store import FILE
from connectors.registry import SchemaRegistry
from tests.connectors.registry_stub import RegistryStub, registry
from tests.connectors.test_dns_client import NameServer, name_server
from walflow import Block, Inlet, Outlet
from walflow.codecs import JSON, make
from walflow.testing import MemoryOutlet, VirtualScheduler
from walflow.testing.sinks import JobsOnThread, RunsSink, SinkSubject, sink_promises

CANCELLED = {"a_stop_waits_for_what_is_under_way": "a request is cancelled, and its events fail"}


class Hexadecimal(NameServer):
    """Has an address for each name that is an event in hexadecimal digits, but for `never`. `trouble`: its answer to
    all, if there is one. `left`: names that it answers until then."""

    def __init__(self, never: bytes) -> None:
        super().__init__()
        self.never = never
        self.trouble: dns.rcode.Rcode | None = None
        self.left = 1_000_000
        self.holding = False
        self.got: list[bytes] = []
        self._held: list[tuple[bytes, tuple[str, int]]] = []

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self.holding:
            self._held.append((data, addr))
            return
        query = dns.message.from_wire(data)
        event = bytes.fromhex(query.question[0].name.labels[0].decode())
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        if not self.left:
            self.trouble = dns.rcode.SERVFAIL
        if self.trouble is not None:
            answer.set_rcode(self.trouble)
        elif event == self.never:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        else:
            self.left -= 1
            self.got.append(event)
            answer.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.1"))
        self._transport.sendto(answer.to_wire(), addr)

    def release(self) -> None:
        self.holding = False
        held, self._held = self._held, []
        for data, addr in held:
            self.datagram_received(data, addr)


class DnsSubject(SinkSubject):
    """In trouble, the server says that it failed.
    A log would get back a name that is alone in this, and others pass it."""

    behind_log = False
    ordered = False

    never = b'"never"'
    too_large = b'"too long for a label of a name"'
    large = 1 << 11
    bad_meta = {"dns": {"lookup": 7}}  # noqa: RUF012  # it is read alone

    def __init__(self) -> None:
        self._server = Hexadecimal(self.never)
        self._stack = AsyncExitStack()
        self._address = ""

    def meta_of(self, payload: bytes) -> Mapping[str, object]:
        return {"dns": {"lookup": {"name": f"{payload.hex()}.test", "type": "A"}}}

    async def open(self) -> RunsSink:
        _, self._address = await self._stack.enter_async_context(name_server(self._server))
        return await self.again()

    async def again(self) -> RunsSink:
        keys = {"servers": [self._address], "concurrency": 1, "timeout": 100_000_000_000}
        return DnsClient.model_validate(keys)

    def got(self) -> Sequence[bytes]:
        return self._server.got

    def fail(self) -> None:
        self._server.trouble = dns.rcode.SERVFAIL

    def fail_otherwise(self) -> None:
        self._server.trouble = dns.rcode.REFUSED

    def fail_after(self, events: int) -> None:
        self._server.left = events

    def mend(self) -> None:
        self._server.trouble, self._server.left = None, 1_000_000

    def hold(self, scheduler: VirtualScheduler) -> None:
        self._server.holding = True

    def release(self, scheduler: VirtualScheduler) -> None:
        self._server.release()

    async def close(self) -> None:
        await self._stack.aclose()


test_dns = sink_promises(DnsSubject, without=CANCELLED)


class Answered(MemoryOutlet):
    """Takes all answers."""

    def send(self, block: Block) -> bool:
        super().send(block)
        block.receipt.ack()
        return True


class Answering(SinkSubject):
    """What it has answered has arrived."""

    def __init__(self) -> None:
        self.answers: list[Answered] = []

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        assert isinstance(inlet.scheduler, VirtualScheduler)
        self.answers.append(Answered(inlet.scheduler))
        await self.connector().run(inlet, self.answers[-1])

    def connector(self) -> RunsSink:
        raise NotImplementedError

    def got(self) -> Sequence[bytes]:
        blocks = [block for out in self.answers for block in out.sent]
        return [self.read(payload) for block in blocks for payload in block.frames.payloads()]

    def read(self, payload: bytes) -> bytes:
        return payload


class RegistrySubject(Answering):
    """In trouble, the registry answers 500. Events become Avro by a schema that is asked for once,
    at the first of them."""

    never = b'{"of":"another schema"}'
    schema = ("long", "string")

    def __init__(self) -> None:
        super().__init__()
        self._stub = RegistryStub()
        self._stub.schemas = {7: {"schema": json.dumps(self.schema)}}
        self._stub.subjects = {"events": 7}
        self._stack = AsyncExitStack()
        self._codec = make("avro", {"schema": [*self.schema], "format": "datum"})

    async def open(self) -> RunsSink:
        await self._stack.enter_async_context(registry(stub=self._stub))
        return self

    def connector(self) -> RunsSink:
        keys = {"url": self._stub.url, "mode": "encode", "subject": "events"}
        return SchemaRegistry.model_validate(keys)

    def read(self, payload: bytes) -> bytes:
        return JSON.encode(self._codec.decode(payload[5:]))

    def fail(self) -> None:
        self._stub.status = 500

    def fail_otherwise(self) -> None:
        self._stub.status = 503

    def mend(self) -> None:
        self._stub.status = 200

    def hold(self, scheduler: VirtualScheduler) -> None:
        self._stub.hold = asyncio.Event()

    def release(self, scheduler: VirtualScheduler) -> None:
        if self._stub.hold is not None:
            self._stub.hold.set()

    async def close(self) -> None:
        await self._stack.aclose()


test_registry = sink_promises(
    RegistrySubject,
    without=CANCELLED
    | {
        "the_waits_grow_and_begin_anew_after_a_success": "after its first success it asks for nothing more",
    },
)


class KvSubject(Answering, JobsOnThread):
    """A file stands where the directory of its store was."""

    never = b'"not what is there"'
    too_large = b'"' + b"x" * 70_000 + b'"'
    large = 1 << 16
    bad_meta = {"kv": {"rename": "a"}}  # noqa: RUF012  # it is read alone

    def __init__(self) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp())
        self._path, self._aside = self._directory / "store", self._directory / "aside"

    def connector(self) -> RunsSink:
        return Kv.model_validate({"path": str(self._path)})

    def meta_of(self, payload: bytes) -> Mapping[str, object]:
        key = payload.decode()
        return {"kv": {"cas": key, "old": 1} if payload == self.never else {"put": key}}

    def fail(self) -> None:
        if self._path.exists():
            self._path.rename(self._aside)
        self._path.touch()

    def fail_otherwise(self) -> None:
        self._path.unlink()
        self._path.mkdir()
        with closing(sqlite3.connect(self._path / FILE)) as other:
            other.execute("PRAGMA application_id = 7")

    def mend(self) -> None:
        if self._path.is_dir():
            shutil.rmtree(self._path)
        else:
            self._path.unlink(missing_ok=True)
        if self._aside.exists():
            self._aside.rename(self._path)

    async def close(self) -> None:
        shutil.rmtree(self._directory)


test_kv = sink_promises(KvSubject)
