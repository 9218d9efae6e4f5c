"""What modules say of themselves: `###` of the module, `##` of what stands below.

Shipped modules and a user's own are read alike, from their text: comments are no part of what the grammar reads. What
a function takes and gives is known of those that are walflow's own.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple

from walflow.compile.functions import intrinsic
from walflow.compile.reference import signature
from walflow.diagnostics import Diagnostic, did_you_mean, one_of
from walflow.errors import WalflowError
from walflow.lang import files

_INTRINSIC: Final = re.compile(r"intrinsic\s+fn\s+`?(\w+)`?\s*\(([^)]*)\)\s+as\s+([\w:]+)")
_HEADS: Final = (
    ("function", re.compile(r"fn\s+(`[^`]+`|\w+)\s*\([^)]*\)")),
    ("constant", re.compile(r"const\s+(`[^`]+`|\w+)\s*=\s*.*?;?\s*$")),
    ("", re.compile(r"define\s+(?:flow|connector|pipeline|operator|script|window)\s+(`[^`]+`|\w+)")),
)
_DEPLOYS: Final = re.compile(r"^\s*deploy\s+flow\b", re.MULTILINE)
MOST_CONSTANTS: Final = 50  # more of them are only counted
MOST_MEANT: Final = 3  # names that may have been meant


class NotDocumented(WalflowError):
    """There is no such module, or nothing of that name in it. The text says what there is."""


class Documented(NamedTuple):
    """`head`: as it is written, or for a function of walflow's own, what it takes and gives. `says`: the lines of
    `##`, and `examples` those that are indented."""

    kind: str  # function, constant, pipeline …
    name: str
    head: str
    says: Sequence[str]
    examples: Sequence[str]


class DocumentedModule(NamedTuple):
    path: str  # std::string
    says: Sequence[str]
    entries: Sequence[Documented]


def read_module(path: str, folders: Sequence[Path | Traversable]) -> DocumentedModule | None:
    """None where there is no such file. Raises NotDocumented if it cannot be read."""
    found = files.find(path.split("::"), folders)
    if found is None:
        return None
    source = files.read(found, 0)
    if isinstance(source, Diagnostic):
        raise NotDocumented(source.message)
    return documented(path, source.text)


def documented(path: str, text: str) -> DocumentedModule:
    module: list[str] = []
    entries: list[Documented] = []
    says: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("###"):
            module.append(bare.removeprefix("###").removeprefix(" "))
        elif bare.startswith("##"):
            says.append(bare.removeprefix("##"))
        else:
            if not line[:1].isspace() or says:  # what is indented stands within something, unless it says otherwise
                entries += _entry(bare, says)
            says = []
    return DocumentedModule(path, module, entries)


def _entry(line: str, says: Sequence[str]) -> Iterator[Documented]:
    words = [one.strip() for one in says if not one.startswith("     ")]
    examples = [one.strip() for one in says if one.startswith("     ")]
    if made := _INTRINSIC.match(line):
        function = intrinsic(made[3])
        head = (
            f"{made[1]}({made[2]})" if function is None else f"{made[1]}({signature(function)}) -> {function.gives}"
        )
        yield Documented("function", made[1], head, words, examples)
        return
    for kind, pattern in _HEADS:
        if found := pattern.match(line):
            head = found[0].rstrip().removesuffix(";")
            yield Documented(kind or head.split()[1], found[1].strip("`"), head, words, examples)
            return


def own_modules(folder: Path) -> list[str]:
    """Those in and below a folder. What deploys a flow is none."""
    found: list[str] = []
    for file in sorted(folder.rglob("*")):
        inner = file.relative_to(folder)
        if file.suffix in files.SUFFIXES and file.is_file() and not any(part[0] in "._" for part in inner.parts):
            source = files.read(file, 0)
            if isinstance(source, Diagnostic) or not _DEPLOYS.search(source.text):
                found.append("::".join(inner.with_suffix("").parts))
    return list(dict.fromkeys(found))


def listed(folder: Path, folders: Sequence[Path | Traversable]) -> list[str]:
    """A line for each module: a user's own, then the shipped ones."""
    shipped = sorted(set(files.known_modules([], [])))
    found = [(path, read_module(path, folders)) for path in [*own_modules(folder), *shipped]]
    told = [(path, next(iter(module.says), "")) for path, module in found if module is not None]
    widest = max((len(path) for path, _ in told), default=0)
    return [f"{path:{widest}}  {says}".rstrip() for path, says in dict(told).items()]


