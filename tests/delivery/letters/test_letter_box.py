"""What a sink rejects stays with the log, for that sink, until it is sent again, dropped, or its room is needed."""

import errno
from collections.abc import Sequence
from typing import Any

import pytest

from tests.delivery.apart import Apart
from tests.delivery.test_lane_rejects import fails_the_first
from tests.delivery.test_lanes import FAN
from walflow.contract import LetterAnswer
from walflow.delivery.letters import POSITION, Letter, LetterBox, directory_of
from walflow.delivery.letters.box import BUSY, FOR_AGE, FOR_EVENTS, NOT_OPEN
from walflow.delivery.letters.store import BY_HAND, FOR_THE_DISK
from walflow.testing import MemoryDisk
from walflow.wal.tools.inspect import look
from walflow.wal.trail import DROPPED, GONE

SINKS = ["near", "far"]
CONFIG = '"lanes": "apart", "chunk_size": 65536, "max_chunks": 8'


def box(flow: Apart, sink: str = "far") -> LetterBox:
    return next(one for one in flow.running.letters if one.path == directory_of("/log", sink))


def reject(flow: Apart, *ids: int, why: str = "bad", sink: str = "far") -> None:
    """Of what waits there, these; the rest is acked."""
    node, waiting = flow.sinks[sink].node, flow.sinks[sink].waiting
    for block in waiting[:]:
        waiting.remove(block)
        parts = block.split([1] * block.frames.count) if block.frames.count > 1 else [block]
        for part in parts:
            (value,) = part.values
            if value["id"] in ids:  # type: ignore[index]
                node.reject(part, why)
            else:
                node.ack(part)
    flow.settle()


def retry(
    flow: Apart, first: int, last: int, mended: dict[int, bytes] | None = None, sink: str = "far"
) -> LetterAnswer:
    answers: list[LetterAnswer] = []
    box(flow, sink).retry([(first, last)], mended or {}, answers.append)
    flow.settle()
    flow.scheduler.advance(0.0 if answers else 2.0)
    (answer,) = answers
    return answer


def state(flow: Apart, sink: str = "far") -> Sequence[int]:
    """kept, going, delivered, rejected"""
    found = box(flow, sink).state()
    return [found.kept, found.going, found.delivered, found.rejected]


def test_a_rejected_event_is_settled_once_its_letter_is_on_disk() -> None:
    flow = Apart(FAN, SINKS)
    flow.give(1)
    flow.ack("near")
    far = flow.sinks["far"]
    far.node.reject(far.waiting.pop(), "bad")
    assert flow.lanes() == {"near": 0, "far": 1}
    assert not flow.disk.names("/log/letters"), "nothing of it is on disk"
    flow.settle()
    assert flow.lanes() == {"near": 0, "far": 0}
    assert state(flow) == [1, 0, 0, 0]
    flow.close()


@pytest.mark.parametrize("before", [0, 1])
def test_at_the_end_a_rejected_event_is_a_letter_or_comes_again(before: int) -> None:
    disk = MemoryDisk()
    flow = Apart(FAN, SINKS, disk=disk)
    for number in range(before):  # so that its log is open
        flow.give(number)
        reject(flow, number)
    flow.give(11)
    flow.ack("near")
    far = flow.sinks["far"]
    far.node.reject(far.waiting.pop(), "bad")
    flow.running.stop()
    flow.close()
    flow = Apart(FAN, SINKS, disk=disk)
    reject(flow, 11)
    assert state(flow) == [before + 1, 0, 0, 0]
    flow.close()


def test_only_the_sink_that_rejected_it_gets_it_again() -> None:
    flow = Apart(FAN, SINKS)
    flow.give(1, 2, 3)
    flow.ack("near")
    reject(flow, 2)
    assert flow.lanes() == {"near": 0, "far": 0}
    assert state(flow) == [1, 0, 0, 0]
    assert retry(flow, 1, 1)[:3] == (1, 0, 1)
    flow.ack("far")
    assert state(flow) == [0, 0, 1, 0]
    assert flow.ids("far") == [1, 2, 3, 2]
    assert flow.ids("near") == [1, 2, 3]
    flow.close()


