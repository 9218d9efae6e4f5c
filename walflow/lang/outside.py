"""Args of flows from the command line: `--set port=9000`, or `--set FLOW.port=9000` for one flow of several."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from walflow.compile.constant import Constant, derived
from walflow.diagnostics import Diagnostic, Report, Source, Span, did_you_mean, error, one_of

OPTION: Final = "--set"
_FORM: Final = re.compile(r"(?:(?P<flow>[^.=\s]+)\.)?(?P<name>[^.=\s]+)=(?P<value>.*)", re.DOTALL)


@dataclass(eq=False)
class _Given:
    """`flow` is None: for each flow that has such an arg."""

    flow: str | None
    name: str
    at: Span
    value: Constant
    used: bool = False


@dataclass(eq=False)
class OutsideArgs:
    """`known`: the args of the deployed flows."""

    report: Report
    given: list[_Given] = field(default_factory=list[_Given])
    known: set[str] = field(default_factory=set[str])

    def read(self, texts: Sequence[str]) -> None:
        seen: set[tuple[str | None, str]] = set()
        for text in texts:
            source = Source(OPTION, text, order=-1)
            form = _FORM.fullmatch(text)
            if form is None:
                hint = "write NAME=VALUE, or FLOW.NAME=VALUE"
                self.report(error(f"`{text}` is no arg", Span(source, 0, len(text)), hint))
                continue
            at = Span(source, *form.span("name"))
            if (form["flow"], form["name"]) in seen:
                self.report(error(f"`{form['name']}` is given twice", at))
            seen.add((form["flow"], form["name"]))
            value = derived(value_of(form["value"]), Span(source, *form.span("value")))
            self.given.append(_Given(form["flow"], form["name"], at, value))

    def of(self, flow: str, names: Collection[str]) -> Mapping[str, Constant]:
        """The args of one deployment. An arg for this flow overrides one for all flows."""
        self.known |= {*names, *(f"{flow}.{name}" for name in names)}
        found: dict[str, Constant] = {}
        for one in sorted(self.given, key=lambda one: one.flow is not None):
            if one.name in names and one.flow in (None, flow):
                one.used = True
                found[one.name] = one.value
        return found

    def unused(self) -> Iterator[Diagnostic]:
        for one in self.given:
            if not one.used:
                name = one.name if one.flow is None else f"{one.flow}.{one.name}"
                args = sorted(known for known in self.known if "." not in known)
                listed = f"their args are {one_of(args).replace(' or ', ' and ')}" if args else "they take no args"
                yield error(f"no deployed flow has an arg `{name}`", one.at, did_you_mean(name, self.known) or listed)


def value_of(text: str) -> object:
    """JSON; any other text is a string, so a word needs no quotes."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
