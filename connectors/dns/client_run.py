"""One run: each event asks for one name, and several lookups are under way at a time."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver
from dns.rdata import Rdata

from connectors.dns.client import DnsClientKeys
from walflow import Block, Inlet, Outlet, WalflowError
from walflow.delivery import AnswerEvents, meta_of_one
from walflow.net import Backoff, Failure, HeldPart, NotConfirmed, RequestSeconds, RetryQueue, RetrySink
from walflow.world import monotonic

EITHER: Final = ("A", "AAAA")  # without a type
ATTEMPTS: Final = 3  # that count, of one lookup
NO_ANSWER: Final = Failure(2, counts=True)  # of the servers that this name leads to, or of all


class BadLookup(WalflowError):
    """The lookup can never be answered: its event is rejected."""


class DnsQuestion(NamedTuple):
    name: str
    types: Sequence[str]


class NoResolver(WalflowError):
    """The system names no servers."""


class DnsClientRun:
    def __init__(self, config: DnsClientKeys, inlet: Inlet, out: Outlet) -> None:
        self._config = config
        self._inlet = inlet
        self._out = out
        self._lookups = inlet.counter("lookups_total")
        self._seconds = RequestSeconds(inlet)
        self._queue = RetryQueue[Block](config.concurrency, ATTEMPTS, Backoff(0.1, 10.0))
        self._sink = RetrySink(inlet, self._queue, Backoff(0.1, 10.0), add=self._add, fail=inlet.fail, blocks=_itself)

    async def run(self) -> None:
        """Until it is cancelled. Raises NoResolver."""
        resolver = self._resolver()
        answers = AnswerEvents(self._inlet, self._out)
        try:
            await self._sink.run(partial(self._look_up, resolver, answers))
        finally:
            answers.close(NotConfirmed("walflow has stopped"))

    def _add(self, blocks: Sequence[Block]) -> None:
        """A lookup for each event."""
        for block in blocks:
            self._queue.add([(asked, 1) for asked in block.split([1] * block.frames.count)])

    def _resolver(self) -> dns.asyncresolver.Resolver:
        try:
            resolver = dns.asyncresolver.Resolver(configure=not self._config.servers)
        except dns.resolver.NoResolverConfiguration as error:
            raise NoResolver(f"the system names no servers: {error}") from error
        if self._config.servers:
            resolver.nameservers = [
                dns.nameserver.Do53Nameserver(address.host, address.port) for address in self._config.addresses
            ]
        resolver.lifetime = self._config.timeout / 1_000_000_000
        return resolver

    async def _look_up(
        self, resolver: dns.asyncresolver.Resolver, answers: AnswerEvents, held: HeldPart[Block]
    ) -> None:
        asked = held.part
        self._lookups.value += 1
        began = monotonic()
        outcome = await _outcome(resolver, asked)
        self._seconds.observe(
            "failed"
            if isinstance(outcome, NotConfirmed)
            else "refused"
            if isinstance(outcome, BadLookup)
            else "taken",
            monotonic() - began,
        )
        if isinstance(outcome, NotConfirmed):
            self._sink.failed(held, str(outcome), NO_ANSWER)
            return
        self._sink.passed(held)
        if isinstance(outcome, BadLookup):
            self._inlet.reject(asked, str(outcome))
        else:
            answers.give(asked, [outcome], [{}])


async def _outcome(
    resolver: dns.asyncresolver.Resolver, asked: Block
) -> list[dict[str, object]] | BadLookup | NotConfirmed:
    try:
        return await _records(resolver, question_of(meta_of_one(asked)))
    except BadLookup as error:
        return error
    except (dns.exception.DNSException, OSError) as error:
        return NotConfirmed(f"no answer: {_line(error)}")


async def _records(resolver: dns.asyncresolver.Resolver, question: DnsQuestion) -> list[dict[str, object]]:
    """Raises BadLookup, DNSException and OSError."""
    found: list[dict[str, object]] = []
    try:
        for kind in question.types:
            answer = await resolver.resolve(question.name, kind, raise_on_no_answer=False, search=False)
            for records in answer.response.answer:
                kind_of = dns.rdatatype.to_text(records.rdtype)
                texts = [record.to_text() for record in cast(Iterable[Rdata], records)]
                for text in texts:
                    found.append({kind_of: text, "ttl": records.ttl})  # noqa: PERF401  # a list of these has another type
    except dns.resolver.NXDOMAIN as error:
        raise BadLookup(f"{question.name} does not exist") from error
    except dns.resolver.NoMetaqueries as error:
        raise BadLookup(f"{question.types[0]} cannot be looked up") from error
    except (
        dns.name.LabelTooLong,
        dns.name.NameTooLong,
        dns.name.EmptyLabel,
        dns.name.BadEscape,
        UnicodeError,
    ) as error:
        raise BadLookup(f"{question.name[:300]!r} is no name: {_line(error)}") from error
    except dns.name.IDNAException as error:
        raise BadLookup(f"{question.name[:300]!r} is no name: {_line(error)}") from error
    if not found:
        raise BadLookup(f"{question.name} has no record of the type {' or '.join(question.types)}")
    return found


def question_of(meta: Mapping[str, object]) -> DnsQuestion:
    """Of `$dns.lookup`, a name or a record of `name` and `type`. Raises BadLookup."""
    own = meta.get("dns")
    lookup = cast(Mapping[str, object], own).get("lookup") if isinstance(own, Mapping) else None
    if isinstance(lookup, str):
        return DnsQuestion(lookup, EITHER)
    if not isinstance(lookup, Mapping):
        raise BadLookup("$dns.lookup is neither a name nor a record of name and type")
    given = cast(Mapping[str, object], lookup)
    name, kind = given.get("name"), given.get("type")
    if not isinstance(name, str):
        raise BadLookup("$dns.lookup.name is no string")
    if kind is None:
        return DnsQuestion(name, EITHER)
    try:
        return DnsQuestion(name, (dns.rdatatype.to_text(dns.rdatatype.from_text(cast(str, kind))),))
    except (dns.exception.DNSException, ValueError, AttributeError) as error:
        raise BadLookup(f"$dns.lookup.type is {kind!r}, and no type of record") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _itself(block: Block) -> Sequence[Block]:
    return (block,)
