"""Files of a small log cut, emptied, zeroed, deleted, swapped, doubled: what it may cost, and what it did cost."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.faults.damage import EACH, PATH, Files, SmallLog, Verdict


class Mangled(NamedTuple):
    """`hit`: the files that are not what they were."""

    what: str
    files: Files
    hit: tuple[str, ...]


def cut_anywhere(small: SmallLog) -> Iterator[Mangled]:
    """Each file, at each byte; the cursor, which is mostly zeros, at its edges and here and there."""
    for path, data in small.files.items():
        for at in range(len(data)):
            if not path.endswith("cursor") or at % 4096 < 70 or at % 97 == 0:
                yield Mangled(f"{path} cut at {at}", {**small.files, path: data[:at]}, (path,))


def whole_files(small: SmallLog) -> Iterator[Mangled]:
    files = small.files
    for path, data in files.items():
        yield Mangled(f"{path} deleted", {other: files[other] for other in files if other != path}, (path,))
        yield Mangled(f"{path} zeroed", {**files, path: bytes(len(data))}, (path,))
        yield Mangled(f"{path} is noise", {**files, path: bytes(i * 7 & 255 for i in range(len(data)))}, (path,))
        yield Mangled(f"{path} is longer", {**files, path: data + b"xyz" * 99}, ())
        yield Mangled(f"{path} is there twice", {**files, f"{PATH}/{99:020d}.wal": data}, ())
        yield Mangled(f"{path} is there twice, as a spare", {**files, f"{PATH}/spare.{1:020d}": data}, ())
    for one, other in itertools.combinations(files, 2):
        yield Mangled(f"{one} and {other} swapped", {**files, one: files[other], other: files[one]}, (one, other))
    for one, other in itertools.permutations(files, 2):
        yield Mangled(f"{one} copied over {other}", {**files, other: files[one]}, (other,))


def sweep(small: SmallLog, all_of_it: Iterable[Mangled]) -> Counter[str]:
    """How often which outcome. Raises AssertionError with what broke a promise."""
    outcomes: Counter[str] = Counter()
    for one in all_of_it:
        try:
            outcomes[judge(small, one, small.start(one.files))] += 1
        except Exception as error:
            raise AssertionError(f"{small.name}: {one.what}: {error!r}") from error
    return outcomes


def judge(small: SmallLog, mangled: Mangled, verdict: Verdict) -> str:
    """Asserts that whatever lies whole in a file comes, and that what is gone is named."""
    missing = {one.first for one in small.records} - small.acked - verdict.delivered
    hurt = {one.first for one in small.records if not _is_whole(one.file, one.offset, one.end, small, mangled)}
    assert missing <= hurt, f"it cost the records at {missing - hurt}"
    silent = {first for first in missing if not set(range(first, first + EACH)) <= verdict.lost}
    assert silent <= _may_be_silent(small, mangled), f"the records at {silent} are gone in silence"
    return "in silence, at the end" if silent else "named in a report" if missing else "every event delivered"


def _is_whole(file: str, offset: int, end: int, small: SmallLog, mangled: Mangled) -> bool:
    """In its file, or the whole file under another one's name."""
    data = small.files[file]
    names = [path for path in mangled.files if path.endswith(".wal")]
    return mangled.files.get(file, b"")[:end] == data[:end] or any(mangled.files[path] == data for path in names)


def _may_be_silent(small: SmallLog, mangled: Mangled) -> set[int]:
    """What the cursor does not know of, at the end; with a damaged cursor, that is whatever a chunk held."""
    if mangled.hit and mangled.hit[0].endswith("cursor") and len(mangled.hit) == 2:
        return {one.first for one in small.records if one.file in mangled.hit}
    if f"{PATH}/cursor" in mangled.hit and len(mangled.hit) == 2:
        return {one.first for one in small.records if one.file in mangled.hit}
    return set(small.unheard if small.chunks[-1] in mangled.hit else small.last)
