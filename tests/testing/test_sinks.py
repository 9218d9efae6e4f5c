"""The suite that every sink must pass: green for a good sink, red for each promise that one breaks."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

import pytest

from tests.testing.shelf import TOO_LARGE, Shelf, ShelfConnector, ShelfJob, ShelfSubject, Shelving, shelf_sink
from walflow import Backoff, Block, Inlet, JobEnd, JobSink, Outlet, WalflowError
from walflow.sinks.breaker import StopReason
from walflow.sinks.states import WAKE
from walflow.testing.sinks import SCENARIOS, NotOffered, RunsSink, SinkSubject, check, sink_promises

test_a_good_sink = sink_promises(ShelfSubject)


# broken on purpose: each differs from the good one in one thing


class AcksEarly(Shelving):
    def take(self, waiting: deque[Block]) -> ShelfJob | None:
        job = super().take(waiting)
        for block in job.blocks if job is not None else ():
            self.sink.ack(block)
        return job

    def outcomes(self, job: ShelfJob, error: BaseException | None) -> JobEnd:
        job.blocks = []
        return JobEnd()


class Forgets(Shelving):
    def put(self, block: Block) -> None: ...


class NewestFirst(Shelving):
    def take(self, waiting: deque[Block]) -> ShelfJob | None:
        return ShelfJob([waiting.pop()]) if waiting else None


class SettlesTheFirst(JobSink[ShelfJob]):
    def accept(self, block: Block) -> None:
        if self.state.name == "IDLE":
            super().accept(block)
        else:
            self._work.put(block)  # type: ignore[attr-defined]


class CountsEvents(JobSink[ShelfJob]):
    """A block is settled with the last of its events."""

    def accept(self, block: Block) -> None:
        if block.frames.count:
            super().accept(block)


class RefusesLargeBlocks(JobSink[ShelfJob]):
    def accept(self, block: Block) -> None:
        if len(block.frames.data) > 1 << 16:
            self._inlet.reject(block, "it is too large")
        else:
            super().accept(block)


class TriesForever(Shelving):
    def put(self, block: Block) -> None:
        if block.frames.payloads() == [TOO_LARGE]:
            raise OSError(27, "File too large")
        super().put(block)


class DropsTheRest(Shelving):
    """After trouble it takes all for done."""

    def outcomes(self, job: ShelfJob, error: BaseException | None) -> JobEnd:
        end = super().outcomes(job, error)
        if end.acked and end.trouble:
            rest, job.blocks = job.blocks, []
            return end._replace(acked=[*end.acked, *rest])
        return end


class ClaimsTooMuch(Shelving):
    def unfinished(self, job: ShelfJob) -> Iterable[tuple[Block, int]]:
        return ((block, 1) for block in job.blocks)


class LosesEmptyEvents(Shelving):
    def put(self, block: Block) -> None:
        self.shelf.events += [event for event in block.frames.payloads() if event != b'""']


class RejectsNeighbours(Shelving):
    def outcomes(self, job: ShelfJob, error: BaseException | None) -> JobEnd:
        end = super().outcomes(job, error)
        return (
            JobEnd(rejected=[(block, "a neighbour is bad") for block in end.acked] + [*end.rejected])
            if end.rejected
            else end
        )


class TakesAnyMetadata(Shelving):
    def outcomes(self, job: ShelfJob, error: BaseException | None) -> JobEnd:
        end = super().outcomes(job, error)
        return JobEnd([*end.acked, *(part for part, _ in end.rejected)])


class SwallowsBugs(Shelving):
    def explain(self, error: BaseException) -> str:
        return str(error)


class AcksWithinAcks(JobSink[ShelfJob]):
    """Its own pump, without a guard."""

    def accept(self, block: Block) -> None:
        self._work.put(block)  # type: ignore[attr-defined]
        self._inlet.ack(block)


class SaysItAgain(JobSink[ShelfJob]):
    def _troubled(self, cause: WalflowError) -> None:
        super()._troubled(cause)
        self._inlet.trigger(str(cause))


class KeepsItsReason(JobSink[ShelfJob]):
    def _troubled(self, cause: WalflowError) -> None:
        super()._troubled(self.trouble or cause)


class NeverRestores(JobSink[ShelfJob]):
    def _well(self) -> None:
        self.trouble = None


class FailsWhatItHolds(JobSink[ShelfJob]):
    def _troubled(self, cause: WalflowError) -> None:
        super()._troubled(cause)
        self._fail_held(cause)


class WaitsOn(JobSink[ShelfJob]):
    def retry(self) -> None: ...


class IgnoresOthers(JobSink[ShelfJob]):
    """As files, logs and the tutorial's sink did once."""

    def _troubled(self, cause: WalflowError) -> None:
        self.trouble = cause
        self.breaker.trigger(StopReason.TROUBLE, str(cause))

    def accept(self, block: Block) -> None:
        self.waiting.append(block)
        if self.state.name == "IDLE":
            self._becomes(WAKE)
            self._inlet.scheduler.call_soon(self._next)


class FailsBeforeItTriggers(JobSink[ShelfJob]):
    def _troubled(self, cause: WalflowError) -> None:
        if self._inlet.upstream.replaceable:
            self._fail_held(cause)
        super()._troubled(cause)


