"""A process that appends, to be killed: `appender.py PATH CURSOR LAST`. Writes the position of each acked event to
stdout, a line each."""

import os
import random
import sys
from pathlib import Path

from tests.connectors.world import Sink, appending
from walflow.world import boot


def event(position: int) -> bytes:
    """Always the same for a position; most are small, some are of many pages."""
    dice = random.Random(position)
    size = dice.choice((1, 10, 100, 4000, 60_000, 400_000))
    return b"%d " % position + b"%c" % dice.choice(b"abcdef") * size


def append(path: Path, cursor: int, last: int) -> Sink:
    sink = appending(path, boot=boot(), sync=False)  # what the process wrote, its death does not take back
    position, told = cursor + 1, 0
    while position <= last:
        sink.scheduler.holding = True
        for each in range(position, min(position + 1 + position % 4, last + 1)):
            sink.write(event(each), first=each, acked_below=cursor + 1)
            position = each + 1
        sink.scheduler.holding = False
        sink.scheduler.run()
        for acked in sink.inlet.acked[told:]:
            os.write(1, acked.split(b" ", 1)[0] + b"\n")
        told = len(sink.inlet.acked)
    return sink


if __name__ == "__main__":
    append(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
