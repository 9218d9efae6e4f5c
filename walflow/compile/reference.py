"""What the shipped modules declare: their functions and constants, with the text of their comments."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from walflow.compile.functions import intrinsic
from walflow_kernel.functions import Function

_LEFT_OUT: Final = {"tremor/connectors", "tremor/pipelines"}  # definitions of the flow language
_intrinsic = re.compile(r"intrinsic fn `?(\w+)`?\((.*)\) as ([\w:]+);").fullmatch


_constant = re.compile(r"const (\w+) = (.*);").fullmatch


class DeclaredConstant(NamedTuple):
    name: str
    value: str  # as it is written
    says: str


class Declared(NamedTuple):
    """One `intrinsic fn` of a module, with the text of its `##` lines."""

    path: str  # std::time::nanos
    name: str
    parameters: Sequence[str]
    intrinsic: str
    says: str
    example: str

    @property
    def module(self) -> str:
        return self.path.rpartition("::")[2]

    @property
    def function(self) -> Function:
        found = intrinsic(self.intrinsic)
        assert found is not None, self.intrinsic
        return found


def introduction(path: str) -> str:
    """The `###` lines of a module."""
    return "\n".join(line.removeprefix("###").strip() for line in _lines(path) if line.startswith("###"))


def modules() -> Sequence[str]:
    """The modules that define functions or constants, as paths: `std/string`."""
    root = Path(str(files("walflow").joinpath("modules")))
    found = {str(file.relative_to(root).with_suffix("")) for file in root.rglob("*/*.tremor")}
    return [path for path in sorted(found - _LEFT_OUT) if any(map(_defines, _lines(path)))]


@cache
def shipped() -> Mapping[str, str]:
    """The modules by their last name (`string`: `std::string`), where only one module has it, or one of std."""
    found: dict[str, str] = {}
    doubled: set[str] = set()
    for path in modules():
        name = path.rpartition("/")[2]
        if name in found:
            doubled.add(name)
        found.setdefault(name, path.replace("/", "::"))
    return {name: path for name, path in found.items() if name not in doubled}


def _defines(line: str) -> bool:
    return line.startswith(("const ", "intrinsic fn "))


def declared() -> Iterator[Declared]:
    for path in modules():
        for line, says in _with_words(path):
            if match := _intrinsic(line):
                yield _declared(path.replace("/", "::"), match, says)


def constants(path: str) -> Iterator[DeclaredConstant]:
    for line, says in _with_words(path):
        if match := _constant(line):
            yield DeclaredConstant(match[1], match[2], " ".join(one.strip() for one in says))


def _with_words(path: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Each line, with the `##` lines before it."""
    says: list[str] = []
    for line in _lines(path):
        yield line, says
        says = [*says, line.removeprefix("##")] if line.startswith("## ") else []


def _declared(path: str, match: re.Match[str], says: Sequence[str]) -> Declared:
    name, parameters, intrinsic = match.groups()
    words = [line.strip() for line in says if not line.startswith("     ")]
    examples = [line.strip() for line in says if line.startswith("     ")]
    return Declared(path, name, parameters.split(", ") if parameters else (), intrinsic, " ".join(words), *examples)


def _lines(path: str) -> Sequence[str]:
    return files("walflow").joinpath("modules", f"{path}.tremor").read_text(encoding="utf-8").splitlines()


def signature(function: Function) -> str:
    named = [f"{parameter.name}: {parameter.kind.name}" for parameter in function.parameters]
    return ", ".join([*named, *([f"…: {function.rest.kind.name}"] if function.rest else [])])
