"""A story is lived on a simulated disk, and the power is cut before each operation: every image that this may leave
is judged. Some of them are judged on a simulated disk again, whose power is cut in recovery, and so on,
three deep."""

from collections.abc import Hashable
from functools import partial
from random import Random
from typing import Final, NamedTuple, Protocol

from tests.proof.judge import Broken, Promises
from tests.proof.ledger import DEPTHS, Row
from walflow.testing.cuts import images
from walflow.testing.disk import Image, MemoryDisk, SimulatedDisk


class Effort(NamedTuple):
    """By depth: how many images of a cut, and how large a share of them is cut again."""

    breadths: tuple[int, ...]
    shares: tuple[float, ...]


USUAL: Final = Effort((24, 5, 4, 4), (0.08, 0.06, 0.05))
DEEP: Final = Effort((16, 16, 8, 4), (1.0, 0.2, 0.1))
THOROUGH: Final = Effort((4096, 4096, 4096, 4096), (1.0, 1.0, 1.0))


class Story(Protocol):
    """`live` works on the disk and keeps `promises` up to date. `kind`: under which it stands in the ledger."""

    name: str
    kind: str
    effort: Effort

    @property
    def disk(self) -> SimulatedDisk: ...

    @property
    def promises(self) -> Promises: ...
    def live(self) -> None: ...


class Proof:
    """Raises Broken, with what was done to reach the image."""

    def __init__(self, story: Story, dice: Random, seen: set[int] | None = None) -> None:
        self.row = Row(runs=1)
        self._story = story
        self._effort = story.effort
        self._dice = dice
        self._seen: set[int] = set() if seen is None else seen
        self._judged: set[Hashable] = set()
        self._path: list[str] = []

    def run(self) -> Row:
        disk = self._story.disk
        disk.before = lambda: self._cut(disk, self._story.promises, 0)
        try:
            self._story.live()
            disk.before()
        except Broken as broken:
            where = ", ".join([f"{self._story.name}: operation {disk.operations}", *self._path])
            raise Broken(f"{broken} ({where})") from broken
        finally:
            disk.before = None
        self.row.operations = disk.operations
        return self.row

    def _cut(self, disk: SimulatedDisk, promises: Promises, depth: int) -> None:
        self.row.cuts += 1
        for image in images(disk, self._dice, self._effort.breadths[depth]):
            self.row.images += 1
            if self._is_new(image, promises, depth):
                self._path.append(f"{image.kind} of what was not synced, operation {disk.operations}")
                self._judge(image, disk, promises.copy(), depth)
                self._path.pop()

    def _is_new(self, image: Image, promises: Promises, depth: int) -> bool:
        if image.digest not in self._seen:
            self._seen.add(image.digest)
            self.row.distinct += 1
            self.row.kinds[image.kind] = self.row.kinds.get(image.kind, 0) + 1
            self.row.depths[DEPTHS[depth]] = self.row.depths.get(DEPTHS[depth], 0) + 1
        key = image.digest, promises.key
        if key in self._judged:
            return False
        self._judged.add(key)
        return True

    def _judge(self, image: Image, worn: SimulatedDisk, promises: Promises, depth: int) -> None:
        self.row.judged += 1
        shares = self._effort.shares
        if depth < len(shares) and self._dice.random() < shares[depth]:
            disk = worn.like_this(image.files)
            disk.before = partial(self._cut, disk, promises, depth + 1)
            promises.judge(disk)
            disk.before()
        else:
            again = MemoryDisk(image.files)
            again.preallocates = worn.preallocates
            promises.judge(again)
