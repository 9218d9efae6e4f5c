"""How far each file was read, on its way to the sinks, and by which name its events go there.

A log recognises by name and offset what comes again after kill -9. To call other bytes known would lose them. So
before events are sent, it is written here how far the file was read, and what its last bytes were. What is read again
goes by the same name only if these bytes are at that place after it was read. Otherwise the file gets a new name, and
all of it counts as new.

The file is not synced: what it says is for the time until the next boot. A power cut may leave files that end
earlier, and go on with other bytes. So after a boot each file gets a new name.
"""

import os
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from connectors.file.checksum import crc32c
from connectors.file.follow.files_found import Identity
from connectors.file.follow.plain_file import GrowingFile, Head
from walflow.files import Disk
from walflow.world import dice

HEADER: Final = struct.Struct("<8s 36s I 12x I")  # magic, boot, checksum of the form, checksum
# identity, name, offset, bytes before it, first bytes, bytes from the cut to the offset and one more (0: no cut),
# checksum
SLOT: Final = struct.Struct("<QQ 16s Q II II II")
# A slot is in one page of memory, so kill -9 leaves the old one or the new one.
MAGIC: Final = b"WALFSENT"
NAME_BYTES: Final = 16
TAIL_BYTES: Final = 4096
CHECKSUM: Final = 4
NO_SLOT: Final = -1
MOST_BEHIND: Final = 0xFFFF_FFFE


class Sent(NamedTuple):
    """Events before `offset` may have been sent. `tail`: the bytes before it. `head`: the first bytes of the file
    then. `cut`: where an event of several lines ended because no more came: it ends there also when it is read again,
    though more is there by then."""

    name: str
    offset: int = 0
    tail: Head = Head()
    head: Head = Head()
    cut: int = 0

    @property
    def behind_cut(self) -> int:
        """0: there is no cut, or it is so far back that its event is acked."""
        behind = self.offset - self.cut
        return behind + 1 if self.cut and 0 <= behind < MOST_BEHIND else 0

    @classmethod
    def nothing(cls) -> "Sent":
        """With a name that no other file ever had."""
        return cls(dice().randbytes(NAME_BYTES).hex())


class SentSlot(NamedTuple):
    number: int
    sent: Sent


class FreedSlot(NamedTuple):
    identity: Identity
    number: int


