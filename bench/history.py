"""What a log costs that keeps what is acked: beside one that keeps nothing, and beside one whose backlog grows."""

import shutil
import time
from pathlib import Path
from typing import Final

from bench.backlog import BLOCK, LINE, TAG
from bench.lines import made_lines
from walflow.wal import Log, LogOptions

CHUNK: Final = 64 << 20
COMMIT: Final = 1 << 20  # bytes that one sync covers, about
TURN: Final = 64 << 20  # bytes of one log, before it is the next one's turn


class TurnedLog:
    """`acks`: what is durable is acked at once."""

    def __init__(self, path: Path, chunks: int, retain_bytes: int, *, acks: bool) -> None:
        self.log = Log(LogOptions(str(path), CHUNK, chunks, retain_bytes=retain_bytes))
        self._acks = acks
        lines = made_lines(LINE)
        self._blocks = [lines[at : at + BLOCK * LINE] for at in range(0, len(lines) - BLOCK * LINE, BLOCK * LINE)]
        self._records = 0

    def write(self, size: int) -> float:
        """The seconds that so many bytes take."""
        began, written, log = time.perf_counter(), 0, self.log
        while written < size:
            commit_bytes = 0
            while commit_bytes < COMMIT:
                payload = self._blocks[self._records % len(self._blocks)]
                log.append(TAG, payload, BLOCK, time.time_ns())
                commit_bytes += len(payload)
                self._records += 1
            written += commit_bytes
            while (commit := log.commit()) is not None:
                commit.flush()
                log.committed(commit)
            if self._acks:
                log.ack(1, log.durable)
            self._checkpoint()
        return time.perf_counter() - began

    def _checkpoint(self) -> None:
        checkpoint = self.log.checkpoint()
        if checkpoint is not None:
            checkpoint.flush()
            self.log.checkpointed(checkpoint)


def kept(workdir: Path, size: int) -> dict[str, float]:
    """`size`: bytes that each log gets, in turns, once the history of the first has a quarter of it, its bound."""
    paths = {name: workdir / name for name in ("kept", "acked", "growing")}
    logs = {
        "kept": TurnedLog(paths["kept"], 4, size // 4, acks=True),
        "acked": TurnedLog(paths["acked"], 4, 0, acks=True),
        "growing": TurnedLog(paths["growing"], 2 * size // CHUNK, 0, acks=False),
    }
    logs["kept"].write(size // 4 + 2 * CHUNK)
    taken = dict.fromkeys(logs, 0.0)
    for _ in range(0, size, TURN):
        for name, log in logs.items():
            taken[name] += log.write(TURN)
    for name, log in logs.items():
        log.log.close()
        shutil.rmtree(paths[name])
    return {f"{name}_mb_per_s": size / 1e6 / seconds for name, seconds in taken.items()}