class NeverProbes(JobSink[ShelfJob]):
    def _retry(self) -> None:
        if not self._inlet.upstream.replaceable:
            super()._retry()


class StopsAtOnce(JobSink[ShelfJob]):
    async def close(self) -> None:
        self._fail_held(WalflowError("it has stopped"))


class NeverStops(JobSink[ShelfJob]):
    async def close(self) -> None:
        await asyncio.Event().wait()


class KeepsItsTimer(JobSink[ShelfJob]):
    def _end_wait(self) -> None: ...


class HoldsAfterTheEnd(JobSink[ShelfJob]):
    def accept(self, block: Block) -> None:
        if self.state.name != "CLOSED":
            super().accept(block)


class OneForAllRuns:
    """Its engine is not made anew."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._sink: JobSink[ShelfJob] | None = None

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if self._sink is None:
            self._sink = shelf_sink(inlet, self._shelf)
        await self._sink.run()


def with_work(work: Callable[[Shelf], Shelving]) -> Callable[[Shelf], RunsSink]:
    return lambda shelf: ShelfConnector(shelf, lambda inlet, own: JobSink(inlet, work(own)))


def with_sink(sink: type[JobSink[ShelfJob]]) -> Callable[[Shelf], RunsSink]:
    def make(inlet: Inlet, shelf: Shelf) -> JobSink[ShelfJob]:
        made = sink(inlet, Shelving(shelf))
        inlet.on_reopen(made.retry)
        return made

    return lambda shelf: ShelfConnector(shelf, make)


def same_waits(shelf: Shelf) -> RunsSink:
    return ShelfConnector(shelf, lambda inlet, own: JobSink(inlet, Shelving(own), backoff=Backoff(0.1, 0.1)))


BROKEN: dict[str, Callable[[Shelf], RunsSink]] = {
    "an_event_is_acked_after_it_has_arrived": with_work(Forgets),
    "nothing_is_acked_before_it_has_arrived": with_work(AcksEarly),
    "events_arrive_in_their_order": with_work(NewestFirst),
    "each_block_has_one_outcome": with_sink(SettlesTheFirst),
    "an_event_may_be_empty": with_work(LosesEmptyEvents),
    "a_block_may_be_empty": with_sink(CountsEvents),
    "a_block_that_is_too_large_for_one_go_arrives_whole": with_sink(RefusesLargeBlocks),
    "one_that_is_too_large_is_rejected_and_its_neighbours_arrive": with_work(TriesForever),
    "one_that_it_never_takes_is_rejected_and_its_neighbours_arrive": with_work(RejectsNeighbours),
    "metadata_that_it_cannot_use_is_rejected": with_work(TakesAnyMetadata),
    "what_an_ack_brings_waits_its_turn": with_sink(AcksWithinAcks),
    "trouble_stops_the_sources_and_is_said_once": with_sink(SaysItAgain),
    "another_reason_is_shown": with_sink(KeepsItsReason),
    "it_recovers_by_itself_and_lets_the_sources_send": with_sink(NeverRestores),
    "the_waits_grow_and_begin_anew_after_a_success": same_waits,
    "what_comes_meanwhile_is_held_and_arrives_in_order": with_sink(FailsWhatItHolds),
    "after_trouble_within_a_block_its_rest_arrives_or_fails": with_work(DropsTheRest),
    "a_stop_within_a_block_fails_what_has_not_arrived": with_work(ClaimsTooMuch),
    "sighup_ends_a_wait": with_sink(WaitsOn),
    "where_others_take_its_events_it_holds_none_before_it_can_deliver": with_sink(IgnoresOthers),
    "where_others_take_its_events_trouble_gives_them_back": with_sink(FailsBeforeItTriggers),
    "where_others_take_its_events_it_tries_again_by_itself": with_sink(NeverProbes),
    "a_bug_ends_the_run_and_all_fails": with_work(SwallowsBugs),
    "it_stops_while_it_rests": with_sink(NeverStops),
    "a_stop_waits_for_what_is_under_way": with_sink(StopsAtOnce),
    "a_stop_in_trouble_fails_what_is_held": with_sink(KeepsItsTimer),
    "a_block_that_comes_after_the_stop_fails_at_once": with_sink(HoldsAfterTheEnd),
    "a_second_run_begins_anew": OneForAllRuns,
}
"""By the scenario that finds it."""


def test_each_scenario_has_a_sink_that_breaks_it() -> None:
    assert BROKEN.keys() == SCENARIOS.keys()


@pytest.mark.parametrize("name", BROKEN)
def test_a_sink_that_breaks_a_promise_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walflow.testing.sinks.PATIENCE", 60)
    with pytest.raises((AssertionError, RecursionError, WalflowError)):
        asyncio.run(check(name, ShelfSubject(BROKEN[name])))


def test_what_a_subject_does_not_offer_is_said() -> None:
    class Poor(ShelfSubject):
        fail = SinkSubject.fail

    with pytest.raises(NotOffered, match="trouble"):
        asyncio.run(check("it_recovers_by_itself_and_lets_the_sources_send", Poor()))
