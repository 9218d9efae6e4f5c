"""`walflow run` of a script on a file, beside jq where that is installed: `python -m bench.filter`.

Processor time of each process, the least of three rounds: other work on the machine adds to the time that passes.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

EVENTS: Final = 1_000_000
ROUNDS: Final = 3
LEVELS: Final = ("info", "warn", "error", "debug")
TASKS: Final = {  # name: the script, and the same for jq
    "nothing": ("event", "."),
    "select": (
        'match event.level of case "error" => {"seq": event.seq, "host": event.host} default => drop end',
        'select(.level == "error") | {seq, host}',
    ),
    "add": ("let event.slow = event.ms > 50; event", ".slow = (.ms > 50)"),
}


def main(events: int = EVENTS, rounds: int = ROUNDS) -> None:
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        size = write(Path("in.json"), events)
        Path("empty.json").touch()
        print(f"{events:,} events of {size / events:.0f} bytes; seconds of processor time")
        for name, (script, program) in TASKS.items():
            Path(f"{name}.tremor").write_text(script)
            ours = [sys.executable, "-m", "walflow", "run", f"{name}.tremor", "-i"]
            row = [f"walflow {least([*ours, 'in.json'], rounds):.2f}"]
            if shutil.which("jq"):
                row.append(f"jq {least(['jq', '-c', program, 'in.json'], rounds):.2f}")
            print(f"{name:10}{', '.join(row)}")
        print(f"start     walflow {least([*ours, 'empty.json'], rounds):.2f}")


def write(path: Path, events: int) -> int:
    lines = (
        json.dumps(
            {"seq": n, "level": LEVELS[n % 4], "host": f"web-{n % 30:02}", "ms": n % 977 / 10, "msg": "x" * 30},
            separators=(",", ":"),
        )
        for n in range(events)
    )
    return path.write_text("\n".join(lines) + "\n")


def least(command: Sequence[str], rounds: int) -> float:
    """Seconds of processor time."""
    return min(_seconds(command) for _ in range(rounds))


def _seconds(command: Sequence[str]) -> float:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
