"""What every sink owes, as tests. A test file needs one line:

    test_spool = sink_promises(SpoolSubject)

A `SinkSubject` is the sink's world: it makes the connector, says which events have arrived, and makes the peer fail
and work again. A scenario that needs what a subject does not offer is skipped, with the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from walflow.contract import Inlet, Outlet
from walflow.event import Block
from walflow.testing.world import MemoryInlet, MemoryOutlet, VirtualScheduler

PATIENCE: Final = 2_000  # steps of `until`, each 50 ms of virtual time and a moment of real time
MOMENT: Final = 0.002


class RunsSink(Protocol):
    """A connector, or what else runs as one."""

    async def run(self, inlet: Inlet, out: Outlet) -> None: ...


class NotOffered(Exception):
    """The subject cannot do what a scenario needs."""


class SinkSubject:
    """One for each scenario. `never`: an event that this sink rejects. `too_large`: one that is larger than its peer
    ever takes. `large`: bytes of a block that its peer does not take at once. `bad_meta`: metadata for which it
    rejects an event. `behind_log`: a source upstream sends again what fails. `ordered`: events arrive in the order in
    which they came. `exactly`: none arrives twice, although trouble came when some of a block had arrived. `notices`:
    the sink sees trouble without a try, as the end of a connection. `sighup_ends_waits`: it tries again at once."""

    never: bytes | None = None
    too_large: bytes | None = None
    large = 1 << 20
    bad_meta: Mapping[str, object] | None = None
    behind_log = True
    ordered = True
    exactly = True
    notices = False
    sighup_ends_waits = False

    async def open(self) -> RunsSink:
        """Makes the peer, and the connector."""
        raise NotImplementedError

    async def ready(self) -> None:
        """The sink takes blocks: what else has to be there before the first one."""

    async def again(self) -> RunsSink:
        """The same connector for a second run, with the same peer."""
        raise NotOffered("a second run")

    def got(self) -> Sequence[bytes]:
        """The events that have arrived, without their ends, in order."""
        raise NotImplementedError

    def meta_of(self, payload: bytes) -> Mapping[str, object] | None:
        """The metadata that an event needs, to be one for this sink."""
        return None

    def fail(self) -> None:
        """From now on the peer takes nothing."""
        raise NotOffered("trouble")

    def fail_after(self, events: int) -> None:
        """The peer takes so many more events of the next block, and then nothing."""
        raise NotOffered("trouble within a block")

    def fail_otherwise(self) -> None:
        """The same, for another reason."""
        raise NotOffered("another trouble")

    def mend(self) -> None:
        """It takes events again."""

    def scheduler(self) -> VirtualScheduler:
        """Of one run. Another one is for a sink whose jobs wait for a peer."""
        return VirtualScheduler()

    def hold(self, scheduler: VirtualScheduler) -> None:
        """What is under way does not end, until `release`."""
        raise NotOffered("work that takes long")

    def release(self, scheduler: VirtualScheduler) -> None: ...

    def bug(self) -> None:
        """The next delivery fails as it never should."""
        raise NotOffered("a bug")

    async def close(self) -> None:
        """Nothing is left behind."""


class JobsOnThread(SinkSubject):
    """The subject of a `JobSink`: a job takes as long as the test wants."""

    def hold(self, scheduler: VirtualScheduler) -> None:
        scheduler.holding = True

    def release(self, scheduler: VirtualScheduler) -> None:
        scheduler.holding = False


class Failing(NamedTuple):
    """A block that failed, at that time, with that reason at the breaker."""

    data: bytes
    breaker: str | None


class WatchedInlet(MemoryInlet):
    """Notes when tries failed, and how the breaker stood when a block did. `on_ack`: called within each ack."""

    def __init__(self, scheduler: VirtualScheduler, *, behind_log: bool = True, replaceable: bool = False) -> None:
        super().__init__(scheduler, behind_log=behind_log, replaceable=replaceable)
        self.times: list[float] = []
        self.failings: list[Failing] = []
        self.given: list[Block] = []
        self.on_ack: Callable[[], None] = lambda: None

    @property
    def serves(self) -> bool:
        """The sink takes blocks, by `serve` or by `take`."""
        return self._accept is not None or self._arrived is not None

    @property
    def waits(self) -> int:
        """Blocks that nobody has taken."""
        return len(self._waiting)

    def give(self, *blocks: Block) -> None:
        self.given += blocks
        super().give(*blocks)

    def failed_try(self, cause: str, block: Block | None = None) -> None:
        self.times.append(self.scheduler.time())
        super().failed_try(cause, block)

    def fail(self, block: Block, cause: BaseException, done: int = 0) -> None:
        self.failings.append(Failing(block.frames.data, self.breaker))
        super().fail(block, cause, done)

    def ack(self, block: Block) -> None:
        super().ack(block)
        self.on_ack()


class SinkTrial:
    """A run of a sink, driven by a scenario."""

    def __init__(self, subject: SinkSubject) -> None:
        self.subject = subject
        self.scheduler = subject.scheduler()
        self.inlet = WatchedInlet(self.scheduler)
        self.given: list[Block] = []
        self.run: asyncio.Future[None] | None = None

    async def start(self, *, replaceable: bool = False) -> None:
        self.inlet = WatchedInlet(self.scheduler, behind_log=self.subject.behind_log, replaceable=replaceable)
        self._run(await self.subject.open())
        await self.settle()

    async def start_again(self) -> None:
        connector = await self.subject.again()
        self.inlet = WatchedInlet(self.scheduler, behind_log=self.subject.behind_log)
        self._run(connector)
        await self.settle()

    async def started(self) -> None:
        await self.start()
        await self.until(lambda: self.inlet.serves, "the sink takes blocks")
        await self.subject.ready()

    def _run(self, connector: RunsSink) -> None:
        self.run = asyncio.ensure_future(connector.run(self.inlet, MemoryOutlet(self.scheduler, linked=False)))

    def give(self, *payloads: bytes, meta: Mapping[str, object] | None = None) -> Block:
        data = b"".join(payload + b"\n" for payload in payloads)
        block = self.inlet.block(data, meta=meta)
        metas = [own for payload in payloads if (own := self.subject.meta_of(payload)) is not None]
        if metas and meta is None:
            block.event_metas = metas
        self.given.append(block)
        self.inlet.give(block)
        return block

    async def settle(self) -> None:
        """What is due now."""
        for _ in range(10):
            self.scheduler.run()
            await asyncio.sleep(0)
        await asyncio.sleep(MOMENT)
        self.scheduler.run()

    async def passes(self, seconds: float) -> None:
        """Virtual time."""
        for _ in range(max(1, round(seconds / 0.05))):
            self.scheduler.advance(0.05)
            await asyncio.sleep(0)
        await self.settle()

    async def until(self, holds: Callable[[], object], what: str) -> None:
        for _ in range(PATIENCE):
            if holds():
                return
            self.scheduler.advance(0.05)
            await asyncio.sleep(MOMENT)
        raise AssertionError(
            f"not within {PATIENCE * 0.05:g} s: {what}. {self.inlet.breaker=}, {self.inlet.lines[-3:]}"
        )

    async def arrive(self, *payloads: bytes) -> None:
        wanted = [*payloads]
        await self.until(lambda: len(self.subject.got()) >= len(wanted), f"{wanted} arrive, not {self.subject.got()}")
        found = [*self.subject.got()]
        if not self.subject.ordered:
            found, wanted = sorted(found), sorted(wanted)
        assert found == wanted, "each event once, in order"

    async def all_settled(self) -> None:
        """Each block has its one outcome; a second one for a block is an AssertionError of the inlet."""
        inlet = self.inlet
        await self.until(lambda: len(inlet.settled) == len(inlet.given) - inlet.waits, "each block has its outcome")

    async def in_trouble(self, *payloads: bytes) -> None:
        """The peer takes nothing, and the sink has noticed."""
        before = len(self.inlet.triggered)
        self.subject.fail()
        if not self.subject.notices:
            self.give(*payloads)
        await self.until(lambda: len(self.inlet.triggered) > before, "the breaker is triggered")
        if self.subject.notices:
            self.give(*payloads)

    async def stop(self) -> None:
        """As a drain or a signal does."""
        run = self.run
        if run is None:
            return
        self.run = None
        run.cancel()
        await self.ended(run)

    async def ended(self, run: "asyncio.Future[None]") -> None:
        for _ in range(PATIENCE):
            if run.done():
                break
            self.scheduler.run()
            await asyncio.sleep(MOMENT)
        assert run.done(), "the run ends when it is cancelled"
        if not run.cancelled() and (error := run.exception()) is not None:
            raise error


Scenario = Callable[[SinkTrial], Awaitable[None]]
SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(check: Scenario) -> Scenario:
    SCENARIOS[check.__name__] = check
    return check


def sink_promises(
    subject: Callable[[], SinkSubject], *, without: Mapping[str, str] | None = None
) -> Callable[..., object]:
    """A test for pytest: each scenario, with a subject of its own.
    `without`: scenarios that do not hold, each with the reason."""
    import pytest  # for tests alone

    left_out = without or {}
    assert left_out.keys() <= SCENARIOS.keys(), "there are such scenarios"

    @pytest.mark.parametrize("name", SCENARIOS)
    def promised(name: str) -> None:
        if name in left_out:
            pytest.skip(left_out[name])
        try:
            asyncio.run(check(name, subject()))
        except NotOffered as lacking:
            pytest.skip(f"the subject does not offer {lacking}")

    return promised


async def check(name: str, subject: SinkSubject) -> None:
    """One scenario. Raises AssertionError, or NotOffered."""
    trial = SinkTrial(subject)
    try:
        await SCENARIOS[name](trial)
        await trial.stop()
        await trial.all_settled()
    finally:
        subject.release(trial.scheduler)
        if trial.run is not None:
            trial.run.cancel()
            for _ in range(PATIENCE):
                trial.scheduler.run()
                await asyncio.sleep(0)
                if trial.run.done():
                    break
            await asyncio.gather(trial.run, return_exceptions=True)
        for block in trial.given:
            if block.receipt.pending:  # a scenario has failed, and says why
                block.receipt.withdraw()
        await subject.close()


# what arrives, and what is acked


@scenario
async def an_event_is_acked_after_it_has_arrived(trial: SinkTrial) -> None:
    await trial.started()
    trial.give(b"1")
    await trial.until(lambda: trial.inlet.acked, "the ack")
    await trial.arrive(b"1")


@scenario
async def nothing_is_acked_before_it_has_arrived(trial: SinkTrial) -> None:
    await trial.started()
    trial.subject.hold(trial.scheduler)
    trial.give(b"1")
    await trial.passes(0.2)
    assert not trial.inlet.settled, "the work is not done yet"
    trial.subject.release(trial.scheduler)
    await trial.until(lambda: trial.inlet.acked == [b"1\n"], "the ack")


@scenario
async def events_arrive_in_their_order(trial: SinkTrial) -> None:
    await trial.started()
    numbers = [b"%d" % number for number in range(40)]
    for start in range(0, 40, 4):
        trial.give(*numbers[start : start + 4])
        if start % 3 == 0:
            await trial.settle()
    await trial.arrive(*numbers)
    await trial.until(lambda: sum(data.count(b"\n") for data in trial.inlet.acked) == 40, "all acks")


@scenario
async def each_block_has_one_outcome(trial: SinkTrial) -> None:
    await trial.started()
    for number in range(10):
        trial.give(b"%d" % number, b"x")
    await trial.all_settled()
    assert all(receipt.cause is None for receipt in trial.inlet.settled)


@scenario
async def an_event_may_be_empty(trial: SinkTrial) -> None:
    """Two quotation marks: an empty text."""
    await trial.started()
    trial.give(b'""')
    await trial.arrive(b'""')
    await trial.all_settled()


@scenario
async def a_block_may_be_empty(trial: SinkTrial) -> None:
    """It has an outcome, too."""
    await trial.started()
    trial.give()
    trial.give(b"1")
    trial.give()
    await trial.arrive(b"1")
    await trial.all_settled()
    assert len(trial.inlet.settled) == 3
    assert all(receipt.cause is None for receipt in trial.inlet.settled)


@scenario
async def a_block_that_is_too_large_for_one_go_arrives_whole(trial: SinkTrial) -> None:
    await trial.started()
    size = max(8, trial.subject.large >> 8)
    events = [b'"%0*d"' % (size, number) for number in range(300)]
    trial.give(*events)
    await trial.arrive(*events)
    await trial.all_settled()
    assert not trial.inlet.rejected
    assert all(receipt.cause is None for receipt in trial.inlet.settled)


@scenario
async def one_that_is_too_large_is_rejected_and_its_neighbours_arrive(trial: SinkTrial) -> None:
    if (large := trial.subject.too_large) is None:
        raise NotOffered("an event that is too large")
    await trial.started()
    trial.give(b"1", large, b"2")
    trial.give(b"3")
    await trial.arrive(b"1", b"2", b"3")
    await trial.until(lambda: trial.inlet.rejected, "it is rejected")
    assert [data for data, _ in trial.inlet.rejected] == [large + b"\n"]
    assert trial.inlet.breaker is None, "its peer is well"


@scenario
async def one_that_it_never_takes_is_rejected_and_its_neighbours_arrive(trial: SinkTrial) -> None:
    if (never := trial.subject.never) is None:
        raise NotOffered("an event that is never taken")
    await trial.started()
    trial.give(b"1", never, b"2")
    trial.give(never)
    trial.give(b"3")
    await trial.arrive(b"1", b"2", b"3")
    await trial.until(lambda: len(trial.inlet.rejected) == 2, "both are rejected")
    assert [data for data, _ in trial.inlet.rejected] == [never + b"\n"] * 2
    assert all(reason for _, reason in trial.inlet.rejected)
    assert trial.inlet.breaker is None, "its peer is well"


@scenario
async def metadata_that_it_cannot_use_is_rejected(trial: SinkTrial) -> None:
    if (meta := trial.subject.bad_meta) is None:
        raise NotOffered("metadata of its own")
    await trial.started()
    trial.give(b"1", meta=meta)
    trial.give(b"2")
    await trial.arrive(b"2")
    await trial.until(lambda: [data for data, _ in trial.inlet.rejected] == [b"1\n"], "it is rejected")


@scenario
async def what_an_ack_brings_waits_its_turn(trial: SinkTrial) -> None:
    await trial.started()
    left = [b"%d" % number for number in range(200)]
    wanted = [*left]

    def next_one() -> None:
        if left:
            trial.give(left.pop(0))

    trial.inlet.on_ack = next_one
    next_one()
    await trial.until(lambda: len(trial.inlet.acked) == len(wanted), "all acks")
    await trial.arrive(*wanted)
    await trial.all_settled()


# while nothing can be delivered


@scenario
async def trouble_stops_the_sources_and_is_said_once(trial: SinkTrial) -> None:
    await trial.started()
    await trial.in_trouble(b"1")
    await trial.passes(5)
    assert trial.inlet.breaker is not None
    assert len(trial.inlet.triggered) == len(set(trial.inlet.triggered)), "no reason twice"
    assert not trial.inlet.acked


@scenario
async def another_reason_is_shown(trial: SinkTrial) -> None:
    await trial.started()
    await trial.in_trouble(b"1")
    before = trial.inlet.breaker
    trial.subject.fail_otherwise()
    await trial.until(lambda: trial.inlet.breaker not in (None, before), "the new reason")


@scenario
async def it_recovers_by_itself_and_lets_the_sources_send(trial: SinkTrial) -> None:
    await trial.started()
    await trial.in_trouble(b"1")
    trial.subject.mend()
    await trial.arrive(b"1")
    await trial.until(lambda: trial.inlet.breaker is None, "the breaker is restored")
    trial.give(b"2")
    await trial.arrive(b"1", b"2")


@scenario
async def the_waits_grow_and_begin_anew_after_a_success(trial: SinkTrial) -> None:
    await trial.started()
    await trial.in_trouble(b"1")
    await trial.until(lambda: len(trial.inlet.times) >= 6, "it is tried again")
    times = trial.inlet.times[:6]
    waits = [after - before for before, after in pairwise(times)]
    assert waits[-1] > waits[0], f"{waits} grow"
    trial.subject.mend()
    await trial.arrive(b"1")
    await trial.until(lambda: trial.inlet.breaker is None, "it is well")
    trial.inlet.times.clear()
    await trial.in_trouble(b"2")
    await trial.until(lambda: len(trial.inlet.times) >= 2, "it is tried again")
    assert trial.inlet.times[1] - trial.inlet.times[0] < waits[-1]
    trial.subject.mend()


@scenario
async def what_comes_meanwhile_is_held_and_arrives_in_order(trial: SinkTrial) -> None:
    await trial.started()
    await trial.in_trouble(b"1")
    for number in range(2, 9):
        trial.give(b"%d" % number)
    await trial.passes(1)
    assert not trial.inlet.settled
    trial.subject.mend()
    await trial.arrive(*[b"%d" % number for number in range(1, 9)])
    await trial.until(lambda: len(trial.inlet.acked) == 8, "all acks")


@scenario
async def after_trouble_within_a_block_its_rest_arrives_or_fails(trial: SinkTrial) -> None:
    """It fails where the sink gives back what its peer may have."""
    await trial.started()
    events = [b"1", b"2", b"3", b"4", b"5"]
    trial.subject.fail_after(2)
    trial.give(*events)
    await trial.until(lambda: trial.inlet.triggered, "the breaker is triggered")
    trial.subject.mend()
    await trial.until(lambda: trial.inlet.breaker is None, "the breaker is restored")
    await trial.all_settled()
    _each_once(trial, events)


@scenario
async def a_stop_within_a_block_fails_what_has_not_arrived(trial: SinkTrial) -> None:
    await trial.started()
    events = [b"1", b"2", b"3", b"4", b"5"]
    trial.subject.fail_after(2)
    trial.give(*events)
    await trial.until(lambda: trial.inlet.triggered, "the breaker is triggered")
    await trial.stop()
    _each_once(trial, events)
    trial.subject.mend()


def _each_once(trial: SinkTrial, events: Sequence[bytes]) -> None:
    """Each event has arrived, or has failed."""
    failed = b"".join(data for data, _ in trial.inlet.failed).splitlines()
    found = [*trial.subject.got(), *failed]
    assert {*found} == {*events}
    if trial.subject.exactly:
        assert found == [*events] if trial.subject.ordered else sorted(found) == sorted(events), "none twice"


@scenario
async def sighup_ends_a_wait(trial: SinkTrial) -> None:
    if not trial.subject.sighup_ends_waits:
        raise NotOffered("a wait that SIGHUP ends")
    await trial.started()
    await trial.in_trouble(b"1")
    await trial.until(lambda: len(trial.inlet.times) >= 4, "it is tried again")
    trial.subject.mend()
    trial.inlet.reopen()
    trial.scheduler.run()
    await trial.settle()
    assert trial.subject.got() == [b"1"], "at once"


# behind a round robin


@scenario
async def where_others_take_its_events_it_holds_none_before_it_can_deliver(trial: SinkTrial) -> None:
    trial.subject.fail()
    await trial.start(replaceable=True)
    trial.give(b"1")
    await trial.until(lambda: trial.inlet.waits or trial.inlet.failed, "it takes none, or another gets it")
    assert not trial.inlet.acked
    trial.subject.mend()


@scenario
async def where_others_take_its_events_trouble_gives_them_back(trial: SinkTrial) -> None:
    await trial.start(replaceable=True)
    await trial.until(lambda: trial.inlet.serves and trial.inlet.breaker is None, "the sink takes blocks")
    await trial.in_trouble(b"1")
    trial.give(b"2")
    await trial.until(lambda: len(trial.inlet.settled) == 2, "others get both")
    assert [data for data, _ in trial.inlet.failed] == [b"1\n", b"2\n"]
    assert all(failing.breaker for failing in trial.inlet.failings), "the breaker is triggered before anything fails"
    trial.subject.mend()


@scenario
async def where_others_take_its_events_it_tries_again_by_itself(trial: SinkTrial) -> None:
    await trial.start(replaceable=True)
    await trial.until(lambda: trial.inlet.serves and trial.inlet.breaker is None, "the sink takes blocks")
    await trial.in_trouble(b"1")
    await trial.until(lambda: trial.inlet.failed, "others get it")
    trial.subject.mend()
    await trial.until(lambda: trial.inlet.breaker is None, "it lets the sources send")
    trial.give(b"2")
    await trial.arrive(b"2")
    await trial.until(lambda: trial.inlet.acked == [b"2\n"], "the ack")


# the end


@scenario
async def a_bug_ends_the_run_and_all_fails(trial: SinkTrial) -> None:
    await trial.started()
    trial.subject.bug()
    trial.give(b"1")
    trial.give(b"2")
    run = trial.run
    assert run is not None
    await trial.until(run.done, "the run ends")
    trial.run = None
    assert run.exception() is not None
    assert {data for data, _ in trial.inlet.failed} == {b"1\n", b"2\n"}


@scenario
async def it_stops_while_it_rests(trial: SinkTrial) -> None:
    await trial.started()
    trial.give(b"1")
    await trial.all_settled()
    await trial.stop()
    assert not trial.inlet.failed


@scenario
async def a_stop_waits_for_what_is_under_way(trial: SinkTrial) -> None:
    await trial.started()
    trial.subject.hold(trial.scheduler)
    trial.give(b"1")
    await trial.settle()
    trial.give(b"2")  # it may wait for the other
    run = trial.run
    assert run is not None
    run.cancel()
    await trial.settle()
    assert not run.done(), "a job is on its thread"
    trial.subject.release(trial.scheduler)
    trial.run = None
    await trial.ended(run)
    assert b"1\n" in trial.inlet.acked, "it has arrived"
    assert trial.inlet.acked[1:] + [data for data, _ in trial.inlet.failed] == [b"2\n"]


@scenario
async def a_stop_in_trouble_fails_what_is_held(trial: SinkTrial) -> None:
    await trial.started()
    await trial.in_trouble(b"1")
    trial.give(b"2")
    await trial.stop()
    assert [data for data, _ in trial.inlet.failed] == [b"1\n", b"2\n"]
    assert trial.scheduler.timers == [], "no timer is left"
    trial.subject.mend()


@scenario
async def a_block_that_comes_after_the_stop_fails_at_once(trial: SinkTrial) -> None:
    await trial.started()
    await trial.stop()
    trial.give(b"1")
    await trial.settle()
    assert trial.inlet.waits or [data for data, _ in trial.inlet.failed] == [b"1\n"]


@scenario
async def a_second_run_begins_anew(trial: SinkTrial) -> None:
    await trial.started()
    await trial.in_trouble(b"1")
    await trial.stop()
    trial.subject.mend()
    await trial.start_again()
    await trial.until(lambda: trial.inlet.serves, "the sink takes blocks")
    trial.give(b"2")
    await trial.until(lambda: trial.inlet.acked == [b"2\n"], "the ack")
    assert trial.subject.got()[-1] == b"2"
    assert trial.inlet.breaker is None