def test_what_is_rejected_again_is_a_new_letter_with_one_more_try() -> None:
    flow = Apart(FAN, SINKS)
    flow.give(1)
    flow.ack("near")
    reject(flow, 1)
    for number, tries in ((1, 1), (3, 2), (5, 3)):  # what goes takes a number too
        assert retry(flow, number, number).taken == 1
        (block,) = flow.sinks["far"].waiting
        known = Letter.of(block.meta)
        assert known is not None
        assert (known.tries, known.again_for) == (tries, [(number, number)])
        reject(flow, 1, why=f"bad still, {tries}")
    assert state(flow) == [1, 0, 0, 3]
    flow.close()


def test_ranges_that_overlap_send_each_letter_once() -> None:
    flow = Apart(FAN, SINKS)
    flow.give(1, 2, 3)
    flow.ack("near")
    reject(flow, 1, 2, 3)
    answers: list[LetterAnswer] = []
    box(flow).retry([(2, 3), (1, 2), (3, 3)], {}, answers.append)
    flow.settle()
    assert [one.taken for one in answers] == [3]
    flow.ack("far")
    assert flow.ids("far") == [1, 2, 3, 1, 2, 3]
    flow.close()


def test_of_very_many_some_go_at_a_time() -> None:
    flow = Apart(FAN, SINKS, config='"chunk_size": 8388608')
    for first in range(1, 61, 4):
        flow.give(*range(first, first + 4), size=50_000)
    flow.ack("near")
    while flow.sinks["far"].waiting:
        reject(flow, *range(1, 61))
    taken: list[int] = []
    while sum(taken) < 60:
        taken.append(retry(flow, 1, 9999).taken)
        flow.ack("far")
    assert len(taken) == 3, "1 MiB and a little"
    assert flow.ids("far")[60:] == [*range(1, 61)]
    flow.close()


def test_what_is_about_to_go_is_no_letter_any_more() -> None:
    """The copy of the letter waits for room on the disk. No other request sends or drops the letter."""
    flow = Apart(FAN, SINKS)
    flow.give(1, 2)
    flow.ack("near")
    reject(flow, 1, 2)
    flow.disk.fault = no_room
    assert "No space left" in retry(flow, 1, 1).refusal
    dropped: list[LetterAnswer] = []
    box(flow).drop([(1, 2)], dropped.append)
    assert [one.taken for one in dropped] == [1]
    flow.disk.fault = None
    flow.scheduler.advance(5.0)
    flow.settle()
    assert retry(flow, 1, 2).taken == 0
    flow.ack("far")
    assert flow.ids("far") == [1, 2, 1]
    flow.close()


def test_after_a_stop_nothing_is_sent() -> None:
    flow = Apart(FAN, SINKS)
    flow.give(1, 2)
    flow.ack("near")
    reject(flow, 1, 2)
    retry(flow, 1, 1)
    flow.sinks["far"].fail()
    flow.running.stop()
    flow.scheduler.advance(30.0)
    flow.settle()
    assert flow.sinks["far"].waiting == []
    assert retry(flow, 2, 2).refusal == BUSY
    flow.close()


def test_a_letter_goes_as_the_event_came() -> None:
    """When it was received, what was known of it, and where it is in its log; also of the parts of a block that
    failed."""
    flow = Apart(FAN, SINKS)
    flow.give(1, 2, 3, ingest_ns=77)
    flow.ack("near")
    far = flow.sinks["far"]
    far.node.reject(far.waiting.pop(), "bad")
    flow.settle()
    retry(flow, 1, 3)
    for _ in range(2):
        far.fail()
        flow.scheduler.advance(5.0)
        flow.settle()
    seen: list[tuple[int, str, object]] = []
    while far.waiting:
        for block in far.waiting:
            each = range(block.frames.count)
            seen += [(block.ingest_ns, block.port, block.event_meta(number)[POSITION]) for number in each]
        far.ack()
        flow.settle()
    assert sorted(seen) == [(77, "in", 1), (77, "in", 2), (77, "in", 3)]
    assert sorted(flow.ids("far")[-3:]) == [1, 2, 3]
    assert state(flow) == [0, 0, 3, 0]
    flow.close()


def test_a_mended_event_goes_in_the_place_of_the_one_that_was_rejected() -> None:
    flow = Apart(FAN, SINKS)
    flow.give(1, 2)
    flow.ack("near")
    reject(flow, 1, 2)
    assert retry(flow, 1, 2, {2: b'{"id":20}'}).taken == 2
    flow.ack("far")
    assert flow.ids("far") == [1, 2, 1, 20]
    flow.close()


