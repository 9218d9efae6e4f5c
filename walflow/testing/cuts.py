"""The images that a power cut may leave of a simulated disk: all of them if they are few, or else a choice.

What was not synced is a row of independent axes: each sector has one of its versions, each file one of its sizes,
each change of a name happened or did not. So writes are lost, kept, reordered and torn between sectors in every way.
Beside them stand images with a garbled sector: of the bytes that were just being written, some are arbitrary.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from random import Random
from typing import Final

from walflow.testing.disk import SECTOR, Image, Inode, Kept, SimulatedDisk, parent, part_digest, whole_digest

KINDS: Final = ("nothing", "everything", "torn", "size", "names", "garbled")

MOST_KNOWN: Final = 64

Choice = tuple[int, ...]
File = tuple[Kept, bytes]  # and the digest of its content


def file_of(inode: Inode, data: bytes) -> File:
    return Kept(data, inode.number), part_digest(data)


class Blur:
    """What may become of one file: axes, and the content for a choice on each. Index 0 is what was synced."""

    def __init__(self, inode: Inode) -> None:
        self.inode = inode
        self._sizes = _sizes(inode)
        self._sectors = [
            (sector, versions) for sector in sorted(inode.written) if (versions := _versions(inode, sector))
        ]
        self.axes = [len(self._sizes), *[len(versions) + 1 for _, versions in self._sectors]]
        self._known: dict[Choice, File] = {}

    def file(self, choice: Choice) -> File:
        file = self._known.get(choice)
        if file is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            size = self._sizes[choice[0]]
            self._known[choice] = file = file_of(self.inode, self._build(size, [v - 1 for v in choice[1:]]))
        return file

    def _build(self, size: int, chosen: Sequence[int]) -> bytes:
        data = bytearray(self.inode.synced)
        for (sector, versions), index in zip(self._sectors, chosen, strict=True):
            if index >= 0:
                _paste(data, sector, versions[index])
        return bytes(data[:size].ljust(size, b"\0"))

    def garbled(self, choice: Choice, dice: Random, *, widely: bool) -> bytes:
        """Its content, with a sector spoiled that was being written."""
        sector = dice.choice(list(self.inode.written))
        version = self.inode.written[sector][-1]
        size = max(self._sizes[choice[0]], min(self._sizes[-1], (sector + 1) * SECTOR))
        data = bytearray(self._build(size, [v - 1 for v in choice[1:]]))
        first, after = (0, SECTOR) if widely else (version.first, version.after)
        first = dice.randint(first, after) if first < after and dice.random() < 0.5 else first
        spoiled = bytearray(version.data)
        spoiled[first : max(first, after)] = dice.randbytes(max(0, after - first))
        _paste(data, sector, bytes(spoiled))
        return bytes(data[:size])


def blur_of(inode: Inode) -> Blur:
    if inode.blur is None:
        inode.blur = Blur(inode)
    return inode.blur


def _sizes(inode: Inode) -> list[int]:
    """And those between: a file that grows does so sector by sector."""
    known = [len(inode.synced), *inode.sizes]
    between = range(min(known) // SECTOR * SECTOR + SECTOR, max(known), SECTOR)
    return list(dict.fromkeys([known[0], *(between if len(between) <= 16 else ()), *known[1:]]))


def _versions(inode: Inode, sector: int) -> list[bytes]:
    """Those that differ from what was synced."""
    at = sector * SECTOR
    synced = inode.synced[at : at + SECTOR].ljust(SECTOR, b"\0")
    return [data for data in dict.fromkeys(version.data for version in inode.written[sector]) if data != synced]


def _paste(data: bytearray, sector: int, content: bytes) -> None:
    at = sector * SECTOR
    if at + SECTOR > len(data):
        data.extend(bytes(at + SECTOR - len(data)))
    data[at : at + SECTOR] = content


class Cut:
    """All that was not synced, at one moment."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._widely = disk.spoils_neighbours
        self._durable = disk.durable
        self._changes = list(disk.changes)
        self._names: dict[Choice, list[tuple[str, bytes, Inode]]] = {}
        self._unchanged: dict[int, File] = {}
        everything = [*disk.durable.values(), *(inode for change in disk.changes for inode in change.values())]
        inodes = {inode.number: inode for inode in everything if inode is not None}
        locks = {inode.number for path, inode in disk.inodes.items() if path.endswith("LOCK")}
        dirty = [inode for inode in inodes.values() if (inode.written or inode.sizes) and inode.number not in locks]
        self._blurs = [blur_of(inode) for inode in dirty]
        self._axes = [size for blur in self._blurs for size in blur.axes] + [2] * len(self._changes)

    def images(self, dice: Random, breadth: int) -> Iterator[Image]:
        for choice in dict.fromkeys(self._choices(dice, breadth)):
            yield self._image(choice, self._dirty(choice), self._kind(choice))
        written = [blur for blur in self._blurs if blur.inode.written]
        for _ in range(breadth // 4 if written else 0):
            choice = self._any(dice)
            files = self._dirty(choice)
            blur = dice.choice(written)
            garbled = blur.garbled(self._of(blur, choice), dice, widely=self._widely)
            files[blur.inode.number] = file_of(blur.inode, garbled)
            yield self._image(choice, files, "garbled")

    def _choices(self, dice: Random, breadth: int) -> Iterator[Choice]:
        if prod(self._axes) <= breadth:
            yield from product(*map(range, self._axes))
            return
        yield tuple(0 for _ in self._axes)
        yield tuple(size - 1 for size in self._axes)
        for _ in range(breadth - 2):
            yield self._any(dice)

    def _any(self, dice: Random) -> Choice:
        share = dice.choice((0.2, 0.5, 0.8))
        return tuple(
            0 if dice.random() > share else size - 1 if size == 2 else dice.randrange(size) for size in self._axes
        )

    def _kind(self, choice: Choice) -> str:
        if not any(choice):
            return "nothing"
        if all(index == size - 1 for index, size in zip(choice, self._axes, strict=True)):
            return "everything"
        names = choice[len(choice) - len(self._changes) :]
        if any(names) and not all(names):
            return "names"
        if any(0 < self._of(blur, choice)[0] < blur.axes[0] - 1 for blur in self._blurs):
            return "size"
        return "torn"

    def _of(self, blur: Blur, choice: Choice) -> Choice:
        at = 0
        for each in self._blurs:
            if each is blur:
                break
            at += len(each.axes)
        return choice[at : at + len(blur.axes)]

    def _dirty(self, choice: Choice) -> dict[int, File]:
        """What becomes of the files that were not synced, by the number of the inode."""
        files: dict[int, File] = {}
        at = 0
        for blur in self._blurs:
            after = at + len(blur.axes)
            files[blur.inode.number] = blur.file(choice[at:after])
            at = after
        return files

    def _image(self, choice: Choice, dirty: dict[int, File], kind: str) -> Image:
        files: dict[str, Kept] = {}
        parts: list[bytes] = []
        for path, encoded, inode in self._named(choice[len(choice) - len(self._changes) :]):
            file = dirty.get(inode.number) or self._unchanged.get(inode.number)
            if file is None:
                self._unchanged[inode.number] = file = _synced(inode)
            files[path] = file[0]
            parts += (encoded, file[1])
        return Image(files, whole_digest(parts), kind)

    def _named(self, choice: Choice) -> list[tuple[str, bytes, Inode]]:
        """In alphabetical order, so directories before what is in them."""
        found = self._names.get(choice)
        if found is not None:
            return found
        names: dict[str, Inode | None] = dict(self._durable)
        lost: set[str] = set()
        for change, happened in zip(self._changes, choice, strict=True):
            if happened and lost.isdisjoint(change):
                names |= change
            else:  # what was done to the same name later did not happen either
                lost.update(change)
        there: dict[str, Inode] = {}
        for path in sorted(names):
            inode, folder = names[path], parent(path)
            if inode is not None and not path.endswith("/LOCK") and (folder == "/" or folder in there):
                there[path] = inode
        self._names[choice] = found = [(path, path.encode(), inode) for path, inode in there.items()]
        return found


def _synced(inode: Inode) -> File:
    if inode.data is None:
        return Kept(None, inode.number), part_digest(b"")
    return file_of(inode, inode.synced)


def images(disk: SimulatedDisk, dice: Random, breadth: int) -> Iterator[Image]:
    """At most `breadth`, and a quarter more that are garbled. Two of them may be the same."""
    return Cut(disk).images(dice, breadth)


def power_cut(disk: SimulatedDisk, dice: Random) -> None:
    """The power goes, and comes back on one of the images."""
    disk.become(dice.choice(list(images(disk, dice, 8))).files)
