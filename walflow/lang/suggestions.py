"""What to write instead of a name that is unknown here, where a shipped module has it."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from walflow.diagnostics import did_you_mean, one_of
from walflow.lang import files
from walflow.lang.modules import ModuleBlock

_MOST: Final = 4
_FUNCTION: Final = re.compile(r"(?m)^(?:intrinsic )?fn (\w+)\((.*?)\)")
_OTHERS: Final = {
    "average": "mean",
    "avg": "mean",
    "downcase": "lowercase",
    "length": "len",
    "lower": "lowercase",
    "now": "ingest_ns",
    "upcase": "uppercase",
    "upper": "uppercase",
}
"""Names of Vector's language, SQL and Python, with ours."""


_SENTENCES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("defined", "exists", "has", "isset"), "`present event.key` asks whether a member is there"),
    **dict.fromkeys(("float", "to_float"), "write `float::parse(text)` with `use std::float;`"),
    **dict.fromkeys(("int", "to_int"), "write `integer::parse(text)` with `use std::integer;`"),
    **dict.fromkeys(("from_json", "parse_json"), "write `json::decode(text)` with `use std::json;`"),
    **dict.fromkeys(("str", "to_string"), 'a string holds it: `"#{event.key}"`'),
}


class Home(NamedTuple):
    """`call`: the function with its parameters."""

    module: str
    call: str


def module_to_use(name: str) -> str | None:
    """For `string` where no `use` names it."""
    found = [module for module in files.shipped_modules() if module.split("::")[-1] == name]
    return f"add {one_of(f'use {module};' for module in found)}" if found else None


def module_alike(name: str) -> str | None:
    meant = did_you_mean(name, {module.split("::")[-1] for module in files.shipped_modules()}, cutoff=0.75)
    if meant is None:
        return None
    return f"{meant} Then {module_to_use(meant.split('`')[1])}"


def function_elsewhere(name: str, block: ModuleBlock) -> str | None:
    """For `count`, which is `aggr::stats::count`, or `downcase`, which is another's. `block`: where it stands."""
    if name in _SENTENCES:
        return _SENTENCES[name]
    found = [_written(home, block) for home in _homes().get(_OTHERS.get(name, name), ())]
    return f"write {' or '.join(sorted(found, key=len)[:_MOST])}" if found else None


def _written(home: Home, block: ModuleBlock) -> str:
    first, last = home.module.split("::")[0], home.module.split("::")[-1]
    place: ModuleBlock | None = block
    while place:
        if last in place.modules:
            return f"`{last}::{home.call}`"
        if first in place.modules:  # `aggr`, which needs no `use`
            return f"`{home.module}::{home.call}`"
        place = place.outer
    return f"`{last}::{home.call}` with `use {home.module};`"


@cache
def _homes() -> Mapping[str, Sequence[Home]]:
    """The shipped functions by name. Read from the text of their modules: it is wanted where something is wrong."""
    homes: dict[str, list[Home]] = defaultdict(list)
    for module in sorted(files.shipped_modules()):
        file = files.find(module.split("::"), [files.shipped()])
        for name, parameters in _FUNCTION.findall(file.read_text("utf-8") if file else ""):
            homes[name].append(Home(module, f"{name}({parameters})"))
    return homes
