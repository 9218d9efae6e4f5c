"""What a log makes of one block from upstream, and of what the files upstream say later."""

from collections.abc import Iterator

import pytest

from walflow import Block
from walflow.delivery import Arriving
from walflow.errors import DiskFull
from walflow.event import Origin
from walflow.testing import MemoryDisk, MemoryInlet, MemoryOutlet, VirtualScheduler
from walflow.wal import Log, LogOptions
from walflow.wal.arrivals import Provenance

TERM = 7


class Place:
    """A followed file, of which all up to an offset is on disk upstream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acked_below = 0

    def begin(self) -> int:
        return 0

    def origin(self) -> Origin:
        return Origin(self.name, 0, 0, self.acked_below, 0)


class Alone:
    def __init__(self) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler, straight=True, straight_files=True)
        self.log = Log(LogOptions("/log", 1 << 16, 16), MemoryDisk())
        self.arriving = Arriving(self.log, self.inlet)
        self.arriving.open()

    def comes(self, block: Block) -> list[bytes]:
        """What is to be appended of it."""
        fresh = list(self.arriving.fresh(block))
        for part in fresh:
            part.receipt.ack()
        return [part.frames.data for part in fresh]

    def reads(self, place: Place, events: int) -> None:
        """Events of one byte each, from the beginning of the file."""
        block = self.inlet.block(b"\n" * events)
        block.read_from, block.positions = place.origin()._replace(place=place), range(1, events + 1)
        self.comes(block)
        self.arriving._arrivals.add(Provenance(place.name, 0, 1, events))

    def deletes(self) -> int:
        """A chunk. How many positions it still knows then."""
        self.arriving._arrivals.before_save()
        return self.arriving.positions


@pytest.fixture
def alone() -> Iterator[Alone]:
    alone = Alone()
    yield alone
    alone.log.close()


@pytest.mark.parametrize(
    ("known", "fresh"),
    [
        ((3, 4), [b"1\n2\n"]),
        ((1, 2), [b"3\n4\n"]),
        ((2, 3), [b"1\n", b"4\n"]),
        ((1, 4), []),
        ((5, 9), [b"1\n2\n3\n4\n"]),
    ],
)
def test_what_it_has_of_a_block_is_acked_and_the_rest_is_appended(
    alone: Alone, known: tuple[int, int], fresh: list[bytes]
) -> None:
    alone.arriving._arrivals.add(Provenance("up", TERM, *known))
    block = alone.inlet.block(b"1\n2\n3\n4\n", origin=Origin("up", 1, 4, 0, TERM))
    assert alone.comes(block) == fresh
    assert block.receipt.pending == 0
    assert alone.inlet.counters["wal_known_events_total"].value == 4 - sum(part.count(b"\n") for part in fresh)


def test_what_a_file_will_not_send_again_is_forgotten_before_each_deletion(alone: Alone) -> None:
    place = Place("file")
    alone.reads(place, 10)
    for acked in (4, 8):
        place.acked_below = acked
        assert alone.deletes() == 10 - acked + 1


def test_a_file_that_has_other_bytes_now_says_nothing_of_what_was_sent(alone: Alone) -> None:
    place = Place("file")
    alone.reads(place, 10)
    place.name, place.acked_below = "another", 5
    assert alone.deletes() == 10
    place.name = "file"
    assert alone.deletes() == 10, "nor is it asked again"


def test_of_more_files_than_it_remembers_those_that_sent_last_are_asked(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walflow.delivery.known_arrivals.MOST_LOGS", 2)
    places = [Place(name) for name in ("one", "two", "three")]
    for place in places[:2]:
        alone.reads(place, 10)
    assert alone.deletes() == 20
    for place in places[:2]:
        place.acked_below = 6
    assert alone.deletes() == 10, "so many it remembers"
    alone.reads(places[2], 10)
    for place in places:
        place.acked_below = 11
    assert alone.deletes() == 0
    assert len(alone.arriving._places) == 2


def test_that_it_does_not_know_what_came_is_a_warning(alone: Alone) -> None:
    out = MemoryOutlet(alone.scheduler)
    alone.arriving.tell(out, None)
    assert [line["level"] for line in out.logged] == ["info"]
    alone.arriving.tell(out, DiskFull("no room for the file"))
    warning = out.logged[1]
    assert (warning["level"], warning["reason"]) == ("warning", "no room for the file")
