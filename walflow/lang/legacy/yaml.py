"""YAML -> Constant. Each key and each value knows its place in the file. ruamel.yaml composes the nodes (YAML 1.2:
`yes` and `on` are text). Their meaning is decided here, so a file can name no class and can make only data.
"""

import re
import warnings
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.reader import ReaderError

from walflow.compile.constant import Constant, ConstantPart
from walflow.diagnostics import Diagnostic, Report, Source, Span, error
from walflow_kernel.values import kind_of

MOST_VALUES: Final = 100_000  # each use of an anchor counts: ten lines of aliases can be a billion values
_TAG: Final = "tag:yaml.org,2002:"
_INDENT: Final = "indent it as the lines it belongs to"
_QUOTE: Final = 'text that begins so is quoted: `"…"`'

Node = Any  # a class of ruamel.yaml, which has no types


def read(source: Source, report: Report) -> Constant | None:
    """None for a file without content, and for one that is not YAML."""
    try:
        node = _composed(source.text)
        return _Reading(source, report).constant(node) if node is not None else None
    except ReaderError as bad:
        report(_not_a_character(bad, source))
    except MarkedYAMLError as bad:
        report(_explained(bad, source))
    except YAMLError as bad:
        report(error(f"not YAML: {' '.join(str(bad).split())}", Span(source, 0, 0)))
    except RecursionError:
        report(error("nested too deep", Span(source, 0, 0)))
    return None


def _not_a_character(bad: Any, source: Source) -> Diagnostic:
    at = Span(source, bad.position, bad.position + 1)
    return error(f"no YAML file has the character U+{bad.character:04X}", at)


def _composed(text: str) -> Node:
    """The node tree of the text. None: the text has no content."""
    reader: Any = YAML(typ="safe", pure=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReusedAnchorWarning)  # the last one counts, as in YAML
        return reader.compose(text)


class _Trouble(NamedTuple):
    """An error of ruamel.yaml: the place where it was noticed, and the place where the construct begins."""

    problem: str
    at: int
    context: str
    begun: int

    @classmethod
    def of(cls, bad: Any) -> Self:
        mark = bad.problem_mark or bad.context_mark
        begun = bad.context_mark or mark
        problem = str(bad.problem or bad.context or "not YAML")
        return cls(problem, mark.index if mark else 0, str(bad.context or ""), begun.index if begun else 0)


def _explained(bad: MarkedYAMLError, source: Source) -> Diagnostic:
    problem, begin, context, begun = _Trouble.of(bad)
    at = Span(source, begin, begin + 1)
    if "'\\t'" in problem:
        return error("a tab cannot indent YAML", at, "indent with spaces")
    if found := re.fullmatch(r"found character '(.)' that cannot start any token", problem):
        return error(f"no value can begin with `{found[1]}`", at, _QUOTE)
    if found := re.fullmatch(r"found undefined alias '(.*)'", problem):
        span = at._replace(end=begin + 1 + len(found[1]))
        hint = f"write `&{found[1]}` before the value that is meant, above this line"
        return error(f"unknown anchor `{found[1]}`", span, hint)
    if problem.startswith("mapping values are not allowed"):
        return error("`:` cannot stand here", at, f'{_INDENT}; text that holds `: ` is quoted: `"…"`')
    if problem.startswith("expected <block end>"):
        return error("this line is indented neither as those before it nor as what holds them", at, _INDENT)
    if context == "while scanning a quoted scalar":
        end = source.text.find("\n", begun)
        span = Span(source, begun, end if end >= 0 else len(source.text))
        return error("this text is not closed", span, f"its `{source.text[begun]}` is missing")
    if "another document" in problem:
        return error("one file holds one document", at, "put what follows `---` into a file of its own")
    words = problem.replace("'", "`").replace("`<stream end>`", "the end of the file")
    braces = (
        "between `[` and `]` text with braces is quoted" if source.text[begin : begin + 1] in ("{", "}") else None
    )
    return error(f"{words} {context}".rstrip(), at, braces)


