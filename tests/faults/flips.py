"""One bit of one file of a small log is flipped: what that may cost, and what it did cost."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tests.faults.damage import SmallLog, Verdict

Bit = tuple[str, int]

NOTHING: Final = "every event delivered"
TWICE: Final = "every event delivered, and some that had been acked"
NAMED: Final = "the record it was in is lost, and named in a report"
CUT: Final = "the record it was in is cut, as a write that never finished; no report"


def every_bit(small: SmallLog) -> Iterator[Bit]:
    for file, data in small.files.items():
        yield from ((file, bit) for bit in range(len(data) * 8))


def spread(small: SmallLog) -> Iterator[Bit]:
    """A few thousand of them. The steps are odd, so each bit of a byte has its turn; the cursor is mostly zeros."""
    for file, data in small.files.items():
        step = {"meta": 1, "LOCK": 5, "cursor": 11}.get(os.path.basename(file), 23)
        for bit in range(0, len(data) * 8, step):
            if not file.endswith("cursor") or data[bit // 8] or bit % (step * 19) == 0:
                yield file, bit


def sweep(small: SmallLog, bits: Iterable[Bit]) -> Counter[tuple[str, str]]:
    """How often which kind of file had which outcome. Raises AssertionError with the bit that broke a promise."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for file, bit in bits:
        data = bytearray(small.files[file])
        data[bit // 8] ^= 1 << bit % 8
        try:
            kind, outcome = judge(small, file, bit // 8, small.start({**small.files, file: bytes(data)}))
        except Exception as error:
            raise AssertionError(f"{small.name}: {file}, bit {bit}: {error!r}") from error
        outcomes[kind, outcome] += 1
    return outcomes


def judge(small: SmallLog, file: str, byte: int, verdict: Verdict) -> tuple[str, str]:
    """Asserts that nothing but the record that the byte is of may be missing,
    and that it is not missing in silence."""
    hit = small.at(file, byte)
    missing = {one.first for one in small.records} - small.acked - verdict.delivered
    allowed = hit.positions if hit is not None else set()
    assert missing <= allowed, f"it cost the records at {missing}"
    assert verdict.lost <= allowed, f"it calls {verdict.lost} lost"
    kind = "a record" if hit is not None else _kind(file)
    if not missing:
        return kind, NOTHING if verdict.delivered.isdisjoint(small.acked) else TWICE
    assert hit is not None
    if hit.positions <= verdict.lost:
        return kind, NAMED
    assert hit.first in small.last, f"the record at {hit.first} is gone in silence"
    assert verdict.torn == 1, "what was cut is not even counted"
    assert any(line.startswith("cut 1 records") for line in verdict.lines)
    return kind, CUT


def _kind(file: str) -> str:
    return "a chunk's header" if file.endswith(".wal") else os.path.basename(file)
