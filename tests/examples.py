"""How many examples a property test tries: a tenth of them before a commit, a quarter before a push, all at night.
hypothesis chooses others each time, so what ten runs of a day try is a night's worth.

A test without a number of its own has hypothesis' hundred. One with a number writes
`settings(max_examples=examples(400))`. A few say a plain number, which is the same everywhere, as those of `make soak`.
Where the examples are parameters, `shared` gives each its tier, by the same shares. Of a long table `sampled` does.
"""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import settings

FULL = 100  # hypothesis' own default
PROFILES = {"fewest": FULL // 10, "few": FULL // 4, "full": FULL}
for _name, _count in PROFILES.items():
    settings.register_profile(_name, deadline=None, max_examples=_count)


def profile(tiers: Collection[str]) -> str:
    """`make nightly` runs the property tests of the other tiers once more, with `--hypothesis-profile full`."""
    if not tiers or "nightly" in tiers:
        return "full"
    return "few" if "test" in tiers else "fewest"


def examples(full: int) -> int:
    """Read when a test module is imported; the profile is chosen before."""
    assert settings.default is not None
    return max(1, full * settings.default.max_examples // FULL)


def shared(given: Sequence[Any]) -> list[Any]:
    """For `parametrize`: every tenth before a commit, every fourth before a push, the rest at night."""
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=_tier(at)) for at, one in enumerate(given)
    ]


def sampled(given: Sequence[Any]) -> list[Any]:
    """For `parametrize`: every fourth before a commit, all before a push."""
    return [pytest.param(one, marks=() if at % 4 == 0 else [pytest.mark.test]) for at, one in enumerate(given)]


def _tier(at: int) -> Sequence[pytest.MarkDecorator]:
    return () if at % 10 == 0 else [pytest.mark.test] if at % 4 == 0 else [pytest.mark.nightly]