class SentOffsets:
    """A slot for each file. Only the connector's one thread writes."""

    def __init__(
        self, disk: Disk, fd: int, slots: int, found: dict[Identity, SentSlot], freed: list[FreedSlot]
    ) -> None:
        self._disk = disk
        self._fd = fd
        self._slots = slots
        self._free: list[int] = []
        self._freed = deque(freed)  # and on disk they still say whose they were
        self._found = found

    def __repr__(self) -> str:
        return f"<SentOffsets of {self._slots} files>"

    @classmethod
    def open(cls, disk: Disk, directory: str, owner: str, boot: str, form: str, *, known: bool) -> "SentOffsets":
        """`form`: how bytes become events. By another one, a line that was refused may be an event. `known`: there is
        a checkpoint. Without it, all is read as on the first start. Raises OSError."""
        fd = disk.open(os.path.join(directory, f"{quote(owner, safe=':')}.sent"), create=True)
        try:
            size = disk.stat(fd).size
            header = _checked(HEADER, MAGIC, boot.encode().ljust(36)[:36], crc32c(form.encode()))
            if known and boot and disk.read(fd, HEADER.size, 0) == header:
                data = disk.read(fd, size, HEADER.size)
                return cls(disk, fd, len(data) // SLOT.size, *_decoded(data))
            disk.truncate(fd, 0)
            disk.write(fd, [header], 0)
            return cls(disk, fd, 0, {}, [])
        except BaseException:
            disk.close(fd)
            raise

    def take(self, identity: Identity) -> SentSlot:
        """Of a file that is followed from now on."""
        return self._found.pop(identity, None) or SentSlot(NO_SLOT, Sent.nothing())

    def write(self, slot: int, identity: Identity, sent: Sent) -> int:
        """The slot. Raises OSError."""
        if slot < 0:
            slot = self._for(identity)
        data = _checked(
            SLOT, *identity, bytes.fromhex(sent.name), sent.offset, *sent.tail, *sent.head, sent.behind_cut
        )
        self._disk.write(self._fd, [data], HEADER.size + slot * SLOT.size)
        self._slots = max(self._slots, slot + 1)
        return slot

    def free(self, slot: int, identity: Identity) -> None:
        """Of a file that is followed no more."""
        if slot >= 0:
            self._freed.append(FreedSlot(identity, slot))

    def free_unfound(self) -> None:
        """Files that were looked for, and are not there any more."""
        for identity, (slot, _) in self._found.items():
            self.free(slot, identity)
        self._found.clear()

    def wipe(self) -> None:
        """Slots that are free, once the checkpoint says that their files are not followed: another file may get the
        inode, even one with the same bytes. What cannot be wiped is tried again,
        and is not used for another inode until then."""
        for _ in range(len(self._freed)):
            freed = self._freed.popleft()  # the loop may add some meanwhile
            try:
                self._disk.write(self._fd, [bytes(SLOT.size)], HEADER.size + freed.number * SLOT.size)
            except OSError:
                self._freed.append(freed)
            else:
                self._free.append(freed.number)

    def _for(self, identity: Identity) -> int:
        """Never a second one for an inode."""
        for freed in list(self._freed):
            if freed.identity == identity:
                self._freed.remove(freed)
                return freed.number
        return self._free.pop() if self._free else self._slots

    def close(self) -> None:
        self._disk.close(self._fd)


def after(before: Sent, file: GrowingFile, last: bytes, start: int, parts: Sequence[bytes], *, sound: bool) -> Sent:
    """What is sent once these parts are, which were read from `start` on. `last`: the bytes before. `sound`: the file
    was what it was when the last of them was read. It blocks. Raises OSError."""
    if start < before.offset and not (sound and is_there(before, file)):
        before = Sent.nothing()
    end = start + sum(map(len, parts))
    if end <= before.offset:
        return before
    tail = parts[-1] if len(parts[-1]) >= TAIL_BYTES else b"".join((last, *parts))
    tail = tail[-TAIL_BYTES:]
    return Sent(before.name, end, Head(len(tail), crc32c(tail)), file.head, before.cut)


def is_there(sent: Sent, file: GrowingFile) -> bool:
    """Whether the file has these bytes now. Raises OSError."""
    places: list[tuple[Head, int]] = [(sent.tail, sent.offset - sent.tail.length), (sent.head, 0)]
    return all(crc32c(file.peek(head.length, offset)) == head.crc for head, offset in places)


def _checked(layout: struct.Struct, *fields: object) -> bytes:
    data = layout.pack(*fields, 0)[:-CHECKSUM]
    return data + crc32c(data).to_bytes(CHECKSUM, "little")


def _decoded(data: bytes) -> tuple[dict[Identity, SentSlot], list[FreedSlot]]:
    """An earlier walflow left two slots for an inode, one of them of a file that was gone. Which one is not known."""
    found: dict[Identity, SentSlot] = {}
    freed: list[FreedSlot] = []
    for number in range(len(data) // SLOT.size):
        slot = data[number * SLOT.size :][: SLOT.size]
        if crc32c(slot[:-CHECKSUM]) == int.from_bytes(slot[-CHECKSUM:], "little"):
            device, inode, name, offset, tail_length, tail_crc, head_length, head_crc, behind, _ = SLOT.unpack(slot)
            cut = offset + 1 - behind if behind else 0
            sent = Sent(name.hex(), offset, Head(tail_length, tail_crc), Head(head_length, head_crc), cut)
            if (before := found.get((device, inode))) is not None:
                freed.append(FreedSlot((device, inode), before.number))
            found[device, inode] = SentSlot(number, sent)
    return found, freed