def test_letters_and_what_goes_survive_a_crash() -> None:
    disk = MemoryDisk()
    flow = Apart(FAN, SINKS, disk=disk)
    flow.give(1, 2, 3)
    flow.ack("near")
    reject(flow, 1, 2, 3)
    assert retry(flow, 2, 2, {2: b'{"id":20}'}).taken == 1
    flow.crash()
    flow = Apart(FAN, SINKS, disk=disk)
    assert state(flow) == [2, 1, 0, 0]
    flow.ack("near", "far")
    assert flow.ids("far")[-1:] == [20], "the mended one"
    assert retry(flow, 1, 4).taken == 2, "letter 2 went"
    flow.ack("far")
    assert state(flow) == [0, 0, 3, 0]
    flow.close()
    flow = Apart(FAN, SINKS, disk=disk)
    assert state(flow) == [0, 0, 0, 0]
    flow.close()


class Ailing(MemoryDisk):
    """Once `ails`, its next call of that name for the letters of `far` fails, so many times."""

    def __init__(self) -> None:
        super().__init__()
        self.ails: dict[str, int] = {}

    def names(self, path: str) -> list[str]:
        self._meet("names", path)
        return super().names(path)

    def open(self, path: str, **how: Any) -> int:
        self._meet("open", path)
        return super().open(path, **how)

    def _meet(self, call: str, path: str) -> None:
        if path.startswith(directory_of("/log", "far")) and self.ails.get(call):
            self.ails[call] -= 1
            raise OSError(errno.EIO, "Input/output error", path)


@pytest.mark.parametrize(("call", "times"), [("names", 1), ("names", 3), ("open", 1), ("open", 3)])
def test_letters_of_an_earlier_run_are_there_once_the_disk_is_well(call: str, times: int) -> None:
    """Nothing is rejected in this run, which would open them too."""
    disk = Ailing()
    flow = Apart(FAN, SINKS, disk=disk)
    flow.give(1)
    flow.ack("near")
    reject(flow, 1)
    flow.close()
    disk.ails = {call: times}
    flow = Apart(FAN, SINKS, disk=disk)
    flow.settle()
    for _ in range(times):
        flow.scheduler.advance(31.0)
        flow.settle()
    assert disk.ails == {call: 0}
    assert state(flow) == [1, 0, 0, 0]
    assert retry(flow, 1, 1)[:3] == (1, 0, 1)
    flow.close()


def test_a_request_waits_until_they_are_open() -> None:
    """And is refused as long as the disk fails."""
    disk = Ailing()
    flow = Apart(FAN, SINKS, disk=disk)
    flow.give(1, 2)
    flow.ack("near")
    reject(flow, 1, 2)
    flow.close()
    disk.ails = {"open": 1}
    flow = Apart(FAN, SINKS, disk=disk, settled=False)
    answers: list[LetterAnswer] = []
    for refusal in (BUSY, NOT_OPEN):
        box(flow).retry([(1, 1)], {}, answers.append)
        box(flow).drop([(2, 2)], answers.append)
        assert [(one.taken, one.refusal) for one in answers[-2:]] == [(0, refusal)] * 2
        flow.settle()
    flow.scheduler.advance(31.0)
    flow.settle()
    box(flow).drop([(2, 2)], answers.append)
    assert answers[-1].taken == retry(flow, 1, 1).taken == 1
    flow.close()


def test_what_the_log_sends_again_after_a_crash_is_the_letter_that_there_is() -> None:
    disk = MemoryDisk()
    flow = Apart(FAN, SINKS, disk=disk)
    flow.give(1, 2, 3, 4)
    flow.ack("near")
    reject(flow, 1, 3)
    flow.crash()
    flow = Apart(FAN, SINKS, disk=disk)
    flow.ack("near")
    reject(flow, 1, 2, 3)
    assert state(flow) == [3, 0, 0, 0], "2 was none: it had been taken"
    assert flow.lanes() == {"near": 0, "far": 0}
    retry(flow, 1, 99)
    flow.crash()
    flow = Apart(FAN, SINKS, disk=disk)
    reject(flow, 1, 2, 3)
    assert state(flow) == [3, 0, 0, 3]
    flow.crash()
    flow = Apart(FAN, SINKS, disk=disk)
    reject(flow, 1, 2, 3)
    assert state(flow)[:2] == [3, 0], "nor is what was rejected again"
    flow.close()


