"""JUnit's XML, as CI servers read it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from walflow.admin.text import printable
from walflow.cases.judge import Judgement


class Timed(NamedTuple):
    judgement: Judgement
    seconds: float


def junit(cases: Iterable[Timed]) -> bytes:
    """A failure is another result than is expected, an error a case that could not be run."""
    several = list(cases)
    suite = ElementTree.Element(
        "testsuite",
        name="walflow test",
        tests=str(len(several)),
        failures=str(sum(bool(one.problems) and not one.bad for one, _ in several)),
        errors=str(sum(one.bad for one, _ in several)),
        skipped="0",
        time=f"{sum(seconds for _, seconds in several):.3f}",
    )
    for one, seconds in several:
        path = Path(one.case.name)
        group = ".".join(path.parts[:-1]) or "walflow"
        case = ElementTree.SubElement(suite, "testcase", classname=group, name=path.name, time=f"{seconds:.4f}")
        if one.problems:
            kind = "error" if one.bad else "failure"
            lines = [printable(line) for line in one.problems]  # XML has no way to write most control characters
            ElementTree.SubElement(case, kind, message=lines[0]).text = "\n".join(lines)
    ElementTree.indent(suite)
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written + b"\n"
