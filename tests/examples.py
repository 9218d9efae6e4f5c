"""How many examples a property test tries: a quarter of them each time the tests are run, all of them at night.

A test without a number of its own has hypothesis' hundred. One with a number writes `settings(max_examples=examples(400))`.
A few say a plain number, which is the same everywhere: those whose examples are slow, and those of `make soak`.
"""

from collections.abc import Collection

from hypothesis import settings

FULL = 100  # hypothesis' own default
PROFILES = {"few": FULL // 4, "full": FULL}
for _name, _count in PROFILES.items():
    settings.register_profile(_name, deadline=None, max_examples=_count)


def profile(tiers: Collection[str]) -> str:
    """`make nightly` runs the property tests of the other tiers once more, with `--hypothesis-profile full`."""
    return "few" if tiers and "nightly" not in tiers else "full"


def examples(full: int) -> int:
    """Read when a test module is imported; the profile is chosen before."""
    assert settings.default is not None
    return full * settings.default.max_examples // FULL
