"""`walflow check --environment`: what `run` would need, opened and closed again."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from rich.text import Text

from walflow.admin.text import printable
from walflow.errors import WalflowError
from walflow.needs import Need, Room, file_system_of, fit, readable_file
from walflow.plan import Assembly

AT_ONCE: Final = 16  # trials; a peer that does not answer takes five seconds


class Tried(NamedTuple):
    """`wrong` is None if it can be had."""

    subject: str
    what: str
    wrong: str | None


def tried(assembly: Assembly, *, later: bool = True) -> list[Tried]:
    """`later`: also what a start does without: peers, which may come, and the room to which logs may grow."""
    needs = [(of, need) for of, need in _needs(assembly) if later or not (need.peer or need.room)]
    needs = list(_together(needs))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = list(threads.map(_wrong, [need for _, need in needs]))
    return [Tried(subject, need.what, wrong) for (subject, need), wrong in zip(needs, answers, strict=True)]


def _needs(assembly: Assembly) -> Iterator[tuple[str, Need]]:
    for plan in assembly.connectors:
        for need in plan.connector.needs():
            yield str(plan.id), need
    for file in assembly.environment.files:
        yield "secret", readable_file(file)


def _together(needs: Iterable[tuple[str, Need]]) -> Iterator[tuple[str, Need]]:
    """What is to grow on one file system as one need: each log may fit there, and all of them not."""
    growing: dict[int, list[tuple[str, Need, Room]]] = defaultdict(list)
    for subject, need in needs:
        if need.room is None:
            yield subject, need
        else:
            try:
                growing[file_system_of(need.room.directory)].append((subject, need, need.room))
            except OSError:
                yield subject, need  # its trial says why
    for those in growing.values():
        subjects, alone, rooms = zip(*those, strict=True)
        if len(those) == 1:
            yield subjects[0], alone[0]
        else:
            where = ", ".join(one.directory for one in rooms)
            what = f"{sum(one.most for one in rooms):,} bytes of disk in {where} together"
            yield ", ".join(subjects), Need(what, partial(fit, rooms))


def _wrong(need: Need) -> str | None:
    try:
        need.trial()
    except WalflowError as error:
        return str(error)
    except OSError as error:
        return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
    return None


def environment_lines(found: Sequence[Tried]) -> list[Text]:
    lines = [
        Text.assemble(f"{printable(one.subject)}: {printable(one.what)}: ", _answer(one.wrong)) for one in found
    ] or [Text("the flows need nothing of this machine")]
    failed = sum(one.wrong is not None for one in found)
    return [*lines, Text(f"{failed} of {len(found)} cannot be had" if failed else "the environment is ok")]


def _answer(wrong: str | None) -> tuple[str, str]:
    return ("ok", "green") if wrong is None else (printable(wrong), "bold red")


def environment_document(found: Sequence[Tried]) -> list[dict[str, object]]:
    return [{"of": one.subject, "need": one.what, "error": one.wrong} for one in found]
