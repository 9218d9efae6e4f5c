"""Sockets come from the network of the world, so that a simulated one can stand in for the system's."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ALLOWED: Final = {
    "walflow/network.py": "it is the system's",
    "walflow/net/sockets.py": "files of Unix sockets, which no simulation has",
    "walflow/net/needs.py": "`check` asks the machine",
    "walflow/runtime/notify.py": "systemd's",
    "walflow/cli/admin_client.py": "a command of its own",
    "walflow/cli/takeover.py": "the way to the process before",
}


def makers(source: str) -> Iterator[int]:
    """Lines that make a socket."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "socket.socket":
            yield node.lineno


def test_what_makes_a_socket_is_found() -> None:
    assert [*makers("import socket\nmade: socket.socket = socket.socket(1, 2)")] == [2]


def test_no_other_code_makes_a_socket() -> None:
    files = [path for folder in ("walflow", "connectors") for path in (ROOT / folder).rglob("*.py")]
    names = {str(path.relative_to(ROOT)): path for path in files}
    found = {name for name, path in names.items() if any(makers(path.read_text()))}
    assert found == ALLOWED.keys(), "walflow.world.network() makes them"
