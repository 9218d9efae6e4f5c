"""`python -m tests.cli.probes FLOW…`: what the next process of a daemon does to try its flows, while the one before
still runs: each call of the system that another process could notice, as JSON, by flow file. A process of its own,
because an audit hook of Python cannot be taken away."""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Final

from walflow.cli.environment import tried
from walflow.plan import Assembly, load

NOTICED: Final = {
    *("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate"),
    *("socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg"),
    *("sqlite3.connect", "subprocess.Popen"),
}
WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Calls:
    def __init__(self) -> None:
        self.on = False
        self.made: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if not self.on:
            return
        if event in NOTICED:
            self.made.append(f"{event} {_said(args)}")
        elif event == "open" and isinstance(args[2], int) and args[2] & WRITES:
            self.made.append(f"open {args[0]!r}")

    def of(self, assembly: Assembly) -> list[str]:
        self.made, self.on = [], True
        try:
            for one in tried(assembly, later=False):
                assert one.wrong is None, one
        finally:
            self.on = False
        return self.made


def _said(args: tuple[object, ...]) -> str:
    """Of a socket its kind."""
    words = [one.type.name if isinstance(one, socket.socket) else repr(one) for one in args]
    return " ".join(words)


def main(files: list[str]) -> None:
    calls = Calls()
    found: dict[str, list[str]] = {}
    kinds: set[str] = set()
    for file in files:
        assembly, said = load([file])
        assert assembly is not None, said
        kinds |= {type(plan.connector).__name__ for plan in assembly.connectors}
        found[file] = calls.of(assembly)
    calls.on = True
    calls.made = []
    Path("made").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    calls.on = False
    sys.stdout.write(json.dumps({"found": found, "kinds": sorted(kinds), "noticed": calls.made}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
