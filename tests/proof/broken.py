"""Stories on a disk that lies, to see what becomes of a broken promise."""

from collections.abc import Callable

from tests.proof.proof import Story
from tests.proof.stories import Generated


def broken(seed: int) -> Story:
    story = Generated(seed)
    story.disk.lies = frozenset({"sync"})
    return story


SOURCES: dict[str, Callable[[int], Story]] = {"broken": broken}
