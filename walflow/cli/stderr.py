"""Writes to stderr without making anything wait.

A pipe that is not read, a terminal that is stopped or a disk that hangs blocks the thread that writes to it. So a
separate thread writes, and takes lines from a bounded queue. Lines that do not fit are dropped and counted; a line
says how many when there is room again.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

WAITING_BYTES: Final = 256 << 10
PATIENCE: Final = 1.0  # seconds that the end of the process waits for its last lines


class Stderr:
    """`told` makes the line that says how many were dropped."""

    def __init__(self, fd: int, told: Callable[[int], str]) -> None:
        self.dropped = 0
        self.copy_to: Callable[[str], None] | None = None
        self._fd = fd
        self._told = told
        self._untold = 0
        self._lost = False  # closed, or its reader is gone
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        if self.copy_to is not None:
            self.copy_to(line)
        data = line.encode(errors="backslashreplace") + b"\n"
        with self._state:
            if self._lost or self._size + len(data) > WAITING_BYTES:
                self._drop(1)
                return
            if self._untold:
                data = self._told(self._untold).encode() + b"\n" + data
                self._untold = 0
            self._lines.append(data)
            self._size += len(data)
            self._start()
            self._state.notify_all()

    def flush(self, patience: float = PATIENCE) -> None:
        """Until all is written, or the reader is gone."""
        with self._state:
            self._state.wait_for(lambda: not self._size or self._lost, patience)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="stderr", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._lines)
                lines = list(self._lines)
                self._lines.clear()
            data = b"".join(lines)
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError:
                self._lose(len(lines))
                return
            with self._state:
                self._size -= sum(map(len, lines))
                self._state.notify_all()

    def _lose(self, in_hand: int) -> None:
        with self._state:
            self._lost = True
            self._drop(in_hand + len(self._lines))
            self._lines.clear()
            self._state.notify_all()

    def _drop(self, lines: int) -> None:
        self.dropped += lines
        self._untold += lines
