"""Receipts against a model that knows each event by itself: whatever is split, picked, repeated and forked, `outcome`
says who failed which event and who has it; and what is sent again along the same ways says the same to those who come
at its end."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from walflow.receipt import Numbering, Receipt, all_of, members, runs, segments

LOST = ConnectionError("gone")


@dataclass(frozen=True)
class Label:
    """An event of a copy: which one of the root's it is or was made of, and by which way it came."""

    event: int
    way: str = ""


@dataclass
class Known:
    acked: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    failed: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])

    @property
    def has(self) -> set[tuple[int, str]]:
        return self.acked - self.failed


@dataclass
class Shape:
    """What is done with a copy. It can be done again with the same events."""

    kind: str
    numbers: list[int] = field(default_factory=list[int])
    tag: str = ""
    name: str = ""
    parts: "list[Shape]" = field(default_factory=list["Shape"])

    def walk(
        self, receipt: Receipt, labels: Sequence[Label], leaf: "Callable[[Shape, Receipt, Sequence[Label]], None]"
    ) -> None:
        if self.kind == "leaf":
            leaf(self, receipt, labels)
        elif self.kind == "fork":
            receipt.fork(1)
            for part in self.parts:
                part.walk(receipt, labels, leaf)
        elif self.kind == "split":
            sizes = [self.numbers[0], len(labels) - self.numbers[0]]
            for part, one, start in zip(self.parts, receipt.split(sizes), (0, sizes[0]), strict=True):
                part.walk(one, labels[start : start + one.count], leaf)
        else:
            repeats = self.kind == "repeat"
            one = receipt.pick(self.numbers, tag=self.tag, repeats=repeats)
            seen: dict[int, int] = {}
            picked: list[Label] = []
            for number in self.numbers:
                ordinal = seen[number] = seen.get(number, -1) + 1
                label = labels[number]
                own = f" #{ordinal}{self.tag}" if repeats else self.tag
                picked.append(Label(label.event, own + label.way))
            self.parts[0].walk(one, picked, leaf)


@st.composite
def shapes(draw: st.DrawFn, count: int, depth: int = 4) -> Shape:
    kinds = ["leaf"] if not depth else ["leaf", "fork", "pick", "repeat", *(["split"] if count > 1 else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        return Shape("leaf", name=draw(st.sampled_from(["a", "b", "c"])))
    if kind == "fork":
        return Shape("fork", parts=[draw(shapes(count, depth - 1)) for _ in range(2)])
    if kind == "split":
        at = draw(st.integers(1, count - 1))
        return Shape("split", [at], parts=[draw(shapes(at, depth - 1)), draw(shapes(count - at, depth - 1))])
    numbers = sorted(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=6)))
    if kind == "pick":
        numbers = sorted(set(numbers))
    tag = draw(st.sampled_from(["", " @0", " @1"]))
    return Shape(kind, numbers, tag, parts=[draw(shapes(len(numbers), depth - 1))])


@given(
    st.integers(1, 6).flatmap(lambda count: st.tuples(st.just(count), shapes(count))),
    st.lists(st.integers(0, 7), min_size=1, max_size=5),
)
def test_who_has_what(made: tuple[int, Shape], outcomes: list[int]) -> None:
    count, shape = made
    known = Known()
    takers: set[str] = set()
    coming = itertools.cycle(outcomes)

    def settle(leaf: Shape, receipt: Receipt, labels: Sequence[Label]) -> None:
        said = next(coming)
        done = min(said, len(labels))
        for at, label in enumerate(labels):
            told = known.acked if at < done else known.failed
            told.add((label.event, leaf.name + label.way))
        if done:
            takers.add(leaf.name)
        if said == len(labels) and leaf.name != "b":
            receipt.ack(leaf.name)
        else:
            receipt.fail(LOST, said, leaf.name)  # of all or more: it is acked

    settled: list[Receipt] = []
    root = Receipt(settled.append, count)
    shape.walk(root, [Label(event) for event in range(count)], settle)
    assert settled == [root]
    assert (root.cause is None) == (not known.failed)
    outcome = root.outcome()
    assert set(members(outcome.failed)) == {event for event, _ in known.failed}
    assert {(event, name) for name, bits in outcome.has.items() for event in members(bits)} == known.has
    assert root.done == min((event for event, _ in known.failed), default=count)
    assert root.takers() == takers

    def look(leaf: Shape, receipt: Receipt, labels: Sequence[Label]) -> None:
        has = receipt.delivered.has.get(leaf.name, 0) if receipt.delivered is not None else 0
        wanted = {at for at, label in enumerate(labels) if (label.event, leaf.name + label.way) in known.has}
        assert set(members(has)) == wanted
        receipt.ack(leaf.name)

    again = Receipt(settled.append, count, delivered=outcome.between(0, count))
    shape.walk(again, [Label(event) for event in range(count)], look)
    assert again.cause is None


