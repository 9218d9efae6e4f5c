"""Makes what a daemon of this version leaves behind:
`python -m tests.release.golden.make tests/release/golden/0.1.0`.

It is made once for each release, and never again: every later version must go on from it. The sink `out` has all
events, the sink `away` none: its peer was never there. `stopped` was stopped, `killed` was killed.
"""

import json
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.system.daemon import running
from tests.waiting import wait_until

FLOW: Final = Path(__file__).with_name("main.troy")
EVENTS: Final = 40
KEPT: Final = ("log", "out.log", ".out.log.walflow")


def lines(first: int, last: int) -> bytes:
    return b"".join(b'{"n":%d,"rest":"%s"}\n' % (number, b"r" * 100) for number in range(first, last + 1))


def send(port: int, first: int, last: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(lines(first, last))


def until_written(workdir: Path, count: int) -> None:
    out = workdir / "out.log"
    wait_until(lambda: out.read_bytes().count(b"\n") >= count)


def make(workdir: Path, ending: str) -> None:
    with running(FLOW, workdir) as daemon:
        port = daemon.port()
        for first in range(1, EVENTS, 10):
            send(port, first, first + 9)
            until_written(workdir, first + 9)
        if ending == "stopped":
            daemon.terminate()
        else:
            daemon.kill()


def main(target: Path) -> None:
    target.mkdir()  # what is there stays
    for ending in ("stopped", "killed"):
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), ending)
            (target / ending).mkdir()
            for name in KEPT:
                copy = shutil.copytree if (Path(folder) / name).is_dir() else shutil.copy2
                copy(Path(folder) / name, target / ending / name)
            (target / ending / "log" / "LOCK").unlink(missing_ok=True)
    (target / "made.json").write_text(json.dumps({"events": EVENTS}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