def markdown_of(module: DocumentedModule) -> str:
    lines = [f"# {module.path}", "", *module.says]
    kinds = dict.fromkeys(one.kind for one in module.entries)
    for kind in kinds:
        lines += ["", f"## {_plural(kind)}"]
        for one in (one for one in module.entries if one.kind == kind):
            lines += ["", f"### {one.name}", "", "```tremor", one.head, "```", *(["", *one.says] if one.says else [])]
            lines += ["", "```tremor", *one.examples, "```"] if one.examples else []
    return "\n".join(lines).rstrip() + "\n"


def _plural(kind: str) -> str:
    return f"{kind[:1].upper()}{kind[1:]}s"


def text_of(name: str, folders: Sequence[Path | Traversable]) -> list[str]:
    """Of a module, or of one thing in it. Raises NotDocumented."""
    module = read_module(name, folders)
    if module is not None:
        return _module_text(module, folders)
    before, _, last = name.rpartition("::")
    module = read_module(before, folders) if before else None
    names = [one.name for one in module.entries] if module is not None else []
    if module is None or not names:
        exact, alike = _elsewhere(name, folders)
        near = exact or did_you_mean(name, files.known_modules(name.split("::"), folders)) or alike
        raise NotDocumented(f"there is no module and no type `{name}`" + (f"; {near}" if near else ""))
    found = [one for one in module.entries if one.name == last]
    if not found:
        hint = did_you_mean(last, names) or f"it has {', '.join(names)}"
        raise NotDocumented(f"module `{before}` has no `{last}`; {hint}")
    return [line for one in found for line in _entry_text(one)]


def _elsewhere(name: str, folders: Sequence[Path | Traversable]) -> tuple[str | None, str | None]:
    """Where a function of that name is, and one of a name like it, if its module was not named, or not in full."""
    of_all = {
        f"{path}::{entry.name}": entry.name
        for path in files.known_modules([], folders)
        if (module := read_module(path, folders)) is not None
        for entry in module.entries
        if entry.kind != "constant"
    }
    near = get_close_matches(name.rpartition("::")[2], of_all.values(), 1, 0.7)
    exact = sorted(path for path in of_all if path.endswith(f"::{name}"))
    alike = sorted(path for path, last in of_all.items() if last in near)
    return _meant(exact), _meant(alike)


def _meant(paths: Sequence[str]) -> str | None:
    return f"did you mean {one_of(paths[:MOST_MEANT])}?" if paths else None


def _module_text(module: DocumentedModule, folders: Sequence[Path | Traversable]) -> list[str]:
    lines = [module.path, *(f"  {line}".rstrip() for line in module.says)]
    constants = [one for one in module.entries if one.kind == "constant"]
    shown = [one for one in module.entries if one.kind != "constant" or len(constants) <= MOST_CONSTANTS]
    for one in shown:
        lines += ["", *_entry_text(one)]
    if len(constants) > MOST_CONSTANTS:
        lines += ["", f"{len(constants)} constants, {constants[0].name} to {constants[-1].name}"]
    within = [path for path in files.known_modules([], folders) if path.startswith(f"{module.path}::")]
    if within:
        lines += ["", f"Modules: {', '.join(sorted(within))}"]
    return lines


def _entry_text(one: Documented) -> Iterator[str]:
    yield one.head
    yield from (f"  {line}" for line in one.says)
    yield from (f"      {line}" for line in one.examples)
