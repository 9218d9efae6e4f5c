"""docs/reference/functions.md, from the modules: `python -m walflow.compile.reference > docs/reference/functions.md`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from walflow.compile.functions import intrinsic
from walflow_kernel.functions import Function

HEAD: Final = """\
# Functions

The functions and constants of the shipped modules. After `use std::string;`, a flow file may call `string::len`; after
`use std;` it may call `std::string::len`. This page is generated from the modules, and a test runs the examples.

No function reads a clock, and none asks the machine or the network while events pass. A result depends only on the
arguments, on the time at which the event was received, or on the event's position. A value that depends on the machine,
such as `system::hostname()`, is read once, when the file is read. From then on it is a constant. On Spark it is the value
of the machine that started the job.

Arguments must have the types named here. They are not converted: `string::len(1)` is an error. If the argument does not
depend on an event, it is an error in the file. Otherwise it is an error of the event, which leaves by `err`. A `number` is
an integer or a float; `any` is any value. No function makes a string or an array longer than 1,048,576.
"""

_LEFT_OUT: Final = {"tremor/connectors", "tremor/pipelines"}  # definitions of the flow language
_MANY: Final = 50  # the most constants that are listed; for more, the page names the module
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


def page() -> str:
    functions = {path: list(found) for path, found in groupby(declared(), key=lambda one: one.path)}
    return HEAD + "".join(
        line for path in modules() for line in _section(path, functions.get(path.replace("/", "::"), []))
    )


def _section(path: str, functions: Sequence[Declared]) -> Iterator[str]:
    about = [line.removeprefix("###").strip() for line in _lines(path) if line.startswith("###")]
    intro = "\n".join(about)
    yield f"\n## {path.replace('/', '::')}\n\n{intro}\n"
    if functions:
        yield "\n| | | |\n|---|---|---|\n"
    for one in functions:
        yield f"| `{one.name}({signature(one.function)})` → {one.function.gives} | {one.says} | `{_cell(one.example)}` |\n"
    found = list(constants(path))
    if found and len(found) <= _MANY:
        yield "\n| constant | | |\n|---|---|---|\n"
        yield from (f"| `{one.name}` | {one.says} | `{_cell(one.value)}` |\n" for one in found)


def signature(function: Function) -> str:
    named = [f"{parameter.name}: {parameter.kind.name}" for parameter in function.parameters]
    return ", ".join([*named, *([f"…: {function.rest.kind.name}"] if function.rest else [])])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201  # it is what this is for
