"""NATS JetStream: a stream on disk between a publisher that waits for acks and a consumer that acks. Both ends are
nats.py, its own client; without it the system is left out."""

import asyncio
import importlib
import importlib.util
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.crash.ends import Client, Receiver
from bench.crash.events import event
from bench.crash.ledger import Ledger
from bench.crash.systems import Ready, System
from bench.unpacked import NATS, absent, program, version

CONFIG: Final = """
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{directory}", sync_interval: always }}
"""
STREAM: Final = "bench"
SUBJECT: Final = "events"
FETCH: Final = 20  # events
OPTIONS: Final[Mapping[str, Any]] = {"allow_reconnect": False, "connect_timeout": 2}


def _nats() -> Any:
    return importlib.import_module("nats")


async def _connected(port: int) -> Any:
    """Raises OSError."""
    try:
        return await _nats().connect(f"nats://127.0.0.1:{port}", error_cb=_nothing, **OPTIONS)
    except Exception as error:  # its errors have no common class
        raise OSError(str(error)) from error


async def _nothing(error: object) -> None: ...


class NatsClient:
    acks = "JetStream's answer to the publish"

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: Any = None

    async def send(self, first: int, count: int, ledger: Ledger) -> None:
        try:
            if self._connection is None:
                self._connection = await _connected(self._port)
            stream = self._connection.jetstream()
            if first == 0:
                await stream.add_stream(name=STREAM, subjects=[SUBJECT])
            ledger.sent.update(range(first, first + count))
            told = [
                stream.publish(SUBJECT, event(number), headers={"Nats-Msg-Id": str(number)})
                for number in range(first, first + count)
            ]
            await asyncio.gather(*told)
        except TimeoutError:
            raise
        except Exception as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            asyncio.ensure_future(_closed(connection))  # noqa: RUF006


async def _closed(connection: Any) -> None:
    with suppress(Exception):
        await connection.close()


class NatsConsumer(Receiver):
    """A durable pull consumer, with an explicit ack of each event. Where it refuses one, it says nak."""

    def __init__(self, ledger: Ledger, server: int) -> None:
        super().__init__(ledger, server)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.ensure_future(self._consume())

    async def stop(self) -> None:
        task, self._task = self._task, None
        while task is not None and not task.done():  # its client may swallow it
            task.cancel()
            await asyncio.wait([task], timeout=0.5)

    async def _consume(self) -> None:
        while True:
            connection: Any = None
            with suppress(Exception):
                connection = await _connected(self.port)
                pulled = await connection.jetstream().pull_subscribe(SUBJECT, "bench", stream=STREAM)
                while True:
                    for one in await self._fetched(pulled):
                        verdict = await self.judge(one.data)
                        await (one.ack() if verdict == "taken" else one.nak(delay=1.0))
            if connection is not None:
                await _closed(connection)
            await asyncio.sleep(0.2)

    async def _fetched(self, pulled: Any) -> list[Any]:
        with suppress(TimeoutError):
            return list(await pulled.fetch(FETCH, timeout=1.0))
        return []


class Nats(System):
    name = "NATS JetStream, sync always"
    promise = "sync_interval: if a value always is used, an explicit sync will occur on every write"
    notes: Mapping[str, str] = {
        "receiver killed for 5 s": "what was under way comes again after `ack_wait`, 30 s by default",
    }
    page = "https://docs.nats.io/reference/config/jetstream/sync_interval"

    def absent(self) -> str | None:
        if importlib.util.find_spec("nats") is None:
            return "no client: pip install nats-py"
        return absent(NATS)

    def version(self) -> str:
        return version(NATS) or ""

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        config = directory / "nats.conf"
        config.write_text(CONFIG.format(directory=directory, port=port))
        daemon = program(NATS)
        assert daemon is not None
        return Ready([daemon, "-c", config], {})

    def client(self, port: int) -> Client:
        return NatsClient(port)

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        return NatsConsumer(ledger, own)
