"""What a log has of the logs upstream, in memory and on disk. It may know too little: then events come twice. It
never knows too much."""

from collections.abc import Sequence

from hypothesis import given, strategies as st

from walflow.testing import MemoryDisk
from walflow.wal import Log, LogOptions
from walflow.wal.arrivals import AHEAD, MOST_LOGS, MOST_TERMS, Provenance, UpstreamPositions

LOG = "ab" * 16
FILE = "/log/arrivals"


def opened(disk: MemoryDisk) -> tuple[Log, UpstreamPositions]:
    log = Log(LogOptions("/log", 4096, 64), disk)
    return log, log.remember_arrivals()


def has(known: UpstreamPositions, position: int, term: int = 1, log: str = LOG) -> bool:
    (run,) = known.runs(Provenance(log, term, position, position))
    return run.known


ranges = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9), st.integers(1, 3)), max_size=20)


@given(ranges, st.integers(1, 70))
def test_it_is_known_again_after_a_close(added: Sequence[tuple[int, int, int]], below: int) -> None:
    disk = MemoryDisk()
    log, known = opened(disk)
    known.make()
    for first, more, term in added:
        known.add(Provenance(LOG, term, first, first + more))
    known.forget_below(LOG, below)
    log.close()
    log, again = opened(disk)
    for term in (1, 2, 3):
        for position in range(1, 72):
            was = any(first <= position <= first + more and term == of for first, more, of in added)
            assert has(again, position, term) == (was and position >= below)
    log.close()


def test_the_same_position_of_another_term_or_log_is_another_event() -> None:
    log, known = opened(MemoryDisk())
    known.add(Provenance(LOG, 1, 5, 5))
    assert has(known, 5)
    assert not has(known, 5, term=2)
    assert not has(known, 5, log="cd" * 16)
    log.close()


def test_what_is_settled_closes_gaps_in_its_term_alone() -> None:
    log, known = opened(MemoryDisk())
    for position in (5, 9, 20):
        known.add(Provenance(LOG, 1, position, position))
    known.add(Provenance(LOG, 2, 30, 30))
    known.settled(LOG, 1, 12)
    assert [position for position in range(1, 32) if has(known, position)] == [*range(5, 13), 20]
    assert [position for position in range(1, 32) if has(known, position, term=2)] == [30]
    log.close()


def test_as_many_terms_and_logs_as_are_known_are_stored_or_the_newest_of_them() -> None:
    disk = MemoryDisk()
    log, known = opened(disk)
    known.make()
    for term in range(MOST_TERMS + 100):
        known.add(Provenance(LOG, term, term + 1, term + 1))
    assert not has(known, 1, 0)
    assert has(known, MOST_TERMS + 100, MOST_TERMS + 99)
    for number in range(MOST_LOGS - 1):
        known.add(Provenance(f"{number:032x}", 1, 1, 1))
    assert has(known, MOST_TERMS, MOST_TERMS - 1)
    known.add(Provenance("f" * 32, 1, 1, 1))
    assert not has(known, MOST_TERMS, MOST_TERMS - 1), "the one that came longest ago"
    log.close()
    log, again = opened(disk)
    assert has(again, 1, log="f" * 32)
    log.close()


def test_after_a_loss_nothing_is_known() -> None:
    log, known = opened(MemoryDisk())
    known.add(Provenance(LOG, 1, 5, 5))
    known.forget()
    assert not has(known, 5)
    assert known.total == 0
    log.close()


def test_a_log_that_is_asked_for_nothing_makes_no_file() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 4096, 64), disk)
    log.close()
    assert FILE not in disk.sizes()


def test_the_file_covers_all_but_so_many_bytes_of_records() -> None:
    log, known = opened(MemoryDisk())
    known.make()
    known.grown(AHEAD - 1)
    assert known.save(1, wanted=False) is None
    known.grown(1)
    assert known.save(1, wanted=False) is not None
    assert known.save(2, wanted=False) is None, "it was said"
    assert known.save(2, wanted=True) is not None
    log.close()


def test_so_many_terms_are_known_and_not_one_less() -> None:
    log, known = opened(MemoryDisk())
    for term in range(MOST_TERMS):
        known.add(Provenance(LOG, term, term + 1, term + 1))
    assert has(known, 1, 0)
    log.close()
