"""A disk in memory that knows what a power cut may leave: of every file its synced bytes and any of the sectors that
were written since; of every directory its synced names and any of the changes since. It never syncs by itself."""

import errno
import os
from collections.abc import Sequence
from random import Random

from walflow.disk import Stat

SECTOR = 512


class PowerCut(BaseException):
    """Nothing that the process does after it reaches the disk."""


class File:
    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = bytes(data)
        self.touched: set[int] = set()  # sectors that differ, maybe
        self.locked = False

    def sync(self) -> None:
        """What is dirty is on disk now. What is clean is not looked at, whatever became of it."""
        data = bytearray(self.synced[: len(self.data)].ljust(len(self.data), b"\0"))
        for sector in self.touched:
            start = sector * SECTOR
            data[start : start + SECTOR] = self.data[start : start + SECTOR]
        self.synced = bytes(data)
        self.touched.clear()

    def after_cut(self, chance: Random) -> "File":
        data = bytearray(self.synced)
        share = chance.choice((0.0, 0.5, 0.9, 1.0))
        for sector in sorted(self.touched):
            if chance.random() < share:
                start, end = sector * SECTOR, (sector + 1) * SECTOR
                if start < len(self.data):
                    data.extend(bytes(max(0, min(end, len(self.data)) - len(data))))
                    data[start:end] = self.data[start:end]
        if chance.random() < share:
            del data[len(self.data) :]
        return File(bytes(data))


Change = dict[str, File | None]


class SimulatedDisk:
    preallocates = False

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.names_now: dict[str, File] = {path: File(data) for path, data in (files or {}).items()}
        self.names_synced = dict(self.names_now)
        self.changes: list[Change] = []
        self.fds: dict[int, tuple[str, File]] = {}
        self.last_fd = 1000
        self.operations_left = -1  # before the power is cut

    def after_cut(self, chance: Random) -> "SimulatedDisk":
        names = dict(self.names_synced)
        share = chance.choice((0.0, 0.5, 1.0))
        for change in self.changes:
            if chance.random() < share:
                for path, file in change.items():
                    if file is None:
                        names.pop(path, None)
                    else:
                        names[path] = file
        after = SimulatedDisk()
        twins = {id(file): file.after_cut(chance) for file in names.values()}
        after.names_now = {path: twins[id(file)] for path, file in names.items()}
        after.names_synced = dict(after.names_now)
        after.preallocates = self.preallocates
        return after

    def after_kill(self, *, writeback_fails: bool) -> None:
        """The process is gone, the page cache is not. A page that could not be written back is marked clean."""
        for _, file in self.fds.values():
            file.locked = False
        self.fds.clear()
        self.operations_left = -1
        if writeback_fails:
            for file in self.names_now.values():
                file.touched.clear()

    def _step(self) -> None:
        if self.operations_left == 0:
            raise PowerCut
        self.operations_left -= 1

    def _change(self, change: Change) -> None:
        self._step()
        self.changes.append(change)
        for path, file in change.items():
            if file is None:
                self.names_now.pop(path, None)
            else:
                self.names_now[path] = file

    def makedir(self, path: str) -> None:
        pass

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o600) -> int:
        file = self.names_now.get(path)
        if file is None and not (create or exclusive):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        if file is not None and exclusive:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        if file is None:
            file = File()
            self._change({path: file})
        self.last_fd += 1
        self.fds[self.last_fd] = (path, file)
        return self.last_fd

    def close(self, fd: int) -> None:
        path, file = self.fds.pop(fd)
        if path.endswith("LOCK"):
            file.locked = False

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self.fds[fd][1].data[offset : offset + size])

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        self._step()
        file = self.fds[fd][1]
        data = b"".join(parts)
        self._touch(file, min(offset, len(file.data)), offset + len(data))
        file.data.extend(bytes(max(0, offset - len(file.data))))
        file.data[offset : offset + len(data)] = data

    def _touch(self, file: File, start: int, end: int) -> None:
        file.touched.update(range(start // SECTOR, (end + SECTOR - 1) // SECTOR))

    def sync(self, fd: int) -> None:
        self._step()
        self.fds[fd][1].sync()

    def sync_directory(self, path: str) -> None:
        self._step()
        kept: list[Change] = []
        for change in self.changes:
            if all(os.path.dirname(name) != path for name in change):
                kept.append(change)
                continue
            for name, file in change.items():
                if file is None:
                    self.names_synced.pop(name, None)
                else:
                    self.names_synced[name] = file
        self.changes = kept

    def allocate(self, fd: int, size: int) -> None:
        self.truncate(fd, max(size, len(self.fds[fd][1].data)))

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        file = self.fds[fd][1]
        self._touch(file, min(size, len(file.data)), max(size, len(file.data)))
        file.data.extend(bytes(max(0, size - len(file.data))))
        del file.data[size:]

    def rename(self, source: str, target: str) -> None:
        file = self.names_now.get(source)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", source)
        self._change({source: None, target: file})

    def unlink(self, path: str) -> None:
        if path in self.names_now:
            self._change({path: None})

    def names(self, path: str) -> list[str]:
        return sorted({name[len(path) + 1 :].split("/")[0] for name in self.names_now if name.startswith(f"{path}/")})

    def stat(self, fd: int) -> Stat:
        file = self.fds[fd][1]
        return Stat(len(file.data), (0, id(file)))

    def is_file(self, path: str) -> bool:
        return path in self.names_now

    def lock(self, fd: int) -> bool:
        file = self.fds[fd][1]
        if file.locked:
            return False
        file.locked = True
        return True

    def filesystem(self, path: str) -> str:
        return "simulated"

    def chunks(self) -> dict[str, File]:
        """And spares: what the budget is about."""
        mine = {path: file for path, file in self.names_now.items() if "/quarantine/" not in path}
        return {path: file for path, file in mine.items() if path.endswith(".wal") or "/spare." in path}
