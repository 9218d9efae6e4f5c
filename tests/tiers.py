"""Which tests run when: `make quick` before each commit, `make test` before each push, `make nightly` once a day, and
of it in each build what a change touches (tests/nightly).

Each test has one tier, decided here when tests are collected, by the first line that holds:

1. It is marked `soak`: none. `make soak` runs it.
2. It is the asyncio twin of a test that ran on uvloop, and not marked `both_loops`: `nightly`.
3. It is marked `quick`, `test` or `nightly`, next to it or for its whole file: that one.
4. It is marked `spark`: `nightly`. A JVM takes ten seconds.
5. It is marked `alone`, or it starts a process: `test`.
6. Anything else: `quick`.

Whether a test starts a process is read from its code: what it, its fixtures and its parameters reach by name in
`tests`, `demo`, `bench` and `release`. A quick test that starts one by a way not seen here fails, and is told which
mark it needs.
"""

import functools
import inspect
import re
import resource
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType

import pytest

from tests.system import warm

TIERS = ("quick", "test", "nightly")
OURS = re.compile(r"(tests|demo|bench|release)\b|.*\.test_")
NEEDS = {"alone": "mark.alone", "spark": "mark.spark", "hypothesis": "hypothesis"}  # what a file with such a test has
STARTS = {"create_subprocess_exec", "create_subprocess_shell", "fork", "multiprocessing", "posix_spawn", "subprocess"}


def tier(item: pytest.Item) -> str | None:
    """One of TIERS, or None for what only `make soak` runs."""
    assert isinstance(item, pytest.Function)
    if item.get_closest_marker("soak"):
        return None
    if is_twin(item) and not item.get_closest_marker("both_loops"):
        return "nightly"
    for mark in item.iter_markers():
        if mark.name in TIERS:
            return mark.name
    if item.get_closest_marker("spark"):
        return "nightly"
    if item.get_closest_marker("alone") or starts_a_process(item):
        return "test"
    return "quick"


def cannot_match(file: Path, expression: str) -> bool:
    """Whether no test of the file is chosen by `-m expression`,
    because its text has not what a mark of the expression needs."""
    needed = [NEEDS[word] for word in expression.split(" and ") if word in NEEDS]
    return any(text not in _text(file) for text in needed)


def hidden_mark(item: pytest.Item) -> str | None:
    """A mark that `cannot_match` does not see in the item's file."""
    marks = (mark for mark in NEEDS if item.get_closest_marker(mark))
    return next((mark for mark in marks if NEEDS[mark] not in _text(item.path)), None)


@functools.cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def is_twin(item: pytest.Function) -> bool:
    """On the slower of the two loops, which a daemon has only where it is told to."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "asyncio" in callspec._idlist


def starts_a_process(item: pytest.Function) -> bool:
    fixtures = item._fixtureinfo.name2fixturedefs
    used = [definition.func for name in item.fixturenames for definition in fixtures.get(name, ())]
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(map(_function_starts, (item.function, *used))) or any(map(_starts, parameters))


@functools.cache
def _function_starts(function: Callable[..., object]) -> bool:
    return any(map(_starts, _named(inspect.unwrap(function))))


_KNOWN: dict[int, tuple[object, bool]] = {}  # by id; the thing is kept, for else its id might be given again


def _starts(thing: object) -> bool:
    seen: dict[int, object] = {}
    found = _search(thing, seen)
    if not found:  # all was walked, so nothing of it leads anywhere else
        _KNOWN.update((key, (one, False)) for key, one in seen.items())
    return found


def _search(thing: object, seen: dict[int, object]) -> bool:
    if thing is subprocess or getattr(thing, "__module__", None) == subprocess.__name__:
        return True
    if (known := _KNOWN.get(id(thing))) is not None:
        return known[1]
    if id(thing) in seen:
        return False
    seen[id(thing)] = thing
    if any(_search(reached, seen) for reached in _reached(thing)):
        _KNOWN[id(thing)] = (thing, True)
        return True
    return False


def _reached(thing: object) -> Iterable[object]:
    if isinstance(thing, Mapping):
        return thing.values()
    if isinstance(thing, list | tuple | set | frozenset):
        return thing
    if isinstance(thing, functools.partial):
        return (thing.func, *thing.args)
    if isinstance(thing, MethodType):
        return (thing.__func__, thing.__self__)
    if isinstance(thing, property):
        return (thing.fget,)
    if isinstance(thing, classmethod | staticmethod):
        return (thing.__func__,)
    module = str(getattr(thing, "__module__", ""))
    if module == __name__ or not OURS.match(module):
        return ()
    if isinstance(thing, FunctionType):
        return _named(inspect.unwrap(thing))
    if isinstance(thing, type):
        return (*thing.__bases__, *vars(thing).values())
    return (type(thing),)


def _named(function: object) -> Iterator[object]:
    """What the names in its code stand for: its module's own, and what it takes from modules of ours."""
    assert isinstance(function, FunctionType)
    names = set(_names(function.__code__))
    if not names.isdisjoint(STARTS):
        yield subprocess
    known = function.__globals__
    modules = [known[name] for name in names if isinstance(known.get(name), ModuleType)]
    yield from (known[name] for name in names if name in known)
    for module in modules:
        if OURS.match(module.__name__):
            yield from (vars(module)[name] for name in names if name in vars(module))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def processes_ended() -> tuple[int, int, int]:
    """Changes whenever a process that was started here has ended, whoever started it, by whatever call."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_minflt, ended.ru_majflt, warm.started()
