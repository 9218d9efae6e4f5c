"""What a node is, as a short text that differs where its configuration differs, and not where only its place in the
file, a comment or the layout does. So a running daemon and a file can be compared."""

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import msgspec
from pydantic import BaseModel, SecretStr

from walflow.diagnostics import Span
from walflow.lang.config import NodeId
from walflow.plan.assembly import Assembly

LENGTH: Final = 16


class RunningNode(NamedTuple):
    """`log`: the directory of its log."""

    id: NodeId
    type: str
    fingerprint: str
    log: str | None
    in_memory: bool = False


def described(assembly: Assembly) -> list[RunningNode]:
    connectors = [
        RunningNode(
            plan.id,
            plan.kind,
            fingerprint(plan),
            next((claim.path for claim in plan.connector.claims() if claim.what == "log directory"), None),
            plan.connector.traits.forwards and not plan.connector.traits.positions,
        )
        for plan in assembly.connectors
    ]
    return [*connectors, *(RunningNode(plan.id, "pipeline", fingerprint(plan), None) for plan in assembly.pipelines)]


def flow_hash(assembly: Assembly, flow: str) -> str:
    """Of all nodes of a flow and their links: another text where anything of it is configured otherwise."""
    nodes = {str(one.id): one.fingerprint for one in described(assembly) if one.id.flow == flow}
    links = [str(link) for link in assembly.links if flow in (link.source.flow, link.target.flow)]
    return fingerprint((sorted(nodes.items()), sorted(links)))


def fingerprint(plan: object) -> str:
    digest = sha256()
    for part in _parts(plan, ()):
        digest.update(part.encode(errors="surrogatepass") + b"\0")
    return digest.hexdigest()[:LENGTH]


def _parts(value: object, within: tuple[int, ...]) -> Iterator[str]:
    if value is None or isinstance(value, Span) or id(value) in within:
        return
    inner = (*within, id(value))
    if isinstance(value, SecretStr):  # it may be read anew at any time
        yield "secret"
    elif isinstance(value, Enum):
        yield str(value)
    elif isinstance(value, str):
        yield f"str {value}"
    elif isinstance(value, bytes | bool | int | float):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, AbstractSet):
        of_set = cast("AbstractSet[object]", value)
        yield from sorted(part for one in of_set for part in _parts(one, inner))
    elif isinstance(value, tuple | list):
        members = cast("Sequence[object]", value)
        yield type(members).__qualname__
        for one in members:
            yield from _parts(one, inner)
        yield "end"
    elif (named := _named(value)) is not None:
        yield type(value).__qualname__
        for name, one in named.items():
            yield f"{name!s}:"
            yield from _parts(one, inner)
        yield "end"
    else:
        of: Any = value if hasattr(value, "__qualname__") else type(value)
        yield f"{of.__module__}.{of.__qualname__}"


def _named(value: object) -> Mapping[object, object] | None:
    """The members of a record, of a model, of a dataclass."""
    if isinstance(value, Mapping):
        return cast("Mapping[object, object]", value)
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value) if one.repr}
    return None
