"""Where the world is stopped, and what proves that it was there."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from pyspark_walflow.wire import FrameKind
from tests.exactly_once.wire_tap import TO_DAEMON, TO_SPARK, WireTap

LOOK: Final = 0.0005  # seconds between looks at Spark's files


class Files:
    """What Spark has written down of its batches; -1: none yet."""

    def __init__(self, here: Path, checkpoint: Path | None = None) -> None:
        self._table = here / "table"
        self._checkpoint = checkpoint or here / "checkpoint"

    @property
    def planned(self) -> int:
        return _last(self._checkpoint / "offsets")

    @property
    def written(self) -> int:
        return _last(self._table / "_spark_metadata")

    @property
    def finished(self) -> int:
        return _last(self._checkpoint / "commits")


def _last(directory: Path) -> int:
    if not directory.is_dir():
        return -1
    names = [name.removesuffix(".compact") for name in (path.name for path in directory.iterdir())]
    return max((int(name) for name in names if name.isdecimal()), default=-1)


class Scene(NamedTuple):
    """`stop` freezes Spark, `resume` lets it go on, `alive` is whether there is anything to wait for."""

    files: Files
    tap: WireTap
    stop: Callable[[], None]
    resume: Callable[[], None]
    alive: Callable[[], bool]


Reach = Callable[[Scene, int], str]
"""Returns once the world stands at the point, in batch `at_least` or a later one, with what proves it."""


def before_read(scene: Scene, at_least: int) -> str:
    return _at_frame(scene, at_least, TO_DAEMON, FrameKind.READ, whole=False)


def during_read(scene: Scene, at_least: int) -> str:
    return _at_frame(scene, at_least, TO_SPARK, FrameKind.DATA, whole=True)


def during_place(scene: Scene, at_least: int) -> str:
    return _at_frame(scene, at_least, TO_SPARK, FrameKind.PLACE, whole=True)


def after_output(scene: Scene, at_least: int) -> str:
    files = scene.files
    _look(scene, at_least, lambda: files.written, lambda: files.written > files.finished)
    return f"_spark_metadata/{files.written} is there, commits/{files.written} is not"


def after_commit(scene: Scene, at_least: int) -> str:
    files = scene.files
    _look(scene, at_least, lambda: files.finished, lambda: files.finished == files.planned)
    return f"commits/{files.finished} is there, offsets/{files.finished + 1} is not"


def _at_frame(scene: Scene, at_least: int, direction: str, kind: FrameKind, *, whole: bool) -> str:
    """Freezes where the first such frame comes by: `whole` False: it is not let through, else half of it is."""
    files, came, proof = scene.files, [False], [""]

    def hook(way: str, sort: FrameKind, frame: bytes) -> bytes | None:
        if came[0]:
            return None  # everything ends here
        if (way, sort) != (direction, kind) or files.planned < at_least:
            return frame
        scene.stop()
        came[0] = True
        assert files.planned > files.finished, "a range is read for a batch that is planned and not finished"
        said = f"half of a {kind.name} of {len(frame)} bytes went through" if whole else f"its {kind.name} did not"
        proof[0] = f"offsets/{files.planned} is there, commits/{files.planned} is not, {said}"
        return frame[: len(frame) // 2] if whole else None

    scene.tap.hook = hook
    while not proof[0]:
        assert scene.alive(), "Spark ended before the point was reached"
        time.sleep(LOOK)
    return proof[0]


def _look(scene: Scene, at_least: int, reached: Callable[[], int], there: Callable[[], bool]) -> None:
    """Freezes when a batch has got so far, and looks whether it got no further; else waits for the next one."""
    wanted = at_least
    while True:
        assert scene.alive(), "Spark ended before the point was reached"
        if reached() < wanted:
            time.sleep(LOOK)
            continue
        scene.stop()
        if there():
            return
        wanted = reached() + 1
        scene.resume()


class Point(NamedTuple):
    """`files`: the workers of that life read the log's files, else all comes over the connection."""

    name: str
    reach: Reach
    files: bool


POINTS: Final = (
    Point("between offset log and read", before_read, files=True),
    Point("during read", during_read, files=False),
    Point("during read, out of the log's files", during_place, files=True),
    Point("after output, before the commit log", after_output, files=True),
    Point("after the commit log, before the next batch", after_commit, files=False),
)
DAEMON: Final = "the daemon, while it serves"
