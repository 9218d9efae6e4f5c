"""Suites of tests in a script, as tremor has them:
`test::suite({"name": …, "tests": [test::test({"name": …, "test": …})]})`.

A test is an expression that is true. It is run alone, as a script of the `use`, `const`, `fn` and `let` of its file
and of this expression, over an empty record. So a test that fails stops no other, and has its line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from walflow.cases.folder import BadCase, walk
from walflow.codecs import JSON
from walflow.compile.compiled import BlockCall
from walflow.compile.nodes import Array, CallNode, Expr, LetNode, RecordNode, Text
from walflow.compile.reads import Decoded
from walflow.diagnostics import Diagnostic, Source, error, has_errors, render
from walflow.errors import CannotEncode
from walflow.lang.ast import DefinePipeline, DefineScript, Use
from walflow.lang.files import read
from walflow.lang.parser import parse_script
from walflow.plan.alone import load_definition_of_script
from walflow_kernel.moment import Moment

SUFFIX: Final = ".tremor"
START_NS: Final = 1_700_000_000_000_000_000  # as that of folders
_CASE: Final = "script.tremor"
_MARK: Final = "test::suite"
_MODULE: Final = ("std", "test")


@dataclass(frozen=True)
class SuiteTest:
    """One `test::test`. `name`: FILE/SUITE/TEST. `begins`: the statements before its suite that name locals."""

    name: str
    tags: Sequence[str]
    source: Source
    definition: DefinePipeline
    begins: Sequence[Expr]
    expression: Expr


class SuitesFound(NamedTuple):
    """`bad`: files that have a suite, and a mistake."""

    tests: Sequence[SuiteTest]
    bad: Mapping[str, BadCase]


def find_suites(folders: Sequence[Path]) -> SuitesFound:
    """Of all scripts in and below these folders that call `test::suite`. The script of a case is none."""
    tests: dict[str, SuiteTest] = {}
    bad: dict[str, BadCase] = {}
    for top in folders:
        for folder, names in walk(top) if top.is_dir() else ():
            for name in (name for name in names if name.endswith(SUFFIX) and name != _CASE):
                file = folder / name
                source = read(file, 0)
                if isinstance(source, Diagnostic) or _MARK not in source.text:
                    continue
                try:
                    tests |= {test.name: test for test in _tests(source, str(file.relative_to(top)))}
                except BadCase as wrong:
                    bad[str(file)] = wrong
    return SuitesFound(list(tests.values()), bad)


def _tests(source: Source, file: str) -> Iterator[SuiteTest]:
    found: list[Diagnostic] = []
    definition = parse_script(source, "suite", (), found.append)
    script = next((one for one in definition.names if isinstance(one, DefineScript)), None)
    if script is None or script.body is None or has_errors(found):
        raise BadCase("\n".join(map(render, found)))
    aliases = {one.alias.text for one in script.names if isinstance(one, Use) and _is_test(one)}
    begins: list[Expr] = []
    for statement in script.body:
        if isinstance(statement, LetNode):
            begins.append(statement)
        elif _calls(statement, aliases, "suite"):
            suite = _Specification(statement)
            for number, call in enumerate(suite.tests(), 1):
                if not _calls(call, aliases, "test"):
                    raise _wrong("`tests` of a suite are calls of `test::test`", call)
                test = _Specification(call)
                name = f"{file}/{suite.text('name') or 'suite'}/{test.text('name') or number}"
                tags = [*suite.tags(), *test.tags()]
                yield SuiteTest(name, tags, source, definition, tuple(begins), test.member("test"))
        else:
            raise _wrong("beside `let`, a file of suites has calls of `test::suite` alone", statement)


def _is_test(use: Use) -> bool:
    return tuple(name.text for name in use.path) == _MODULE


def _calls(node: Expr, aliases: set[str], name: str) -> bool:
    if not isinstance(node, CallNode):
        return False
    *modules, last = (one.text for one in node.function)
    return last == name and (modules == list(_MODULE) or (len(modules) == 1 and modules[0] in aliases))


def _wrong(message: str, node: Expr) -> BadCase:
    return BadCase(render(error(message, node.span)))


class _Specification:
    """The record that `test::suite` or `test::test` is called with."""

    def __init__(self, call: Expr) -> None:
        self._call = call
        arguments = call.arguments if isinstance(call, CallNode) else ()
        if len(arguments) != 1 or not isinstance(arguments[0], RecordNode):
            raise _wrong("this takes a record", call)
        self._members = {_plain(field.key): field.value for field in arguments[0].fields}

    def member(self, key: str) -> Expr:
        if key not in self._members:
            raise _wrong(f"this needs `{key}`", self._call)
        return self._members[key]

    def tests(self) -> Sequence[Expr]:
        found = self.member("tests")
        if not isinstance(found, Array):
            raise _wrong("`tests` is an array", found)
        return found.items

    def text(self, key: str) -> str:
        found = self._members.get(key)
        if found is not None and not isinstance(found, Text):
            raise _wrong(f"`{key}` is a string", found)
        return "" if found is None else _plain(found)

    def tags(self) -> Sequence[str]:
        found = self._members.get("tags")
        if found is None:
            return ()
        if not isinstance(found, Array):
            raise _wrong("`tags` is an array of strings", found)
        texts = [item for item in found.items if isinstance(item, Text)]
        if len(texts) < len(found.items):
            raise _wrong("`tags` is an array of strings", found)
        return [_plain(text) for text in texts]


def _plain(text: Text) -> str:
    if not all(isinstance(part, str) for part in text.parts):
        raise _wrong("this is plain text, without `#{}`", text)
    return "".join(part for part in text.parts if isinstance(part, str))


# ---- one test


def problems_of(test: SuiteTest) -> list[str]:
    """Lines for a person, none where it is true."""
    names = tuple(
        replace(one, body=(*test.begins, test.expression)) if isinstance(one, DefineScript) else one
        for one in test.definition.names
    )
    alone, found = load_definition_of_script(test.source, replace(test.definition, names=names))
    if alone is None:
        return [line for one in found if one.severity == "error" for line in render(one).splitlines()]
    [plan] = alone.assembly.pipelines
    compiled = plan.regions.compiled("in")
    event: dict[str, object] = {}
    call = BlockCall(Moment(START_NS), (0,), {}, None, partial(_the_event, event))
    state = compiled.new_state() if compiled.has_state else None
    outcome = compiled.run(Decoded((0,), [event]), call, state)
    for refusal in outcome.refused:
        return render(error(refusal.reason, compiled.span(refusal.line))).splitlines()
    values: list[object] = []
    for rows in outcome.rows.values():
        values += rows.values if rows.values is not None else [event] * len(rows.numbers)
    if values and values[0] is True:
        return []
    shown = _shown(values[0]) if values else "nothing"
    return render(error(f"a test is true, this is {shown}", test.expression.span)).splitlines()


def _the_event(event: object, _number: int) -> object:
    return event


def _shown(value: object) -> str:
    try:
        return JSON.encode(value).decode()
    except CannotEncode:
        return "what JSON cannot hold"
