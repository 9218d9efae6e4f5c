"""How long a start takes, and what the number of pipelines adds to it: `python -m bench.start [ROUNDS]`.

The daemon is started as a user would start it, with one pipeline and with a hundred, in turns. A start takes from the
call of the program to its log line `running`. Each pipeline looks at each event and makes a new record, and no two
are alike. Beside the time, the seconds of processor that it took: these say more where other work shares the machine.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

ROUNDS: Final = 11
MANY: Final = 100
PIPELINE: Final = """
  define pipeline p{n}
  pipeline
    select {{"seq": event.seq, "level": event.level, "n{n}": event.n + {n}}} from in
      where event.level == "info" and event.n > {n} into out;
  end;
  create pipeline p{n};
  connect /connector/ticks to /pipeline/p{n};
  connect /pipeline/p{n} to /connector/null;
"""
FLOW: Final = """
define flow main
flow
  define connector ticks from metronome with config = {{"interval": 1_000_000_000}} end;
  define connector null from null;
  create connector ticks;
  create connector null;
  {pipelines}
end;
deploy flow main;
"""


def flow(pipelines: int) -> str:
    return FLOW.format(pipelines="".join(PIPELINE.format(n=n) for n in range(pipelines)))


class Start(NamedTuple):
    seconds: float
    processor: float


def started(file: Path) -> Start:
    command = [sys.executable, "-m", "walflow", "run", str(file), "--admin", "off", "--log-format", "json"]
    begin = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE) as daemon:
        assert daemon.stderr is not None
        runs = any(line.startswith(b"{") and json.loads(line)["event"] == "running" for line in daemon.stderr)
        seconds = time.perf_counter() - begin
        daemon.kill()
        _, status, used = os.wait4(daemon.pid, 0)
        daemon.returncode = os.waitstatus_to_exitcode(status)
    if not runs:
        raise SystemExit(f"{file} does not start: walflow check {file}")
    return Start(seconds, used.ru_utime + used.ru_stime)


def main(rounds: int) -> None:
    with TemporaryDirectory() as folder:
        files = {count: Path(folder) / f"{count}.troy" for count in (1, MANY)}
        for count, file in files.items():
            file.write_text(flow(count), "utf-8")
            started(file)  # what a first start keeps (the grammar's tables) is there
        starts = {count: list[Start]() for count in files}
        for _ in range(rounds):
            for count, file in files.items():
                starts[count].append(started(file))
    print(f"median of {rounds} starts      time   processor")
    for count, found in starts.items():
        show(f"{count} {'pipeline' if count == 1 else 'pipelines'}", found)
    pairs = zip(*starts.values(), strict=True)
    show(f"{MANY} more than 1", [Start(*(b - a for a, b in zip(one, many, strict=True))) for one, many in pairs])


def show(what: str, starts: list[Start]) -> None:
    seconds, processor = (statistics.median(column) for column in zip(*starts, strict=True))
    print(f"{what:20}  {seconds:6.3f} s    {processor:6.3f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
