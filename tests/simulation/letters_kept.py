"""The letters that are on the disk of a simulated machine."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from walflow.codecs import JSON
from walflow.delivery.letters import Letter
from walflow.delivery.tag import Tags
from walflow.positions import Range
from walflow.testing import MemoryDisk
from walflow.wal import Log, LogOptions, Record

WHERE: Final = re.compile(r"(.*/letters/([^/]+))/")


def letters_kept(files: Mapping[str, bytes]) -> Counter[tuple[str, str, int]]:
    """By sink, client and number of the event. `files`: of the whole disk."""
    found: Counter[tuple[str, str, int]] = Counter()
    for directory, sink in sorted({(at[1], at[2]) for at in map(WHERE.match, files) if at is not None}):
        disk = MemoryDisk({path: data for path, data in files.items() if path.startswith(f"{directory}/")})
        log = Log(LogOptions(directory), disk)
        for event in _events(log):
            found.update((sink, str(event["from"]), number) for number in _numbers(event))
        log.abandon()
    return found


def _numbers(event: Mapping[str, object]) -> list[int]:
    numbers = event.get("ns", [event["n"]] if "n" in event else [])
    assert isinstance(numbers, list)
    return numbers


def _events(log: Log) -> Iterator[Mapping[str, object]]:
    """Those that go to their sink again are letters still."""
    records, tags = _records(log), Tags()
    again: list[Range] = []
    for record in records:
        letter = Letter.of(tags.decode(record.tag).meta)
        again += letter.again_for if letter is not None else ()
    for first, last in again:
        log.ack(first, last)
    for record in records:
        payloads = tags.decode(record.tag).framing.payloads(record.payload)
        for begin, end in log.unacked(record.position, record.position + record.count - 1):
            for payload in payloads[begin - record.position : end - record.position + 1]:
                event = JSON.decode(payload)
                assert isinstance(event, dict)
                yield event


def _records(log: Log) -> list[Record]:
    reader, records = log.reader(), list[Record]()
    while found := reader.read(1 << 20):
        records += found
    reader.close()
    return records
