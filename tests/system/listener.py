"""A WebSocket listener to be killed: `python -m tests.system.listener PORT FILE [id]`.

Each message becomes a line of FILE before anything else is done with it; then, with `id`, its id is sent back.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.system.process import Process


class Listener(Process):
    """Listening once this is made."""

    def __init__(self, port: int, file: Path, *, answers: bool = False) -> None:
        command = [sys.executable, "-m", "tests.system.listener", str(port), str(file), *(["id"] if answers else [])]
        super().__init__(command, stderr=None)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def freeze(self) -> None:
        """Whatever it is doing; its kernel still takes what comes."""
        self.signal(signal.SIGSTOP)


async def _listen(port: int, file: str, *, answers: bool) -> None:
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def take(connection: ServerConnection) -> None:
        try:
            async for message in connection:
                assert isinstance(message, str)
                os.write(out, message.encode() + b"\n")
                if answers:
                    await connection.send(str(json.loads(message)["id"]))
        except ConnectionClosed:
            pass

    async with serve(take, "127.0.0.1", port, compression=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)  # noqa: T201
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(_listen(int(sys.argv[1]), sys.argv[2], answers=sys.argv[3:] == ["id"]))
