"""`/onramp/metronome/01/out`: the URL of an artefact in a link."""

import re
from collections.abc import Mapping, Set as AbstractSet
from typing import Final, Literal, NamedTuple

from walflow.compile.nodes import Name
from walflow.diagnostics import Diagnostic, did_you_mean, error, one_of

Kind = Literal["onramp", "offramp", "pipeline"]

KINDS: Final[tuple[Kind, ...]] = ("onramp", "offramp", "pipeline")

_PLACEHOLDER = re.compile(r"\{([^{}/]*)\}")
_PREFIX = re.compile(r"tremor://[^/]*(?=/)")


class Artefact(NamedTuple):
    """One instance of a definition in a file."""

    kind: Kind
    id: str
    instance: str


class Url(NamedTuple):
    """`port` is None if it is left out. `written`: the text, with its place."""

    artefact: Artefact
    port: str | None
    written: Name


def placeholders(text: str) -> AbstractSet[str]:
    return set(_PLACEHOLDER.findall(text))


def filled(text: str, given: Mapping[str, Name]) -> str:
    """Placeholders without a value stay."""
    return _PLACEHOLDER.sub(lambda found: given[found[1]].text if found[1] in given else found[0], text)


def parsed(text: str, written: Name) -> "Url | Diagnostic":
    parts = _PREFIX.sub("", text).split("/")
    if parts[0] or len(parts) < 2:
        return error(
            f"`{text}` is no place of a link", written.span, f"it begins with {one_of(f'/{k}/' for k in KINDS)}"
        )
    kind = _kind(parts[1])
    if kind is None:
        hint = did_you_mean(parts[1], KINDS) or f"there are {one_of(KINDS).replace(' or ', ' and ')}"
        return error(f"`{parts[1]}` is nothing that can be linked", written.span, hint)
    if len(parts) not in (4, 5) or not all(parts[2:]):
        example = f"/{kind}/{parts[2] if len(parts) > 2 and parts[2] else 'id'}/{{instance}}/"
        example += {"onramp": "out", "offramp": "in", "pipeline": "in"}[kind]
        return error(
            f"`{text}` does not name {_an(kind)}, its instance and a port", written.span, f"write `{example}`"
        )
    return Url(Artefact(kind, parts[2], parts[3]), parts[4] if len(parts) == 5 else None, written)


def _an(kind: Kind) -> str:
    return f"a {kind}" if kind == "pipeline" else f"an {kind}"


def _kind(text: str) -> Kind | None:
    return next((kind for kind in KINDS if kind == text), None)