class _Reading:
    def __init__(self, source: Source, report: Report) -> None:
        self._source = source
        self._report = report
        self._known: dict[int, tuple[Constant, int]] = {}  # by node, with how many values it holds
        self._values = 0
        self._said = False

    def constant(self, node: Node) -> Constant:
        if (known := self._known.get(id(node))) is not None:
            self._count(known[1], node)
            return known[0] if not self._said else Constant(None, self._span(node))
        before = self._values
        self._count(1, node)
        match node.id:
            case "mapping":
                constant = self._record(node)
            case "sequence":
                constant = self._array(node)
            case _:
                constant = self._scalar(node)
        self._known[id(node)] = constant, self._values - before
        return constant

    def _count(self, values: int, node: Node) -> None:
        self._values += values
        if self._values > MOST_VALUES and not self._said:
            self._said = True
            self._report(error(f"more than {MOST_VALUES:,} values, with those that aliases repeat", self._span(node)))

    def _record(self, node: Node) -> Constant:
        parts: dict[str | int, ConstantPart] = {}
        merged: dict[str | int, ConstantPart] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged |= self._merged(value)
            elif (name := self._key(key)) is not None:
                if name in parts:
                    hint = f"first at {parts[name].key}"
                    self._report(error(f"key `{name}` stands twice here", self._span(key), hint))
                else:
                    parts[name] = ConstantPart(self._span(key), self._value_of(key, value))
        parts = {**merged, **parts}
        return Constant({key: part.constant.value for key, part in parts.items()}, self._span(node), parts)

    def _value_of(self, key: Node, node: Node) -> Constant:
        """A value that is left out has the place of its key, not that of the next line."""
        constant = self.constant(node)
        return constant if constant.span.text else replace(constant, span=self._span(key))

    def _key(self, node: Node) -> str | None:
        constant = self.constant(node)
        if isinstance(constant.value, str):
            return constant.value
        hint = f'quote it: `"{constant.span.text}"`' if node.id == "scalar" else None
        self._report(error(f"a key is text, not {kind_of(constant.value)}", constant.span, hint))
        return None

    def _merged(self, node: Node) -> dict[str | int, ConstantPart]:
        """`<<: *base`, or a list of them. The first one counts."""
        merged: dict[str | int, ConstantPart] = {}
        constant = self.constant(node)
        several = isinstance(constant.value, list)
        for one in [part.constant for part in constant.parts.values()] if several else [constant]:
            if not one.is_record:
                self._report(error(f"`<<` takes a record, not {kind_of(one.value)}", self._span(node)))
            merged = {**one.parts, **merged}
        return merged

    def _array(self, node: Node) -> Constant:
        items = [self.constant(item) for item in node.value]
        parts: dict[str | int, ConstantPart] = {at: ConstantPart(item.span, item) for at, item in enumerate(items)}
        return Constant([item.value for item in items], self._span(node), parts)

    def _scalar(self, node: Node) -> Constant:
        span, text = self._span(node), str(node.value)
        try:
            return Constant(_value(str(node.tag), text), span)
        except KeyError:
            self._report(error(f"no tag `{node.tag}` is known here", span, "write the value without it"))
            return Constant(text, span)
        except (ValueError, OverflowError):
            self._report(error("no number that JSON has, or one of too many digits", span))
        return Constant(None, span)

    def _span(self, node: Node) -> Span:
        # a block in lines of its own ends where the next line begins
        text = self._source.text[node.start_mark.index : node.end_mark.index].rstrip()
        return Span(self._source, node.start_mark.index, node.start_mark.index + len(text))


def _value(tag: str, text: str) -> object:
    """Raises KeyError for a tag that is not one of YAML's own, ValueError for a text that does not fit its tag."""
    match tag.removeprefix(_TAG):
        case "str" | "timestamp" | "value":
            return text
        case "int":
            digits = text.replace("_", "")
            return int(digits, 10 if digits.lstrip("+-").isdecimal() else 0)
        case "float":
            number = float(text.replace("_", ""))
            if number - number != 0:  # JSON, and so the events, have none of these
                raise ValueError(text)
            return number
        case "bool":
            return text.lower() == "true"
        case "null":
            return None
        case _:
            raise KeyError(tag)
