"""A life's n-th call of one kind fails."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.faults.life import ENDED_BY_DISK
from tests.faults.lives import Nursery, Said, Script
from tests.faults.strace import injections, options

FAILING = ("fdatasync", "fsync", "pwritev", "pwritev2", "pwrite64", "open", "openat", "ftruncate", "fallocate")
FAILING_NAMES = ("rename", "renameat", "renameat2", "unlink", "unlinkat")
QUOTED = re.compile('"[^"]*"')
KINDS = '"/proc/self/mountinfo"'  # it asks what kind of file system this is, to warn of some


def fail(lives: Nursery, script: Script, point: tuple[str, int], log: Path, error: str = "EIO") -> Said:
    """Asserts that it ended by that, with one line, and acked nothing any more; and that all is there afterwards."""
    name, number = point
    said = lives.live(script.begin(), log, options(f"{name}:error={error}:when={number}"))
    assert injections(log) == 1, "nothing failed"
    if said.closed:
        found = _from_failure(log)
        assert _only_asked(*found) or _can_do_without(*found), f"it went on: {found[0]}"
    else:
        assert said.code == ENDED_BY_DISK, f"it ended with {said.code}: {_from_failure(log)[0]}"
        assert "Input/output error" in said.fatal
        acks = [line for line in _from_failure(log) if 'write(1, "acked' in line]
        assert acks == [], "it acked after the failure"
    script.still_there(said)
    return said


def _only_asked(failed: str, *after: str) -> bool:
    """A log asks whether records are in the page cache; the read that follows opens their file again."""
    name, *_ = QUOTED.findall(failed) or [""]
    return name == KINDS or (
        name.endswith('.wal"') and "O_CREAT" not in failed and any(name in line for line in after)
    )


def _can_do_without(failed: str, *after: str) -> bool:
    """A trail that cannot be read, in a directory that is searched for it, is said and left as it is. Letters that
    cannot be opened are said, and tried again."""
    name, *_ = QUOTED.findall(failed) or [""]
    trail = name[:-1] + '/trail"'
    searched = "O_DIRECTORY" in failed and not any(trail in line for line in after)
    return name.endswith('/trail"') or "/letters/" in name or searched


def _from_failure(log: Path) -> list[str]:
    lines = log.read_text(errors="replace").splitlines()
    (at,) = (number for number, line in enumerate(lines) if "(INJECTED)" in line)
    return lines[at:]


def sweep(lives: Nursery, script: Script, at: Iterable[tuple[str, int]], log: Path) -> Iterator[Counter[str]]:
    for point in at:
        try:
            said = fail(lives, script, point, log)
        except AssertionError as error:
            raise AssertionError(f"{point[0]} {point[1]} failed: {error}") from error
        yield Counter({"failures": 1, "ended by it": said.code == ENDED_BY_DISK})
