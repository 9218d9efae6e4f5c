"""Connector types: what the entry-point group `walflow.connectors` names, ours and strangers' alike."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from walflow.contract import Connector
from walflow.errors import WalflowError

GROUP = "walflow.connectors"


class NoConnector(WalflowError):
    """A type that is named by a distribution and cannot be had: the line says why."""


class Connectors(Mapping[str, type[Connector]]):
    """Kind -> class. Each is imported when first asked for: a flow without kafka does not load its client."""

    def __init__(self, points: Mapping[str, EntryPoint]) -> None:
        self._points = points
        self._loaded: dict[str, type[Connector]] = {}

    def __getitem__(self, kind: str) -> type[Connector]:
        """Raises NoConnector for what is named and cannot be loaded, KeyError for what nobody names."""
        if kind not in self._loaded:
            self._loaded[kind] = _load(self._points[kind])
        return self._loaded[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)


def connectors() -> Connectors:
    """Raises NoConnector where two distributions claim one kind, or none names any."""
    points: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in entry_points(group=GROUP):
        points[point.name].append(point)
    for kind, claims in points.items():
        _check_one(kind, claims)
    if not points:
        raise NoConnector("no connectors are registered: is walflow installed? (pip install -e .)")
    return Connectors({kind: claims[0] for kind, claims in points.items()})


def find(kind: str, registry: Mapping[str, type[Connector]]) -> type[Connector] | None:
    """A registered kind, or `package.module:Class`. Raises NoConnector."""
    if ":" in kind:
        return _load(EntryPoint(kind, kind, GROUP))
    return registry.get(kind)


def _check_one(kind: str, claims: list[EntryPoint]) -> None:
    by = sorted({_distribution(point) for point in claims})
    if len({point.value for point in claims}) > 1 and len(by) > 1:
        raise NoConnector(f"connector type {kind} is claimed by {' and by '.join(by)}: uninstall one of them")


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown distribution"


def _load(point: EntryPoint) -> type[Connector]:
    of = f" of {_distribution(point)}" if point.dist else ""
    named = f"connector type {point.name}{of}" if point.name != point.value else point.value
    try:
        module, _, name = point.value.partition(":")
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as failed:  # a stranger's module may raise anything
        raise NoConnector(f"{named} cannot be loaded: {type(failed).__name__}: {failed}") from failed
    if not (isinstance(found, type) and issubclass(found, Connector)):
        raise NoConnector(f"{named} is no subclass of walflow.Connector")
    return found
