"""`kv|%{key}=%{val}&|`: a record of the pairs in a string. The text between `%{key}` and `%{val}` separates keys from
values. All other text separates pairs. The defaults are `:` and a space."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from walflow_kernel.extractors.contract import NO_MATCH, BadExtractor, Extract, of_string, shown

_KEY: Final = "%{key}"
_VALUE: Final = "%{val}"
_ESCAPES: Final = {"\\": "\\", "n": "\n", "t": "\t", "r": "\r"}


def extractor(argument: str) -> Extract:
    between_pairs: set[str] = set()
    within_pairs: set[str] = set()
    rest = argument
    while rest:
        before, key, rest = rest.partition(_KEY)
        if before:
            between_pairs.add(_unescaped(before))
        if key:
            separator, value, rest = rest.partition(_VALUE)
            if not value:
                raise BadExtractor("behind a `%{key}` stands its `%{val}`, as in `%{key}=%{val}`")
            if not separator:
                raise BadExtractor("nothing separates `%{key}` from `%{val}`: write `%{key}=%{val}`")
            within_pairs.add(_unescaped(separator))
    pairs, fields = sorted(between_pairs or {" "}), sorted(within_pairs or {":"})
    _check(pairs, fields)
    return of_string(partial(_read, pairs, fields))


def _read(pairs: Sequence[str], fields: Sequence[str], text: str) -> object:
    """A part that is no pair is skipped, as in tremor. Without any pair there is no match."""
    split = (_split(pair, fields) for pair in _split(text, pairs))
    return {two[0]: two[1] for two in split if len(two) == 2} or NO_MATCH


def _split(text: str, separators: Sequence[str]) -> list[str]:
    parts = [text]
    for separator in separators:
        parts = [part for one in parts for part in one.split(separator)]
    return parts


def _check(pairs: Sequence[str], fields: Sequence[str]) -> None:
    every = [*pairs, *fields]
    for at, one in enumerate(every):
        for other in every[:at] + every[at + 1 :]:
            if one in other:
                where = "is also" if one == other else "is also part of"
                what = "" if one == other else f" `{shown(other)}`, which is"
                raise BadExtractor(f"the separator `{shown(one)}` {where}{what} another separator")


def _unescaped(text: str) -> str:
    return "".join(_characters(text))


def _characters(text: str) -> Iterator[str]:
    characters = iter(text)
    for one in characters:
        if one != "\\":
            yield one
            continue
        escaped = next(characters, "")
        if escaped not in _ESCAPES:
            raise BadExtractor(f"`\\{escaped}` is no separator: `\\\\`, `\\n`, `\\t` and `\\r` are known")
        yield _ESCAPES[escaped]
