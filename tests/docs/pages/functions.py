"""docs/reference/functions.md and constants.md, from the shipped modules."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Final

from walflow.compile.reference import Declared, constants, declared, introduction, modules, signature

MANY: Final = 50  # the most constants that are listed; for more, the page names the module
HEAD: Final = """\
# Functions

The functions and constants of the shipped modules. After `use std::string;`, a flow file may call `string::len`;
after
`use std;` it may call `std::string::len`. This page is generated from the modules, and a test runs the examples.

No function reads a clock, and none asks the machine or the network while events pass. A result depends only on the
arguments, on the time at which the event was received, or on the event's position. A value that depends on the
machine, such as `system::hostname()`, is read once, when the file is read. From then on it is a constant. On Spark it
is the value of the machine that started the job.

Arguments must have the types named here. They are not converted: `string::len(1)` is an error. If the argument does
not depend on an event, it is an error in the file. Otherwise it is an error of the event, which leaves by `err`. A
`number` is an integer or a float; `any` is any value. No function makes a string or an array longer than 1,048,576.
"""

CONSTANTS: Final = """\
# Constants

The shipped modules that have constants and no functions. After `use std::datetime::formats;` a flow file may name
`formats::RFC3339`. This page is generated from the modules.
"""


def functions_page(page: str) -> str:
    return HEAD + "".join(line for path in modules() if _of(path) for line in _section(path))


def constants_page(page: str) -> str:
    return CONSTANTS + "".join(line for path in modules() if not _of(path) for line in _section(path))


@cache
def _functions() -> Mapping[str, Sequence[Declared]]:
    return {path: list(found) for path, found in groupby(declared(), key=lambda one: one.path)}


def _of(path: str) -> Sequence[Declared]:
    return _functions().get(path.replace("/", "::"), [])


def _section(path: str) -> Iterator[str]:
    functions = _of(path)
    yield f"\n## {path.replace('/', '::')}\n\n{introduction(path)}\n"
    if functions:
        yield "\n| | | |\n|---|---|---|\n"
    for one in functions:
        call = f"`{one.name}({signature(one.function)})` → {one.function.gives}"
        yield f"| {call} | {one.says} | `{_cell(one.example)}` |\n"
    found = list(constants(path))
    if found and len(found) <= MANY:
        yield "\n| constant | | |\n|---|---|---|\n"
        yield from (f"| `{one.name}` | {one.says} | `{_cell(one.value)}` |\n" for one in found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
