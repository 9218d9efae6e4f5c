"""`walflow check --environment`: what `run` would need, opened and closed again."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from rich.text import Text

from walflow.admin.text import printable
from walflow.errors import WalflowError
from walflow.needs import Need, readable_file
from walflow.plan import Assembly

AT_ONCE: Final = 16  # trials; a peer that does not answer takes five seconds


class Tried(NamedTuple):
    """`wrong` is None if it can be had."""

    subject: str
    what: str
    wrong: str | None


def tried(assembly: Assembly) -> list[Tried]:
    needs = list(_needs(assembly))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = list(threads.map(_wrong, [need for _, need in needs]))
    return [Tried(subject, need.what, wrong) for (subject, need), wrong in zip(needs, answers, strict=True)]


def _needs(assembly: Assembly) -> Iterator[tuple[str, Need]]:
    for plan in assembly.connectors:
        for need in plan.connector.needs():
            yield str(plan.id), need
    for file in assembly.environment.files:
        yield "secret", readable_file(file)


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
