"""Which file is the copy of one that was cut, where a disk fails a read."""

import errno
from random import Random

import pytest

from connectors.file.checksum import crc32c
from connectors.file.follow.copies import CutFile, find_copies
from connectors.file.follow.files_found import NamedFile
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.plain_file import HEAD_BYTES, Head
from connectors.file.follow.sent import SentOffsets
from walflow.clock import SystemClock
from walflow.network import SystemNetwork
from walflow.testing.disk import MemoryDisk
from walflow.world import World, entered

READ = b"".join(b"line %d\n" % number for number in range(300))


@pytest.mark.parametrize("patient", [True, False])
def test_a_copy_that_cannot_be_read_is_waited_for_a_while(patient: bool) -> None:
    disk = MemoryDisk({"/app.log": b"new\n", "/app.log.1": READ})
    cut = FollowedFile("/app.log", disk.status("/app.log").identity, len(READ))
    cut.position, cut.last, cut.cut = len(READ), READ, True
    cut.head = Head(HEAD_BYTES, crc32c(READ[:HEAD_BYTES]))
    copy = FollowedFile.found(NamedFile("/app.log.1", disk.status("/app.log.1").identity, len(READ), 0))
    asked = CutFile(cut, FollowedFile("/app.log", cut.identity, 4), patient=patient)
    offsets = SentOffsets(disk, 0, 0, {}, [])
    with entered(World(disk, SystemClock(), Random(1), SystemNetwork())):
        disk.fault = lambda operation, path: errno.EIO if (operation, path) == ("read", "/app.log.1") else None
        (found,) = find_copies([asked], [copy], offsets)
        assert (found.copy, found.unsettled) == (None, patient)
        disk.fault = None
        (found,) = find_copies([asked], [copy], offsets)
        assert found.copy is copy
