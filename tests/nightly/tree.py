"""Which files a test file reaches: what its digest is made of, and how near a change is.

Most is read from imports, wherever they stand. Tests also reach files in ways that are no import:

- A process: `[sys.executable, "-m", "tests.faults.life"]`. A text that is the name of a module of ours counts as its
  import.
- A connector, codec, framing or function that a flow names. In a text of a test, and in a flow file, `from
  tcp_server`, `"json"` and `string::` count as the import of what pyproject.toml has under this name.
- A path: `"docs/howto/tls.md"` or `ROOT / "flows" / "echo"`. The file, or all files below.
- Data: a file that is no Python is reached by the modules of its directory, or of the next one above that has some.
- The `conftest.py` of its directories. What the one of all tests imports within `tests/` is reached by each; what
  that imports of the package is there for tests that start a daemon or Spark, and they reach it anyway.

It may be too much, and where a test makes up a name it is too little: a file that only such a test reaches. Whoever
wants to be sure says `make nightly ARGS=--fresh`.
"""

import ast
import hashlib
import os
import re
import subprocess
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final, Self

TESTS: Final = ("tests", "demo", "bench", "release")  # whose texts name modules, paths and plugins
FLOWS: Final = (".troy", ".tremor", ".trickle")
LOCK: Final = ".ci/requirements.lock"
PROJECT: Final = "pyproject.toml"
COMMON: Final = frozenset((LOCK, PROJECT))  # what each test depends on
CONFTEST: Final = "tests/conftest.py"
LONG: Final = 200  # no path is as long as that
DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
FROM: Final = re.compile(r"\bfrom\s+([a-z]\w*)")
QUOTED: Final = re.compile(r"\"([a-z][a-z0-9-]*)\"")
FUNCTION: Final = re.compile(r"(\w+)::")


class Tree:
    """`files`: the digest of each file's content. `edges`: what each reaches at once; a name that ends with / is a
    directory's data. The edges of tests/conftest.py lead on, and are not walked with the others."""

    def __init__(
        self, root: Path, files: dict[str, str], edges: Mapping[str, AbstractSet[str]], seen: object
    ) -> None:
        self.files = files
        self._root = root
        self._edges = {path: there for path, there in edges.items() if path != CONFTEST}
        self._helpers = set(_walk([CONFTEST], lambda path: edges.get(path, ()) if _is_helper(path) else ()))
        self._seen = seen
        self._reached: dict[str, dict[str, int]] = {}

    @classmethod
    def read(cls, root: Path) -> Self:
        seen = _stats(root)  # first: what changes from here on is noticed
        contents = {path: (root / path).read_bytes() for path in seen}
        digests = {path: hashlib.sha256(content).hexdigest()[:16] for path, content in contents.items()}
        return cls(root, digests, _Edges(contents).all(), seen)

    def again(self) -> Self:
        """Itself, where no file was changed since it was read."""
        return self if _stats(self._root) == self._seen else self.read(self._root)

    def reached(self, file: str) -> dict[str, int]:
        """How many steps away each file is. Itself is 0."""
        if (found := self._reached.get(file)) is None:
            steps = _walk([file], lambda path: self._edges.get(path, ()))
            if CONFTEST in steps:
                steps = {path: 2 for path in self._helpers if _is_helper(path)} | steps
            found = self._reached[file] = {path: far for path, far in steps.items() if path in self.files}
        return found

    def digest(self, file: str) -> str:
        """Of the contents of all that it reaches, and of what each test depends on."""
        digest = hashlib.sha256(self._common.encode())
        for path in sorted(self.reached(file)):
            digest.update(f"{path} {self.files[path]}\n".encode())
        return digest.hexdigest()[:16]

    @cached_property
    def _common(self) -> str:
        """Which packages are installed, and how pytest runs. Not how code is formatted."""
        project = _toml(self._root / PROJECT)
        tool = project.get("tool", {})
        said = [project.get("project"), project.get("dependency-groups"), tool.get("pytest")]
        return f"{said} {self.files.get(LOCK)}"


def _walk(start: Iterable[str], following: Callable[[str], Iterable[str]]) -> dict[str, int]:
    """How many steps away each is."""
    steps = dict.fromkeys(start, 0)
    waiting = deque(steps)
    while waiting:
        here = waiting.popleft()
        for there in following(here):
            if there not in steps:
                steps[there] = steps[here] + 1
                waiting.append(there)
    return steps


def _is_helper(path: str) -> bool:
    return path.startswith("tests/") and path != "tests/"


def _stats(root: Path) -> dict[str, tuple[int, int]]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, tuple[int, int]] = {}
    for name in names.split("\0"):
        path = root / name
        if name and path.is_file() and not path.is_symlink():
            stat = os.stat(path)
            found[name] = stat.st_mtime_ns, stat.st_size
    return found


