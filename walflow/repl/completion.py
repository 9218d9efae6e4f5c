"""How a word may go on."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, cast

from walflow.compile.reference import constants, declared, modules
from walflow.repl.session import ReplSession

COMMANDS: Final = (":event", ":meta", ":python", ":doc", ":script", ":reset", ":help", ":quit")
WORDS: Final = (
    *("absent", "case", "const", "default", "drop", "emit", "end", "event", "false", "for", "insert", "into", "let"),
    *("match", "merge", "null", "of", "patch", "present", "true", "update", "upsert", "use", "when", "with"),
)
_PATH: Final = re.compile(r"(event|\$)((?:\.[A-Za-z_]\w*)*)\.(\w*)")


def completions(session: ReplSession, line: str, word: str) -> list[str]:
    """All that `word`, the last one of `line`, may become."""
    if line.lstrip() == word and word.startswith(":"):
        return [one for one in COMMANDS if one.startswith(word)]
    return sorted({one for one in _known(session, line, word) if one.startswith(word) and one != word})


def _known(session: ReplSession, line: str, word: str) -> Iterator[str]:
    if found := _PATH.fullmatch(word):
        root, way, _ = found.groups()
        yield from (f"{root}{way}.{key}" for key in _members(session, root, way))
    elif "::" in word:
        before, _, _ = word.rpartition("::")
        for path, names in _names().items():
            if before in (path, path.rpartition("::")[2]):
                yield from (f"{before}::{name}" for name in names)
            if path.startswith(f"{before}::"):
                yield path
    elif line.lstrip().startswith((":doc", "use ")):
        yield from _names()
    else:
        yield from WORDS
        yield from session.locals
        yield from (f"{path.rpartition('::')[2]}::" for path in _names())


def _members(session: ReplSession, root: str, way: str) -> Iterator[str]:
    value: object = session.event if root == "event" else dict(session.meta)
    for key in way.split(".")[1:]:
        value = _as_record(value).get(key)
    yield from (key for key in _as_record(value) if isinstance(key, str))


def _as_record(value: object) -> Mapping[object, object]:
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}


@cache
def _names() -> Mapping[str, list[str]]:
    """Functions with their `(`, and constants, of the shipped modules."""
    found: dict[str, list[str]] = {path.replace("/", "::"): [] for path in modules()}
    for one in declared():
        found[one.path].append(f"{one.name}(")
    for path in modules():
        found[path.replace("/", "::")] += [one.name for one in constants(path)]
    return found
