"""docs/reference/functions.md, from the modules: `python -m walflow.compile.reference > docs/reference/functions.md`."""

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Final, NamedTuple

from walflow.compile.functions import intrinsic
from walflow_kernel.functions import Function

HEAD: Final = """\
# Functions

The functions of the modules `std::…` and `tremor::system`. After `use std::string;`, a flow file may call `string::len`.
This page is generated from the modules, and a test runs the examples.

Arguments must have the types named here. They are not converted: `string::len(1)` is an error. If the argument does not
depend on an event, it is an error in the file. Otherwise it is an error of the event, which leaves by `err`. A `number` is
an integer or a float; `any` is any value. No function makes a string or an array longer than 1,048,576.
"""

_MODULES: Final = ("array", "base64", "float", "integer", "json", "math", "random", "range", "re", "record", "size")
_PATHS: Final = (
    *(f"std/{name}" for name in (*_MODULES, "string", "time/nanos", "type", "url")),
    "tremor/system",
)
_intrinsic = re.compile(r"intrinsic fn `?(\w+)`?\((.*)\) as ([\w:]+);").fullmatch


class Declared(NamedTuple):
    """One `intrinsic fn` of a module, with what its `##` lines say."""

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


def declared() -> Iterator[Declared]:
    for path in _PATHS:
        says: list[str] = []
        for line in _lines(path):
            if match := _intrinsic(line):
                yield _declared(path.replace("/", "::"), match, says)
            says = [*says, line.removeprefix("##")] if line.startswith("## ") else []


def _declared(path: str, match: re.Match[str], says: Sequence[str]) -> Declared:
    name, parameters, intrinsic = match.groups()
    words = [line.strip() for line in says if not line.startswith("     ")]
    examples = [line.strip() for line in says if line.startswith("     ")]
    return Declared(path, name, parameters.split(", ") if parameters else (), intrinsic, " ".join(words), *examples)


def _lines(path: str) -> Sequence[str]:
    return files("walflow").joinpath("modules", f"{path}.tremor").read_text(encoding="utf-8").splitlines()


def page() -> str:
    sections = groupby(declared(), key=lambda one: one.path)
    return HEAD + "".join(line for path, functions in sections for line in _section(path, list(functions)))


def _section(path: str, functions: Sequence[Declared]) -> Iterator[str]:
    about = [line.removeprefix("###").strip() for line in _lines(path.replace("::", "/")) if line.startswith("###")]
    intro = "\n".join(about)
    yield f"\n## {path}\n\n{intro}\n\n| | | |\n|---|---|---|\n"
    for one in functions:
        yield f"| `{one.name}({_signature(one.function)})` → {one.function.gives} | {one.says} | `{_cell(one.example)}` |\n"


def _signature(function: Function) -> str:
    named = [f"{parameter.name}: {parameter.kind.name}" for parameter in function.parameters]
    return ", ".join([*named, *([f"…: {function.rest.kind.name}"] if function.rest else [])])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201  # it is what this is for