def _toml(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


class _Edges:
    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents = contents
        self._directories = {str(above) for path in contents for above in PurePosixPath(path).parents}
        self._below: dict[str, set[str]] = {}
        for path in contents:
            for above in PurePosixPath(path).parents:
                self._below.setdefault(str(above), set()).add(path)
        self._with_modules = {str(PurePosixPath(path).parent) for path in contents if path.endswith(".py")}
        self._connectors = self._entry_points("connectors")
        self._codecs = self._entry_points("codecs") | self._entry_points("framings")
        functions = self._entry_points("functions")
        self._functions = {name.split("::")[-1]: files for name, files in functions.items()}

    def all(self) -> Mapping[str, AbstractSet[str]]:
        edges: dict[str, set[str]] = {}
        for path, content in self._contents.items():
            here = PurePosixPath(path)
            if here.suffix == ".py":
                edges[path] = {*self._of_module(here, content), f"{here.parent}/"} - {path}
                continue
            if here.suffix in FLOWS and here.parts[0] in (*TESTS, "flows"):
                edges[path] = set(self._plugins_in(content.decode(errors="replace")))
            owner = next((str(above) for above in here.parents if str(above) in self._with_modules), ".")
            if owner != ".":
                edges.setdefault(f"{owner}/", set()).add(path)
        return edges

    def _entry_points(self, group: str) -> dict[str, list[str]]:
        """Modules by the names that flows have for them."""
        project = tomllib.loads(self._contents.get(PROJECT, b"").decode()).get("project", {})
        points = project.get("entry-points", {}).get(f"walflow.{group}", {})
        return {name: list(self._module(target.split(":")[0])) for name, target in points.items()}

    def _of_module(self, here: PurePosixPath, content: bytes) -> Iterator[str]:
        if here.parts[0] == "tests":
            above = (str(one / "conftest.py") for one in here.parents)
            yield from (path for path in above if path in self._contents)
        try:
            tree = ast.parse(content)
        except SyntaxError:  # an example of bad source, or one that does not run anyway
            return
        nodes = list(ast.walk(tree)) if here.parts[0] in TESTS else []
        for node in nodes or _statements(tree):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        yield from self._module(alias.name)
                case ast.ImportFrom(module=module, names=names, level=level):
                    package = list(here.parent.parts[: len(here.parent.parts) - level + 1]) if level else []
                    base = ".".join([*package, *([module] if module else [])])
                    yield from self._module(base)
                    for alias in names:
                        yield from self._module(f"{base}.{alias.name}")
                case _:
                    pass
        # What describes names nothing; the parts of a path are not paths themselves.
        operators = [node for node in nodes if isinstance(node, ast.BinOp)]
        inner = {id(node.left) for node in operators}
        chains = [chain for node in operators if id(node) not in inner and (chain := _chain(node))]
        described = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        parts = {id(part) for chain in chains for part in chain}
        for chain in chains:
            yield from self._path("/".join(str(part.value) for part in chain))
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
                yield from self._text(node.value, id(node) in parts)

    def _text(self, text: str, is_part: bool) -> Iterator[str]:
        if DOTTED.fullmatch(text):
            yield from self._module(text)
            yield from self._module(f"{text}.__main__")
            yield from self._codecs.get(text, ())
        if not is_part:
            yield from self._path(text)
        yield from self._plugins_in(text)

    def _module(self, name: str) -> Iterator[str]:
        """Its file, and those of the packages that it is in. Empty for what is not ours."""
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            path = "/".join(parts[:length])
            for file in (f"{path}/__init__.py", f"{path}.py"):
                if file in self._contents:
                    yield file

    def _path(self, text: str) -> Iterable[str]:
        """The longest beginning of it that is a file or a directory from the top; of a directory, all that is
        below."""
        if not text or len(text) > LONG or "\n" in text:
            return ()
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if parts and parts[0] in ("walflow", *TESTS) and len(parts) == 1:
            return ()  # a module, or a word
        for length in range(len(parts), 0, -1):
            path = "/".join(parts[:length])
            if path in self._contents:
                return (path,)
            if path in self._directories:
                return self._below[path]
        return ()

    def _plugins_in(self, text: str) -> Iterator[str]:
        for name in FROM.findall(text):
            yield from self._connectors.get(name, ())
        for name in QUOTED.findall(text):
            yield from self._codecs.get(name, ())
        for name in FUNCTION.findall(text):
            yield from self._functions.get(name, ())


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """All of them, but no expression: those are most of a module."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        here = waiting.pop()
        if isinstance(here, ast.stmt):
            yield here
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(here, field, ()))


def _chain(node: ast.BinOp) -> list[ast.Constant]:
    """ "docs" and "howto" of `ROOT / "docs" / "howto" / name`."""
    parts: list[ast.expr] = []
    here: ast.expr = node
    while isinstance(here, ast.BinOp) and isinstance(here.op, ast.Div):
        parts.append(here.right)
        here = here.left
    parts.append(here)
    found: list[ast.Constant] = []
    for part in reversed(parts):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.append(part)
        elif found:
            break
    return found if len(parts) > 1 else []
