"""What is compiled together: selects and scripts that streams link,
from a place where events come in to the exits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walflow.compile.program import EmitOf, ScriptOf, Term, WindowsOf, walk
from walflow.diagnostics import Span
from walflow_kernel.windows.frame import WINDOWS


class Rule(NamedTuple):
    """One select. `what` is None for `event` unchanged, `where` and `having` are None for no condition. `where` sees
    the event that came, `having` the event that was made. `to` is a place of the region, or an exit. `windows`: of a
    select with windows, or with `group by`."""

    what: Term | None
    where: Term | None
    having: Term | None
    to: str
    span: Span | None = None
    windows: WindowsOf | None = None

    @property
    def plain(self) -> bool:
        """It cannot fail, and takes every event."""
        return self.what is None and self.where is None and self.having is None and self.windows is None


class Onward(NamedTuple):
    """`kept`: unchanged."""

    to: str
    kept: bool


def input_place(script: str, port: str) -> str:
    """The place of events that come to a script by this port. No node has such a name."""
    return script if port == "in" else f"{script} from {port}"


def node_of(place: str) -> str:
    """The script of this input."""
    return place.partition(" from ")[0]


class Region(NamedTuple):
    """`places`: for each place, its selects in the order of the file. No place leads back to itself. `scripts`: for
    some places, the script that runs there instead, see `input_place`. What leaves a script is at the place
    `NAME/PORT`, which `places` contains. `errs`: for some places, the place that their errors go to; the errors of
    other places are refused."""

    name: str
    entry: str
    places: Mapping[str, Sequence[Rule]]
    scripts: Mapping[str, ScriptOf] = {}
    errs: Mapping[str, str] = {}

    @property
    def exits(self) -> list[str]:
        targets = dict.fromkeys(rule.to for rules in self.places.values() for rule in rules)
        return [target for target in targets if not self.has(target)]

    @property
    def keeps(self) -> Sequence[str]:
        """The nodes that keep state from one event to the next."""
        scripts = dict.fromkeys(node_of(place) for place, script in self.scripts.items() if script.keeps)
        return [*scripts, *(place for place, _ in self._windowed)]

    @property
    def _windowed(self) -> list[tuple[str, WindowsOf]]:
        """Selects with windows, by their places."""
        return [
            (window_place(name, number), rule.windows)
            for name, rules in self.places.items()
            for number, rule in enumerate(rules)
            if rule.windows is not None and rule.windows.frames
        ]

    def _reached_from(self, place: str) -> list[str]:
        """How often an event may come there from this place. (A script lets an event leave by one port. The number
        may be too high, which is safe.)"""
        reached = [way.to for way in self.onward(place)]
        return list(dict.fromkeys(reached)) if place in self.scripts else reached

    def has(self, place: str) -> bool:
        return place in self.places or place in self.scripts

    def err_of(self, place: str) -> str | None:
        """The place that its errors go to. A script's errors leave by a port of its own, if that leads anywhere."""
        own = f"{node_of(place)}/err"
        return own if place in self.scripts and self.places.get(own) else self.errs.get(place)

    def onward(self, place: str) -> list[Onward]:
        """The places that events go to from a place."""
        script, err = self.scripts.get(place), self.err_of(place)
        failed = [] if err is None else [Onward(err, kept=False)]
        if script is None:
            rules = self.places[place]
            failed = [one for rule in rules if not rule.plain for one in failed]
            # what is grouped may leave in several groups, or in results of several windows
            times = [(rule, 1 if rule.windows is None else 2) for rule in rules]
            return [*(Onward(rule.to, rule.what is None) for rule, ways in times for _ in range(ways)), *failed]
        emits = [one for one in walk(script.body) if isinstance(one, EmitOf)]
        ways = dict.fromkeys(Onward(f"{node_of(place)}/{one.port}", one.value is None) for one in emits)
        return [*ways, *failed]

    @property
    def repeated(self) -> frozenset[str]:
        """The exits by which one event may leave more than once, because several ways lead there."""
        ways = Counter({self.entry: 1})
        names = [*self.places, *self.scripts]
        onward = {name: self._reached_from(name) for name in names}
        open = Counter(to for reached in onward.values() for to in reached)
        ready = [name for name in names if not open[name]]
        for name in ready:
            for to in onward.get(name, ()):
                ways[to] = min(ways[to] + ways[name], 2)
                open[to] -= 1
                if not open[to]:
                    ready.append(to)
        return frozenset(exit for exit in self.exits if ways[exit] > 1)


def window_place(source: str, number: int) -> str:
    """Of a select with windows: what it is from, and its number among the selects from there."""
    return f"{source}{WINDOWS}{number}"
