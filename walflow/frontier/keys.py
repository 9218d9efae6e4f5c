"""What a log's directory keeps of its receivers, a small file for each: the writer's tokens, and what the receiver
has confirmed.

A token names a writer. A new one is on disk here, beside the old one, before the receiver gets it; so a writer that
dies in between, or never hears the answer, knows both. The file is replaced whole, with a sync: it is written when a
writer begins, and then at most once a second. If it is lost, a receiver that went back is not noticed, and the writer
waits as a stranger would.
"""

import os
from contextlib import suppress
from typing import Final, Literal, Self
from urllib.parse import quote, unquote

import msgspec

from walflow.disk import Disk
from walflow.durable import DiskFolder, replace
from walflow.errors import WalflowError
from walflow.frontier.value import Confirmed, Frontier
from walflow.world import dice

FOLDER: Final = "frontiers"
MOST_TOKENS: Final = (
    16  # runs that died before they heard of the receiver; one forgotten is taken for a stranger, who is waited for
)


Accepts = Literal["", "log", "resend", "keep"]


class RefusedOpening(msgspec.Struct, frozen=True):
    """Why the sink did not write. `went_back`: which of the two did; neither: another process writes.
    `seen`: what the receiver had then; None: nothing."""

    went_back: Literal["log", "receiver", "neither"]
    why: str
    seen: Frontier | None


class WriterKeys(msgspec.Struct, frozen=True):
    """`tokens`: that the receiver may have of us, the newest last. `epoch`: the highest one that it has given us.
    `confirmed`: the highest position that it has confirmed. `refusal`: of the last opening. `moved_from`: the sink's
    old name, under which the receiver still has the frontier.

    An operator has said, `takes`: the next opening does not wait for another writer; `accepts`: it goes on although
    the log ("log") or the receiver went back. Then it has what the log still had sent again ("resend"), or not
    ("keep")."""

    tokens: tuple[str, ...] = ()
    epoch: int = 0
    confirmed: Confirmed = Confirmed()
    accepts: Accepts = ""
    takes: bool = False
    refusal: RefusedOpening | None = None
    moved_from: str = ""

    @property
    def newest(self) -> str:
        return self.tokens[-1]

    def with_token(self) -> Self:
        """And a new one. An older one may still be on its way to the receiver:
        all are kept until one is confirmed."""
        return msgspec.structs.replace(self, tokens=(*self.tokens, dice().randbytes(16).hex())[-MOST_TOKENS:])

    def taken(self, frontier: Frontier) -> Self:
        """The receiver has our newest token, under the epoch that it says."""
        return msgspec.structs.replace(
            self, tokens=(self.newest,), epoch=frontier.epoch, accepts="", takes=False, refusal=None, moved_from=""
        ).told(frontier)

    def told(self, frontier: Frontier) -> Self:
        """The receiver has said so after a commit."""
        return msgspec.structs.replace(self, confirmed=Confirmed(frontier.highest, frontier.generation))


class KeptFrontiers:
    """The files of one log. All of it blocks, and raises OSError."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = os.path.join(directory, FOLDER)

    def read(self, sink: str) -> WriterKeys:
        """Raises NotReadable: the file is no such file."""
        path = os.path.join(self._path, _name(sink))
        fd = None
        try:
            fd = self._disk.open(path)
            data = self._disk.read(fd, self._disk.stat(fd).size, 0)
        except FileNotFoundError:
            return WriterKeys()
        finally:
            if fd is not None:
                self._disk.close(fd)
        try:
            return msgspec.json.decode(data, type=WriterKeys)
        except msgspec.MsgspecError as error:
            raise NotReadable(f"{path}: {error}") from error

    def names(self) -> list[str]:
        """Of the sinks."""
        try:
            files = self._disk.names(self._path)
        except FileNotFoundError:
            return []
        return [unquote(name.removesuffix(".json")) for name in files if name.endswith(".json")]

    def write(self, sink: str, keys: WriterKeys) -> None:
        with suppress(FileExistsError):
            self._disk.makedir(self._path)
        replace(DiskFolder(self._disk, self._path), _name(sink), [msgspec.json.encode(keys)])

    def remove(self, sink: str) -> None:
        folder = DiskFolder(self._disk, self._path)
        folder.unlink(_name(sink))
        folder.sync_names()


class NotReadable(WalflowError):
    """What is kept of a receiver is damaged. Without it nobody knows whether the receiver went back."""


def _name(sink: str) -> str:
    return f"{quote(sink, safe='')}.json"
