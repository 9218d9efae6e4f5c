"""Of a story that breaks a promise the smallest that is found: what a test keeps."""

import gc
import warnings
from collections.abc import Callable, Iterator

from tests.simulation.story import Broken, Step, Story
from tests.simulation.teller import tell

MOST: int = 400  # stories that are tried


def why(story: Story) -> str:
    """How it breaks; "": it does not. Anything that is raised counts: a daemon must not do that either."""
    found = ""
    try:
        tell(story)
    except Broken as broken:
        found = str(broken)
    except Exception as error:  # noqa: BLE001
        found = f"{type(error).__name__}: {error}"
    if found:  # the error has kept alive what its daemon had under way
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return found


def shrunk(story: Story, breaks: Callable[[Story], bool] = lambda story: bool(why(story))) -> Story:
    """Takes away what it can do without, until nothing more can be."""
    tried = 0
    smaller = True
    while smaller:
        smaller = False
        for one in _smaller(story):
            tried += 1
            if tried > MOST:
                return story
            if breaks(one):
                story, smaller = one, True
                break
    return story


def _smaller(story: Story) -> Iterator[Story]:
    steps, shape = story.steps, story.shape
    for size in (8, 4, 2, 1):
        for at in range(0, len(steps), size):
            yield story._replace(steps=steps[:at] + steps[at + size :])
    if shape.clients > 1:
        yield story._replace(shape=shape._replace(clients=1))
    if len(shape.between) > 1:
        yield story._replace(shape=shape._replace(between=shape.between[:1]))
    if shape.pipeline != "all":
        yield story._replace(shape=shape._replace(pipeline="all"))
    if shape.err:
        yield story._replace(shape=shape._replace(err=False))
    if shape.attempts is not None and not story.chokes:
        yield story._replace(shape=shape._replace(attempts=None))
    for name in ("poison", "chokes"):
        if numbers := getattr(story, name):
            yield story._replace(**{name: numbers[1:]})
    for events in (story.events // 2, story.events - 1):
        if events > max((0, *story.poison, *story.chokes)):
            yield story._replace(events=events)
    for at, step in enumerate(steps):
        if step.what == "wait" and step.value > 0.1:
            yield story._replace(steps=(*steps[:at], Step("wait", round(step.value / 2, 2)), *steps[at + 1 :]))
