"""`python -m tests.proof.reach FILE`: one quick telling of every story there is, for coverage to watch."""

from random import Random

from tests.proof.laned import Laned
from tests.proof.proof import Effort, Proof, Story
from tests.proof.scripts import SCRIPTS, scripted
from tests.proof.stories import Generated

QUICK = Effort((3, 1), (0.02,))


def tell() -> None:
    stories: list[tuple[int, Story]] = [
        *[(seed, scripted(seed)) for seed in range(len(SCRIPTS))],
        *[(seed, Generated(seed)) for seed in range(36)],
        *[(seed, Laned(seed)) for seed in range(36)],
    ]
    for seed, story in stories:
        story.effort = QUICK
        Proof(story, Random(seed)).run()


if __name__ == "__main__":
    tell()
