"""What becomes of a file whose events are all acked, where files are dropped to be read once.
It blocks: for a thread."""

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from connectors.file.follow.followed import FollowedFile, open_file
from connectors.file.follow.plain_file import Elsewhere, Rewritten
from walflow import world
from walflow.files import Disk


class Disposed(NamedTuple):
    """`grown`: it is longer than what was read, so it stays. `rewritten`: it has other bytes. `trouble`: why it could
    not be deleted or moved."""

    file: FollowedFile
    grown: bool = False
    rewritten: bool = False
    trouble: str = ""


def dispose(files: Sequence[FollowedFile], move_to: str | None) -> list[Disposed]:
    """Deletes them, or moves them to a directory. What is not there any more counts as done."""
    disk = world.disk()
    results: list[Disposed] = []
    directories: set[str] = set()
    for each in files:
        try:
            found = disk.status(each.path, follow_links=False)
            if found.identity != each.identity:  # a link to it, or another file by now
                results.append(Disposed(each, trouble="its name leads to another file now"))
                continue
            if found.size > (each.packed if each.compressed else each.position):
                results.append(Disposed(each, grown=True))
                continue
            _look_into(each)
            directories.add(os.path.dirname(each.path) or ".")
            if move_to is None:
                disk.unlink(each.path)
            else:
                directories.add(move_to)
                _move(disk, each.path, move_to)
        except Rewritten:
            results.append(Disposed(each, rewritten=True))
        except FileNotFoundError:
            results.append(Disposed(each))
        except OSError as error:
            results.append(Disposed(each, trouble=error.strerror or str(error)))
        else:
            results.append(Disposed(each))
    for directory in directories:
        with suppress(OSError):  # after a power cut the file may be there again: then it is read again
            disk.sync_directory(directory)
    return results


def _look_into(each: FollowedFile) -> None:
    """It may have been waiting for its acks for hours.
    Raises OSError, and Rewritten where it is not what was read."""
    with suppress(Elsewhere):
        open_file(each).close()


def _move(disk: Disk, path: str, directory: str) -> None:
    """A file of that name stays as it is: this one gets a number. Raises OSError."""
    disk.makedir(directory, 0o777)
    name = os.path.basename(path)
    for number in count():
        target = os.path.join(directory, name if not number else f"{name}.{number}")
        try:
            disk.status(target, follow_links=False)
        except FileNotFoundError:
            disk.rename(path, target)
            return
