"""What distributions register by entry points: connectors, codecs, framings. walflow's own come the same way."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Generic, TypeVar

from walflow.errors import WalflowError

T = TypeVar("T")

Check = Callable[[str, object], T]
"""(how messages name it, what was loaded) -> the same, typed. Raises NotLoadable for what is none."""


class NotLoadable(WalflowError):
    """A registered name that cannot be used. The message names the distribution and the reason."""


class Plugins(Mapping[str, T], Generic[T]):
    """Name -> what is registered under it. Each is imported when it is first asked for, so a flow without Kafka does
    not load Kafka's client."""

    def __init__(self, what: str, points: Mapping[str, EntryPoint], check: Check[T]) -> None:
        self._what = what
        self._points = points
        self._check = check
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """Raises NotLoadable for what is registered and cannot be loaded, KeyError for what is not registered."""
        if name not in self._loaded:
            self._loaded[name] = load(self._points[name], self._what, self._check)
        return self._loaded[name]

    def of(self, distribution: str) -> "Plugins[T]":
        """Those that one distribution registers."""
        points = {name: point for name, point in self._points.items() if _distribution(point) == distribution}
        return Plugins(self._what, points, self._check)

    def __contains__(self, name: object) -> bool:
        """Whether the name is registered. Loads nothing."""
        return name in self._points

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)


def discover(group: str, what: str, check: Check[T]) -> Plugins[T]:
    """All that `group` has. Raises NotLoadable where two distributions register one name, or none is installed."""
    points: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in entry_points(group=group):
        points[point.name].append(point)
    for name, claims in points.items():
        by = sorted({_distribution(point) for point in claims})
        if len({point.value for point in claims}) > 1 and len(by) > 1:
            raise NotLoadable(f"{what} {name} is claimed by {' and by '.join(by)}: uninstall one of them")
    if not points:
        raise NotLoadable(f"no {what} is registered: is walflow installed? (pip install -e .)")
    return Plugins(what, {name: claims[0] for name, claims in points.items()}, check)


def load(point: EntryPoint, what: str, check: Check[T]) -> T:
    """Raises NotLoadable."""
    of = f" of {_distribution(point)}" if point.dist else ""
    named = f"{what} {point.name}{of}" if point.name != point.value else point.value
    try:
        module, _, name = point.value.partition(":")
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except WalflowError as refused:  # in words of its own: what it needs
        raise NotLoadable(f"{named} cannot be loaded: {refused}") from refused
    except Exception as failed:  # another distribution's module may raise anything
        raise NotLoadable(f"{named} cannot be loaded: {type(failed).__name__}: {failed}") from failed
    return check(named, found)


def known_keys(of: str, config: Iterable[str], known: Sequence[str] = ()) -> None:
    """Raises WalflowError for a key of `config` that is not in `known`."""
    unknown = sorted(set(config) - set(known))
    if unknown:
        raise WalflowError(f"{of} has no key {unknown[0]}: it takes {', '.join(known) or 'no configuration'}")


def _distribution(point: EntryPoint) -> str:
    return _name(point.dist) if point.dist else "an unknown distribution"


@cache
def _name(distribution: Distribution) -> str:
    return distribution.name  # which reads and parses a file: 0.7 ms
