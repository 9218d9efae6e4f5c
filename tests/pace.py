"""How much processor time a run took, as a ratio to a fixed loop of pure Python in the same run.

A pace is the processor time of that loop. It is timed before and after the run: a machine with other work is slower,
and the loop with it. A run with `--tier` ends with such a line; `python -m tests.pace COMMAND` prints it of any
command.
"""

import os
import statistics
import subprocess
import sys
import time
from typing import Final

TURNS: Final = 1_000_000
TIMES: Final = 5


def pace() -> float:
    """Seconds, the median of some."""
    return statistics.median(_once() for _ in range(TIMES))


def _once() -> float:
    started = time.process_time()
    total = 0
    for turn in range(TURNS):
        total += turn % 7
    return time.process_time() - started


def used() -> float:
    """Processor seconds of this process and of all that it has waited for, with theirs."""
    return sum(os.times()[:4])


class Measured:
    def __init__(self) -> None:
        self._pace = pace()
        self._used = used()

    def __str__(self) -> str:
        """Up to now."""
        seconds = used() - self._used
        one = (self._pace + pace()) / 2
        return f"{seconds:.1f} s of processor = {seconds / one:.0f} paces of {one * 1000:.1f} ms"


def main(command: list[str]) -> int:
    measured = Measured()
    code = subprocess.run(command, check=False).returncode
    print(measured)  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
