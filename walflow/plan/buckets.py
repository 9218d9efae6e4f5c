"""Which events of a pipeline share a state: those of one bucket, and an event goes to the bucket of its group.

A region with windows is compiled once more, as far as its `group by`: what it gives of an event are the values of the
group, evaluated where the windows stand, behind the scripts and selects before them. All of the pipeline then runs in
the bucket. So this decides where an event goes, and never what becomes of it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from walflow.compile.compiled import Compiled
from walflow.compile.compiler import compile_region
from walflow.compile.identity import identity_of
from walflow.compile.program import AggregateOf, ArrayOf, CallOf, Term, walk
from walflow.compile.region import Region, Rule
from walflow.compile.shipment import ship
from walflow_kernel.kept import pack
from walflow_kernel.shipped import Keeping
from walflow_kernel.windows.groups import DEFAULT_MAX_BYTES, DEFAULT_MAX_GROUPS

BUCKETS: Final = 8
FOREVER_NS: Final = 1 << 62
GROUP: Final = "(group)"  # an exit; no file can name it


class KeptRegion(NamedTuple):
    """`port`: of the pipeline."""

    port: str
    region: Region
    compiled: Compiled


def keeping(regions: Sequence[KeptRegion], buckets: int) -> Keeping | None:
    """None: nothing is kept. Raises NotShippable."""
    begins = {place: cell for one in regions for place, cell in one.compiled.begins.items()}
    if not begins:
        return None
    single = next((why for one in regions if (why := _why_single(one)) is not None), None)
    dealt = [] if single is not None else [one for one in regions if _windowed(one.region)]
    count = 1 if single is not None else buckets
    return Keeping(
        count,
        pack(begins),
        {one.port: ship(compile_region(_as_far_as_the_group(one.region))) for one in dealt},
        bool(dealt) and all(_leaves_by_windows_alone(one.region) for one in regions),
        identity_of([one.region for one in regions], count),
        single,
        *_closing(regions),
    )


def _closing(regions: Sequence[KeptRegion]) -> tuple[int, int]:
    """After how long all windows are closed that time closes, and the shortest interval of one. The windows of one
    select may be open one after the other. A script for ticks may leave its window open for ever."""
    frames = [
        frame for one in regions for _, rule in _windowed(one.region) if rule.windows for frame in rule.windows.frames
    ]
    if any(frame.tick is not None for frame in frames):
        return FOREVER_NS, 0
    found = [
        [frame.interval for frame in rule.windows.frames if frame.interval is not None and frame.timed]
        for one in regions
        for _, rule in _windowed(one.region)
        if rule.windows is not None
    ]
    # what leaves a window may go into windows further on
    return sum(map(sum, found)), min((interval for intervals in found for interval in intervals), default=0)


def _why_single(one: KeptRegion) -> str | None:
    """Why all of its events share one state."""
    region = one.region
    scripts = [name for name in region.keeps if name in {place.partition(" from ")[0] for place in region.scripts}]
    if scripts:
        return f"script `{scripts[0]}` has a `state`, which all events share"
    windowed = _windowed(region)
    if not windowed:
        return None
    if len({place for place, _ in windowed}) > 1:
        return "windows stand at several places, and an event may be in a group of each"
    [first, *others] = [rule.windows for _, rule in windowed if rule.windows is not None]
    if not first.keys:
        return "there is no `group by`: all events are one group"
    if any(key.each for key in first.keys):
        return "an event may be in several groups, by `each`"
    if any(identity_of((), other.keys) != identity_of((), first.keys) for other in others):
        return "selects with windows have different `group by`"
    if any(windows.most != DEFAULT_MAX_GROUPS for windows in (first, *others)):
        return "`max_groups` counts all groups"
    if any(windows.max_bytes != DEFAULT_MAX_BYTES for windows in (first, *others)):
        return "`max_bytes` counts what all groups keep"
    if any(_counts_groups(rule) for _, rule in windowed):
        return "`win::cardinality` counts all groups"
    if one.compiled.draws or any(_draws(key.value) for windows in (first, *others) for key in windows.keys):
        return "it draws random numbers"
    return "an event comes to the windows by several ways" if _comes_twice(region) else None


def _windowed(region: Region) -> list[tuple[str, Rule]]:
    return [
        (place, rule)
        for place, rules in region.places.items()
        for rule in rules
        if rule.windows is not None and rule.windows.frames
    ]


def _counts_groups(rule: Rule) -> bool:
    terms = [term for term in (rule.what, rule.having) if term is not None]
    return any(isinstance(one, AggregateOf) and one.aggregate is None for term in terms for one in walk(term))


def _draws(term: Term) -> bool:
    return any(isinstance(one, CallOf) and one.function.when == "chance" for one in walk(term))


def _comes_twice(region: Region) -> bool:
    return GROUP in _as_far_as_the_group(region).repeated


def _as_far_as_the_group(region: Region) -> Region:
    """What of it decides the group of an event."""
    [(at, rule), *others] = _windowed(region)
    windows = rule.windows
    assert windows is not None
    condition = None if others or not _leaves_by_windows_alone(region) else rule.where
    group = ArrayOf(tuple(key.value for key in windows.keys), windows.span)
    to_group = Rule(group, condition, None, GROUP, rule.span)
    with_windows = [rule, *(other for _, other in others)]
    places = {
        place: [
            *(one for one in rules if one not in with_windows and region.has(one.to)),
            *([to_group] if place == at else []),
        ]
        for place, rules in region.places.items()
    }
    reachable = _leading_to(region._replace(places=places), at)
    kept = {
        place: [one for one in rules if one is to_group or one.to in reachable]
        for place, rules in places.items()
        if place in reachable or place == region.entry
    }
    scripts = {place: script for place, script in region.scripts.items() if place in reachable}
    # a script has places for all that it emits to
    exits = {way.to: list[Rule]() for place in scripts for way in region.onward(place)}
    errs = {place: err for place, err in region.errs.items() if place in kept and err in {*kept, *scripts}}
    return Region(f"{region.name} {GROUP}", region.entry, {**exits, **kept}, scripts, errs)


def _leading_to(region: Region, at: str) -> set[str]:
    """The places from which an event may come to this one, and itself."""
    found = {at}
    while more := {
        place
        for place in (*region.places, *region.scripts)
        if place not in found and any(way.to in found for way in region.onward(place))
    }:
        found |= more
    return found


def _leaves_by_windows_alone(region: Region) -> bool:
    """An event that comes to no window leaves nothing, unless it is an error."""
    if len(_windowed(region)) != 1:
        return False
    waiting = [region.entry]
    for place in waiting:
        ways = [rule.to for rule in region.places.get(place, ()) if rule.windows is None or not rule.windows.frames]
        ways += [way.to for way in region.onward(place)] if place in region.scripts else []
        ways += [err] if (err := region.err_of(place)) is not None else []
        if not all(map(region.has, ways)):
            return False
        waiting += [to for to in dict.fromkeys(ways) if to not in waiting]
    return True
