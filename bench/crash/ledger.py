"""What was sent, what was acked, and what came: told from outside, by the clock of this process."""

import time
from collections import Counter
from itertools import pairwise
from typing import Final, NamedTuple

TRIES_ON: Final = 10.0  # seconds without a try: it is not tried any more
POISON: Final = 4_000  # the event that the receiver refuses, where a fault has one


class Row(NamedTuple):
    """`lost`: acked and never delivered. `held`: acked and not delivered, while the system still tries the event that
    is refused. `twice`: deliveries too many; `sent_twice`: of these, those of events that the client had sent again
    because it had no answer. `disordered`: that came first behind a later one. `altered`: deliveries whose bytes were
    others. `still_s`: the longest time without a new event from the fault until all was there. `again_s`: from the
    end of the fault to the first new event. `note`: what else is to be said. Of memory and disk the most, in MB."""

    system: str
    fault: str
    sent: int
    acked: int
    lost: int
    held: int
    twice: int
    sent_twice: int
    disordered: int
    altered: int
    still_s: float
    again_s: float | None
    refused: str
    note: str = ""
    rss_mb: float = 0.0
    disk_mb: float = 0.0


class Ledger:
    def __init__(self) -> None:
        self.sent = Counter[int]()
        self.acked = set[int]()
        self.got = Counter[int]()
        self.tries = Counter[int]()  # deliveries that were refused
        self.last_try = 0.0
        self.altered = 0
        self.disordered = 0
        self.highest = -1
        self.news = [time.monotonic()]  # when something new came
        self.began = self.healed = self.ended = 0.0  # the fault, and the load

    def came(self, found: list[tuple[int, bool]]) -> None:
        now = time.monotonic()
        for number, sound in found:
            self.altered += not sound
            self.got[number] += 1
            if self.got[number] == 1:
                self.disordered += number < self.highest
                self.highest = max(self.highest, number)
                self.news.append(now)

    @property
    def missing(self) -> set[int]:
        return {number for number in self.acked if not self.got[number]}

    def refuse(self, number: int) -> None:
        self.tries[number] += 1
        self.last_try = time.monotonic()

    def row(self, system: str, fault: str, kept: str) -> Row:
        """`kept`: where the system has kept the refused event, in words; "": it does not say."""
        twice = {number: count - 1 for number, count in self.got.items() if count > 1}
        lost = self.missing
        refused, on = "", False
        if POISON in self.tries:
            lost -= {POISON}
            on = time.monotonic() - self.last_try < TRIES_ON
            then, count = "and on" if on else kept or "then dropped", self.tries[POISON]
            refused = f"tried {'once' if count == 1 else f'{count} times'}, {then}"
        news = [self.began, *(one for one in self.news if one >= self.began)]
        if lost and self.ended > news[-1]:
            news.append(self.ended)  # so long it was fed, and nothing came
        gaps = [later - before for before, later in pairwise(news)]
        after = next((one - self.healed for one in self.news if one > self.healed), None if lost else 0.0)
        return Row(
            system,
            fault,
            len(self.sent),
            len(self.acked),
            0 if on else len(lost),
            len(lost) if on else 0,
            sum(twice.values()),
            sum(count for number, count in twice.items() if self.sent[number] > 1),
            self.disordered,
            self.altered,
            round(max(gaps, default=0.0), 2),
            None if after is None else round(after, 2),
            refused,
        )
