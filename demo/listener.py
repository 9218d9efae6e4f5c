"""A WebSocket listener that prints what comes, as `websocat -s PORT` does: `python -m demo.listener 8080`."""

import asyncio
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed


class Printer:
    """Prints each message, then sends it back, as long as it has messages to answer."""

    def __init__(self, answers: int | None) -> None:
        self._answers = answers

    async def take(self, connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            async for message in connection:
                print(message if isinstance(message, str) else message.decode(errors="replace"), flush=True)
                if self._answers is None or self._answers > 0:
                    if self._answers is not None:
                        self._answers -= 1
                    await connection.send(message)


async def _listen(port: int, answers: int | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serve(Printer(answers).take, "127.0.0.1", port, compression=None) as server:
        bound = next(iter(server.sockets)).getsockname()[1]
        print(f"Listening on ws://127.0.0.1:{bound}/", flush=True)
        await stop.wait()


def main(
    port: Annotated[int, typer.Argument(min=0, max=65535, help="On 127.0.0.1; 0 for a free one.")] = 8080,
    back: Annotated[
        bool, typer.Option(help='Send each message back once it is printed, for `"ack": "message"`.')
    ] = False,
    answers: Annotated[int | None, typer.Option(min=0, help="With --back: so many, then none any more.")] = None,
) -> None:
    """A WebSocket listener: a line for each message."""
    try:
        asyncio.run(_listen(port, answers if back else 0))
    except OSError as error:
        print(f"cannot listen on 127.0.0.1:{port}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
