"""CPU and memory of processes that are not ours to ask: /proc."""

import os
from collections import defaultdict
from pathlib import Path
from typing import Final

TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Of a process, those that it has started, and those of them that are gone."""
    children: dict[int, list[tuple[int, int]]] = defaultdict(list)
    own = 0
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal():
            continue
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        ticks = sum(map(int, fields[11:15]))  # user, system, and both of children that were waited for
        children[int(fields[1])].append((int(directory.name), ticks))
        if int(directory.name) == pid:
            own = ticks
    total, parents = own, [pid]
    while parents:
        for child, ticks in children[parents.pop()]:
            total += ticks
            parents.append(child)
    return total * TICK


def peak_rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(pid)
