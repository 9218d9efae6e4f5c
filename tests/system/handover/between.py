"""`walflow run` whose handover is written down: a program between it and the process before. What they say to each
other is in the end in the file that WALFLOW_SAID names."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import walflow_command

HEAD = struct.Struct("<II")  # as walflow.runtime.handover.channel has it


def _pass_on(come: socket.socket, go: socket.socket, said: list[object]) -> None:
    while head := _read(come, HEAD.size, descriptors := list[int]()):
        size, _ = HEAD.unpack(head)
        body = _read(come, size, descriptors)
        said.append(json.loads(body))
        socket.send_fds(go, [head], descriptors)
        go.sendall(body)
        for fd in descriptors:
            os.close(fd)
    go.shutdown(socket.SHUT_WR)


def _read(come: socket.socket, size: int, descriptors: list[int]) -> bytes:
    data = b""
    while len(data) < size:
        some, received, _, _ = socket.recv_fds(come, size - len(data), 255)
        if not some:
            break
        descriptors += received
        data += some
    return data


def main() -> None:
    number = os.environ.pop("WALFLOW_HANDOVER", None)
    if number is None:  # as the first process, which starts the next one as it was started itself
        walflow_command.main()
        return
    command = [sys.executable, "-m", "walflow", *sys.argv[1:]]
    before = socket.socket(fileno=int(number))
    before.setblocking(True)
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "WALFLOW_HANDOVER": str(theirs.fileno())}
    with subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()]) as after:
        theirs.close()
        signal.signal(signal.SIGTERM, lambda number, frame: after.send_signal(number))
        said: dict[str, list[object]] = {"before": [], "next": []}
        ways = (partial(_pass_on, before, ours, said["before"]), partial(_pass_on, ours, before, said["next"]))
        for way in ways:
            threading.Thread(target=way, daemon=True).start()
        code = after.wait()
    file = Path(os.environ["WALFLOW_SAID"])
    half = file.with_suffix(".half")
    half.write_text(json.dumps(said))
    half.rename(file)
    sys.exit(code)


if __name__ == "__main__":
    main()