def test_dropped_letters_are_gone() -> None:
    disk = MemoryDisk()
    flow = Apart(FAN, SINKS, disk=disk)
    flow.give(1, 2, 3)
    flow.ack("near")
    reject(flow, 1, 2, 3)
    answers: list[LetterAnswer] = []
    box(flow).drop([(1, 1), (3, 9)], answers.append)
    assert [one.taken for one in answers] == [2]
    flow.checkpoint()
    flow.crash()
    flow = Apart(FAN, SINKS, disk=disk)
    assert state(flow) == [1, 0, 0, 0]
    flow.close()
    assert gone(flow, "/log/letters/far") == {BY_HAND: 2}


def test_more_than_a_commit_at_once() -> None:
    flow = Apart(FAN, SINKS, config='"chunk_size": 8388608')
    for first in range(1, 101, 4):
        flow.give(*range(first, first + 4), size=50_000)
    flow.ack("near")
    while flow.sinks["far"].waiting:
        reject(flow, *range(1, 101))
    assert state(flow) == [100, 0, 0, 0]
    assert flow.lanes() == {"near": 0, "far": 0}
    flow.close()


def test_what_fails_goes_again_until_it_has_an_outcome() -> None:
    flow = Apart(FAN, SINKS)
    flow.give(1)
    flow.ack("near")
    reject(flow, 1)
    retry(flow, 1, 1)
    flow.sinks["far"].fail()
    flow.settle()
    assert state(flow) == [0, 1, 0, 0]
    flow.scheduler.advance(5.0)
    flow.settle()
    flow.ack("far")
    assert state(flow) == [0, 0, 1, 0]
    flow.close()


def test_what_is_given_up_is_a_letter_of_the_sink_that_failed_it() -> None:
    flow = Apart(FAN, SINKS, config=f'{CONFIG}, "max_attempts": 2')
    flow.give(1)
    for number in (2, 3, 4):
        flow.give(number)
        fails_the_first(flow)
    flow.ack("near")
    assert flow.lanes() == {"near": 0, "far": 0}
    assert state(flow) == [1, 0, 0, 0]
    assert state(flow, "near") == [0, 0, 0, 0]
    assert flow.world.count("rejected_events_total") == 1
    retry(flow, 1, 1)
    flow.ack("far")
    assert flow.ids("far")[-1] == 1
    flow.close()


def test_beyond_their_number_the_oldest_are_given_up() -> None:
    flow = Apart(FAN, SINKS, config=f'{CONFIG}, "letters_events": 3')
    flow.give(*range(1, 9))
    flow.ack("near")
    reject(flow, *range(1, 9))
    assert state(flow) == [3, 0, 0, 0]
    assert given_up(flow) == {"letters_events": 5}
    retry(flow, 1, 99)
    flow.ack("far")
    assert flow.ids("far")[8:] == [6, 7, 8]
    flow.close()
    assert gone(flow, "/log/letters/far") == {FOR_EVENTS: 5}
    assert gone(flow, "/log") == {}


def test_beyond_their_age_they_are_given_up() -> None:
    flow = Apart(FAN, SINKS, config=f'{CONFIG}, "letters_age": "1h"')
    flow.give(1)
    flow.ack("near")
    reject(flow, 1)
    flow.scheduler.advance(1800.0)
    flow.give(2)
    flow.ack("near")
    reject(flow, 2)
    flow.scheduler.advance(2000.0)
    flow.settle()
    assert state(flow) == [1, 0, 0, 0]
    assert given_up(flow) == {"letters_age": 1}
    flow.close()
    assert gone(flow, "/log/letters/far") == {FOR_AGE: 1}


def test_full_letters_make_room_and_leave_room_for_what_goes_again() -> None:
    flow = Apart(FAN, SINKS, config=f'{CONFIG}, "letters_bytes": 65536')
    for number in range(1, 301):
        flow.give(number, size=1000)
        flow.ack("near")
        reject(flow, number)
        flow.scheduler.advance(0.2)
        flow.settle()
    assert flow.lanes() == {"near": 0, "far": 0}, "letters never hold up the log"
    kept, *_ = state(flow)
    assert 20 < kept < 60
    assert given_up(flow) == {"letters_bytes": 300 - kept}
    before = len(flow.ids("far"))
    taken = 0
    while kept > taken:
        answer = retry(flow, 1, 9999)
        assert answer.taken, answer
        taken += answer.taken
        flow.ack("far")
        flow.scheduler.advance(0.2)
        flow.settle()
    assert flow.ids("far")[before:] == [*range(301 - kept, 301)]
    flow.close()
    assert gone(flow, "/log/letters/far") == {DROPPED: 300 - kept}


