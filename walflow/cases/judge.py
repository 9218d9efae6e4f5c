"""Whether one case is as expected, and its files if they are to follow what came."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from walflow.cases.compare import differences
from walflow.cases.folder import BadCase, Case, ExpectedPort
from walflow.cases.host import Came, Ran, run
from walflow.cases.subject import LoadedSubject, read_subject
from walflow.cases.suites import SuiteTest, problems_of
from walflow.cases.values import canonical
from walflow.diagnostics import did_you_mean, one_of

SHOWN: Final = 5  # differences of a port
MOST_ALONE: Final = 10_000  # events that are sent one by one, too
ERROR_KEYS: Final = ("error", "at", "event")


class Judgement(NamedTuple):
    """`problems`: lines for a person, none where all is as expected. `bad`: the case could not be run at all.
    `events`: of the input. `left_out`: why this host does not run it."""

    case: Case | SuiteTest
    problems: Sequence[str]
    bad: bool = False
    events: int = 0
    left_out: str | None = None


def judge(case: Case | SuiteTest) -> Judgement:
    try:
        if isinstance(case, SuiteTest):
            return Judgement(case, problems_of(case))
        return _judged(case)
    except BadCase as bad:
        return Judgement(case, [str(bad)], bad=True)


def _judged(case: Case) -> Judgement:
    read, expected = read_subject(case), case.expected()
    problems = list(_of_load(case, read))
    if read.subject is None or problems or case.refused is not None:
        return Judgement(case, problems)
    given = case.given()
    _check_ports(case, expected, read.subject.exits.values())
    ran = run(case, read.subject, given)
    problems += [*ran.troubles, *_of_events(ran.came, expected)]
    if not problems and read.subject.ordered and len(given) <= MOST_ALONE:
        alone = run(case, read.subject, given, most=1)
        problems += [*alone.troubles, *_of_events(alone.came, expected)]
        if problems:
            problems.insert(0, "as expected in one block, but not one event at a time:")
    return Judgement(case, problems, events=sum(one.payload is not None for one in given))


def judged_by(case: Case, ran: Ran | None) -> Iterator[str]:
    """What another host than the daemon's nodes made of it; None where it is not run."""
    read, expected = read_subject(case), case.expected()
    yield from _of_load(case, read)
    if ran is not None and read.subject is not None:
        _check_ports(case, expected, read.subject.exits.values())
        yield from (*ran.troubles, *_of_events(ran.came, expected))


def _of_load(case: Case, read: LoadedSubject) -> Iterator[str]:
    yield from _of_lines("error", case.refused or [], read.errors, read.hints)
    if case.warned is not None:
        yield from _of_lines("warning", case.warned, read.warnings, read.hints)


def _of_lines(what: str, expected: Sequence[str], said: Sequence[str], hints: Mapping[str, str]) -> Iterator[str]:
    if expected and not said:
        yield f"no {what}, and one is expected:"
    elif expected != said:
        yield f"the {what} differs from what is expected:" if expected else f"{what}, and none is expected:"
    if expected != said:
        yield from (f"  - {line}" for line in expected if line not in said)
        for line in said:
            if line not in expected:
                yield f"  + {line}"
                yield from [f"    = {hints[line]}"] if line in hints else []
        if sorted(expected) == sorted(said):
            yield "  in another order"


def _check_ports(case: Case, expected: Mapping[str, ExpectedPort], exits: Collection[str]) -> None:
    for port, what in expected.items():
        if port not in exits:
            hint = did_you_mean(port, exits) or f"there is {one_of(exits)}"
            raise BadCase(f"{what.file}: no output `{port}`; {hint}")


def _of_events(came: Mapping[str, Sequence[Came]], expected: Mapping[str, ExpectedPort]) -> Iterator[str]:
    for port in sorted(came.keys() | expected.keys()):
        wanted = expected[port].events if port in expected else ()
        found = differences(port, wanted, came.get(port, ()))
        for one in found[:SHOWN]:
            yield f"{port}, event {one.number}:"
            yield f"  - {one.expected}" if one.expected is not None else "  - nothing is expected"
            yield f"  + {one.came}" if one.came is not None else "  + nothing came"
        if len(found) > SHOWN:
            yield f"{port}: {len(found) - SHOWN} more events differ"


# ---- what came is what is expected


def update(case: Case) -> Sequence[Path]:
    """The files that were written, because something else came than they say. Raises BadCase where a person has to
    decide: nothing is written then."""
    read, expected = read_subject(case), case.expected()
    written: list[Path] = []
    if case.warned is not None and list(case.warned) != list(read.warnings):
        written += _write(case.warned_file, read.warnings)
    if read.subject is None:
        if expected:
            raise BadCase(
                f"{case.folder}: this is refused now; take out {one_of(one.file.name for one in expected.values())}"
            )
        return [*written, *(_write(case.refused_file, read.errors) if case.refused != read.errors else [])]
    if case.refused is not None:
        raise BadCase(f"{case.refused_file}: this is not refused any more; take the file out")
    _check_ports(case, expected, read.subject.exits.values())
    ran = run(case, read.subject, case.given())
    for port in sorted(ran.came.keys() | expected.keys()):
        came = ran.came.get(port, ())
        what = expected.get(port) or ExpectedPort(case.folder / f"{port}.jsonl", False, ())
        if differences(port, what.events, came):
            keys = list(what.events[0].members) if what.events else ["value", "meta"]
            written += _write(what.file, [_line(one, keys if what.full else None) for one in came])
    return written


def _line(came: Came, keys: Sequence[str] | None) -> str:
    text = _error_line(came) if came.rejected else came.line
    if keys is None:
        return text
    members = {key: text if key == "value" else canonical(came.members[key]) for key in keys}
    return "{" + ", ".join(f'"{key}": {one}' for key, one in members.items()) + "}"


def _error_line(came: Came) -> str:
    """What a person would write of it: which pipeline it is, and which stream, goes without saying."""
    value = came.members["value"]
    assert isinstance(value, dict)  # what walflow makes is one
    return "{" + ", ".join(f'"{key}": {canonical(value[key])}' for key in ERROR_KEYS if key in value) + "}"


def _write(path: Path, lines: Sequence[str]) -> list[Path]:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise BadCase(f"{path}: {error.strerror}") from None
    return [path]
