"""Lookups at a name server on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from pydantic import ValidationError

from connectors.dns import DnsClient
from connectors.dns.client_run import BadLookup, question_of
from tests.connectors.asked import asking
from tests.waiting import until

ZONE = {
    ("host.test.", "A"): ["host.test. 60 IN A 192.0.2.1", "host.test. 60 IN A 192.0.2.2"],
    ("host.test.", "AAAA"): ["host.test. 30 IN AAAA 2001:db8::1"],
    ("alias.test.", "A"): ["alias.test. 60 IN CNAME host.test.", "host.test. 60 IN A 192.0.2.1"],
    ("host.test.", "TXT"): ['host.test. 60 IN TXT "a text"'],
    ("host.test.", "MX"): [],
}


class NameServer(asyncio.DatagramProtocol):
    """`mute`: names that it does not answer."""

    def __init__(self) -> None:
        self.mute: set[str] = set()
        self.asked: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # uvloop has its own

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        (question,) = query.question
        name, kind = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        self.asked.append(name)
        if name in self.mute:
            return
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        if not any(known == name for known, _ in ZONE):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        for line in ZONE.get((name, kind), []):
            owner, ttl, _, kind_of, text = line.split(" ", 4)
            answer.answer.append(dns.rrset.from_text(owner, int(ttl), "IN", kind_of, text))
        self._transport.sendto(answer.to_wire(), addr)


@asynccontextmanager
async def name_server(server: NameServer | None = None) -> AsyncIterator[tuple[NameServer, str]]:
    loop = asyncio.get_running_loop()
    made = server or NameServer()
    transport, server = await loop.create_datagram_endpoint(lambda: made, local_addr=("127.0.0.1", 0))
    try:
        yield server, "{}:{}".format(*transport.get_extra_info("sockname"))
    finally:
        transport.close()


def client(address: str, **config: object) -> DnsClient:
    return DnsClient.model_validate({"servers": [address], **config})


async def test_records_by_type_and_addresses_without_one() -> None:
    async with name_server() as (_, address), asking(client(address, concurrency=1)) as lookups:
        lookups.ask(b"1", dns={"lookup": "host.test"}, correlation=7)
        lookups.ask(b"2", dns={"lookup": {"name": "alias.test", "type": "A"}})
        lookups.ask(b"3", dns={"lookup": {"name": "host.test", "type": "TXT"}})
        await until(lambda: len(lookups.out.sent) == 3)
        assert not lookups.inlet.settled
        lookups.ack()
    assert lookups.answers() == [
        [{"A": "192.0.2.1", "ttl": 60}, {"A": "192.0.2.2", "ttl": 60}, {"AAAA": "2001:db8::1", "ttl": 30}],
        [{"CNAME": "host.test.", "ttl": 60}, {"A": "192.0.2.1", "ttl": 60}],
        [{"TXT": '"a text"', "ttl": 60}],
    ]
    assert lookups.metas() == [{"correlation": 7}, {}, {}]
    assert lookups.inlet.acked == [b"1\n", b"2\n", b"3\n"]


async def test_what_has_no_answer_ever_leaves_by_err() -> None:
    async with name_server() as (_, address), asking(client(address)) as lookups:
        for lookup in ("missing.test", {"name": "host.test", "type": "MX"}, "a" * 64 + ".test", 7):
            lookups.ask(b"1", dns={"lookup": lookup})
        lookups.ask(b"1", dns={"lookup": {"name": "host.test", "type": "ANY"}})
        lookups.ask(b"1")
        await until(lambda: len(lookups.inlet.rejected) == 6)
    reasons = sorted(reason for _, reason in lookups.inlet.rejected)
    assert reasons[0] == "$dns.lookup is neither a name nor a record of name and type"
    assert "host.test has no record of the type MX" in reasons
    assert "missing.test does not exist" in reasons
    assert "ANY cannot be looked up" in reasons


async def test_one_lookup_that_waits_holds_up_no_other() -> None:
    async with name_server() as (server, address), asking(client(address, timeout=60_000_000_000)) as lookups:
        server.mute.add("mute.test.")
        lookups.ask(b"1", dns={"lookup": "mute.test"})
        await until(lambda: server.asked)
        lookups.ask(b"2", dns={"lookup": {"name": "host.test", "type": "A"}})
        await until(lambda: lookups.out.sent)
        lookups.ack()
        assert lookups.inlet.acked == [b"2\n"]
        assert not lookups.inlet.failed
    assert lookups.inlet.failed == [(b"1\n", "the connector has stopped")]


async def test_a_name_without_an_answer_fails_alone_once_others_have_theirs() -> None:
    async with name_server() as (server, address), asking(client(address, timeout=300_000_000)) as lookups:
        server.mute.add("mute.test.")
        lookups.ask(b"1", dns={"lookup": "mute.test"})
        while not lookups.inlet.failed:
            tries, answers = server.asked.count("mute.test."), len(lookups.out.sent)
            await until(lambda tries=tries: lookups.inlet.failed or server.asked.count("mute.test.") > tries)  # type: ignore[misc]
            lookups.ask(b"2", dns={"lookup": {"name": "host.test", "type": "A"}})
            await until(lambda answers=answers: len(lookups.out.sent) > answers)  # type: ignore[misc]
        ((data, reason),) = lookups.inlet.failed
        assert data == b"1\n"
        assert reason.startswith("no answer: ")


async def test_without_any_answer_the_servers_are_away_and_no_event_fails() -> None:
    async with name_server() as (server, address), asking(client(address, timeout=300_000_000)) as lookups:
        server.mute |= {"host.test.", "mute.test."}
        lookups.ask(b"1", dns={"lookup": {"name": "host.test", "type": "A"}})
        lookups.ask(b"2", dns={"lookup": {"name": "host.test", "type": "A"}})
        await until(lambda: lookups.inlet.breaker)
        await until(lambda: len(server.asked) > 4)
        assert not lookups.inlet.failed
        server.mute.clear()
        await until(lambda: len(lookups.out.sent) == 2)
        assert lookups.inlet.breaker is None
        lookups.ack()


async def test_where_no_answers_are_wanted_a_lookup_is_acked_with_its_answer() -> None:
    async with name_server() as (_, address), asking(client(address), linked=False) as lookups:
        lookups.ask(b"1", dns={"lookup": "host.test"})
        await until(lambda: lookups.inlet.acked)


@pytest.mark.parametrize("lookup", [None, {"type": "A"}, {"name": "a", "type": 1}, {"name": "a", "type": "B"}])
def test_bad_questions(lookup: object) -> None:
    with pytest.raises(BadLookup, match=r"\$dns\.lookup"):
        question_of({"dns": {"lookup": lookup}})


@pytest.mark.parametrize("server", ["name.test", "dns://1.1.1.1/x", "127.0.0.1:99999"])
def test_bad_servers(server: str) -> None:
    with pytest.raises(ValidationError):
        client(server)