def no_room(call: str, path: str) -> int | None:
    """For letters. What is written over needs none."""
    return (
        errno.ENOSPC
        if "letters" in path and not path.endswith("cursor") and call in ("write", "allocate", "open", "makedir")
        else None
    )


@pytest.mark.parametrize("before", [0, 1])
def test_a_full_disk_gives_up_what_cannot_be_kept_and_holds_up_nothing(before: int) -> None:
    flow = Apart(FAN, SINKS)
    for number in range(before):
        flow.give(number)
        reject(flow, number)
    flow.disk.fault = no_room
    flow.give(11, 12)
    reject(flow, 11)
    flow.scheduler.advance(10.0)
    flow.settle()
    flow.ack("near")
    assert flow.lanes() == {"near": 0, "far": 0}
    assert given_up(flow) == {"disk full": 1}
    if before:
        assert "No space left" in retry(flow, 1, 99).refusal
    flow.disk.fault = None
    flow.scheduler.advance(40.0)
    flow.settle()
    flow.give(13)
    flow.ack("near")
    reject(flow, 13)
    assert state(flow)[0] == 1, "of 13: 11 was counted as given up, and is; and the first one goes"
    retry(flow, 1, 99)
    flow.ack("far")
    assert state(flow) == [0, 0, before + 1, 0]
    assert [flow.ids("far").count(number) for number in (*range(before), 11, 13)] == [2] * before + [1, 2]
    flow.close()
    assert gone(flow, "/log") == {FOR_THE_DISK: 1}, "it never was a letter"


def test_on_a_full_disk_the_oldest_file_makes_room() -> None:
    flow = Apart(FAN, SINKS, config=f'{CONFIG}, "letters_bytes": 1048576')  # 64 KiB a file
    for number in range(100):
        flow.give(number, size=1000)
        reject(flow, number)
    flow.checkpoint()
    names = flow.disk.names("/log/letters/far")

    def until_one_is_gone(call: str, path: str) -> int | None:
        return no_room(call, path) if names[0] in flow.disk.names("/log/letters/far") else None

    flow.disk.fault = until_one_is_gone
    flow.give(101, size=1000)
    reject(flow, 101)
    flow.scheduler.advance(10.0)
    flow.settle()
    flow.ack("near")
    assert flow.lanes() == {"near": 0, "far": 0}
    lost = given_up(flow)["disk full"]
    assert 40 < lost < 70
    assert state(flow) == [101 - lost, 0, 0, 0]
    retry(flow, 1, 9999)
    flow.ack("far")
    assert flow.ids("far")[-1] == 101
    flow.close()
    assert gone(flow, "/log/letters/far") == {FOR_THE_DISK: lost}


def given_up(flow: Apart) -> dict[str, float]:
    found = [one for one in flow.world.metrics if one.name == "wal_letters_given_up_total" and one.value]
    return {one.labels["reason"]: one.value for one in found}


def gone(flow: Apart, log: str) -> dict[str, int]:
    """What the trail of that log says is gone: events by reason."""
    told = [one for one in look(log, flow.disk).trail if one.statement.what == GONE]
    return {one.statement.more: sum(last - first + 1 for first, last in one.ranges) for one in told}


@pytest.mark.parametrize("letters", ["true", "false"])
def test_an_err_that_is_linked_takes_them_and_letters_if_they_are_wanted(letters: str) -> None:
    dead = """
      create pipeline rejects from pipelines::passthrough;
      connect /connector/far/err to /pipeline/rejects;
      connect /pipeline/rejects to /connector/dead;
    """
    flow = Apart(FAN + dead, [*SINKS, "dead"], config=f'{CONFIG}, "letters": {letters}')
    flow.give(1)
    flow.ack("near")
    reject(flow, 1)
    assert flow.lanes()["far"] == 1, "its error record has no outcome"
    flow.ack("dead")
    assert flow.lanes()["far"] == 0
    if letters == "true":
        assert state(flow) == [1, 0, 0, 0]
    else:
        assert flow.running.letters == []
    flow.close()
