"""`glob|*.log|`: true for a string that matches as a whole. `?` is one character, `*` any number of characters,
`[a-z]` one of these and `[!a-z]` one of all others."""

from functools import partial
from typing import Final

from walflow_kernel.extractors.contract import NO_MATCH, BadExtractor, Extract, of_bytes
from walflow_kernel.extractors.re import compiled
from walflow_kernel.std.re import Pattern

_WORDS: Final = {"*": ".*", "?": "."}


def extractor(argument: str) -> Extract:
    return of_bytes(partial(_fits, compiled(f"(?s)^{_regex(argument)}$")))


def _fits(regex: Pattern, text: bytes) -> object:
    return True if regex.is_in(text) else NO_MATCH


def _regex(glob: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(glob):
        if glob[at] == "[":
            end = _end(glob, at)
            parts.append(_class(glob[at + 1 : end]))
            at = end + 1
        else:
            parts.append(_WORDS.get(glob[at]) or _literal(glob[at]))
            at += 1
    return "".join(parts)


def _end(glob: str, begin: int) -> int:
    """The place of the closing bracket. A `]` directly after `[` or `[!` is a character."""
    first = begin + (2 if glob.startswith("[!", begin) else 1)
    end = glob.find("]", first + 1)
    if end < 0:
        raise BadExtractor("a `[` without its `]`; the character itself is written `[[]`")
    return end


def _class(inner: str) -> str:
    none_of = inner.startswith("!")
    characters = inner[1:] if none_of else inner
    parts: list[str] = []
    at = 0
    while at < len(characters):
        if characters[at + 1 : at + 2] == "-" and at + 2 < len(characters):
            low, high = characters[at], characters[at + 2]
            if low > high:
                raise BadExtractor(f"the range `{low}-{high}` is the wrong way round")
            parts.append(f"{_literal(low)}-{_literal(high)}")
            at += 3
        else:
            parts.append(_literal(characters[at]))
            at += 1
    return f"[{'^' if none_of else ''}{''.join(parts)}]"


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\x{{{ord(character):x}}}"