@given(
    st.integers(0, 70).flatmap(
        lambda count: st.tuples(st.just(count), st.integers(0, all_of(count)), st.integers(0, all_of(count)))
    )
)
def test_neighbours_that_are_alike(made: tuple[int, int, int]) -> None:
    count, one, other = made
    found = list(runs(one, count))
    assert [at for start, stop, inside in found for at in range(start, stop) if inside] == list(members(one))
    assert [start for start, _, _ in found[1:]] == [stop for _, stop, _ in found[:-1]]
    assert all(before[2] != after[2] for before, after in itertools.pairwise(found)), "as few as possible"
    cut = list(segments((one, other), count))
    assert sum(stop - start for start, stop, _ in cut) == count
    assert all(
        (bool(one >> at & 1), bool(other >> at & 1)) == inside
        for start, stop, inside in cut
        for at in range(start, stop)
    )


def test_several_receipts_may_share_the_outcome_of_a_merged_block() -> None:
    settled: list[Receipt] = []
    first, second = Receipt(settled.append, 2), Receipt(settled.append, 3)
    merged = Receipt(lambda _: None, 5)
    merged.fail(LOST, 3, "file")
    first.join(merged)
    second.join(merged, Numbering(-2))
    assert settled == [first, second]
    assert (first.cause, second.done, second.lacking) == (None, 1, 2)
    assert second.outcome().has == {"file": 0b001}


def test_an_error_record_has_a_receipt_of_its_own() -> None:
    """The sink that rejected has the events whose records were acked;
    the verdict on the others is known when they come again."""
    settled: list[Receipt] = []
    whole = Receipt(settled.append, 2)
    record = whole.pick(None, tag=" !sink", name="sink", reasons=["bad", "worse"])
    record.fork(1)
    record.ack("letters")
    record.fail(LOST, 1, "copy")
    outcome = whole.outcome()
    assert settled == [whole]
    assert outcome.has == {"sink": 0b01, "letters !sink": 0b11, "copy !sink": 0b01}
    assert outcome.refused == {"sink": {1: "worse"}}
    known = outcome.between(1, 2)
    assert known is not None
    assert (known.has, known.refused) == ({"letters !sink": 1}, {"sink": {0: "worse"}})
    assert whole.takers() == {"sink", "letters", "copy"}


def test_of_an_error_record_that_nobody_has_taken_nobody_has_anything() -> None:
    whole = Receipt(lambda _: None, 1)
    whole.pick(None, name="sink", reasons=["bad"]).fail(LOST, 0, "copy")
    assert whole.takers() == set()
    assert whole.outcome().refused == {"sink": {0: "bad"}}


def test_of_a_merged_block_each_receipt_has_the_refusals_of_its_own_events() -> None:
    first, second = Receipt(lambda _: None, 2), Receipt(lambda _: None, 2)
    merged = Receipt(lambda _: None, 4)
    merged.pick([0, 3], name="sink", reasons=["bad", "worse"]).fail(LOST, 0, "copy")
    first.join(merged)
    second.join(merged, Numbering(-2))
    assert first.outcome().refused == {"sink": {0: "bad"}}
    assert second.outcome().refused == {"sink": {1: "worse"}}


def test_a_receipt_that_was_withdrawn_says_nothing() -> None:
    settled: list[Receipt] = []
    whole = Receipt(settled.append, 1)
    part = whole.split([1])[0]
    whole.withdraw()
    part.ack("late")
    assert not settled


def test_without_events_there_are_no_parts_and_it_is_acked() -> None:
    settled: list[Receipt] = []
    receipt = Receipt(settled.append, 0)
    assert receipt.split([]) == []
    assert settled == [receipt]
    assert receipt.cause is None
    without = Receipt(settled.append, 0)
    without.fail(LOST)
    assert (settled[1:], without.cause) == ([without], LOST)
