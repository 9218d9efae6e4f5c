"""One client that never reads: it is closed, and nobody else notices."""

import asyncio
from pathlib import Path

import pytest

from tests.system.daemon import echo_flow, running
from tests.waiting import PATIENCE

CLIENTS = 49
LINE = b'{"pad":"' + b"x" * 989 + b'"}\n'
BLOCK = LINE * 64
OFFERED = 1 << 30  # bytes, by all of them together
ALLOWED = 64 << 20  # above idle, and beside what waits for slow clients
WRITE_BUFFER = 1 << 20  # for each: all are slow where the machine has no time for their one process


async def talk(port: int, size: int) -> int:
    """Sends so many bytes, reading them back meanwhile; how many came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    came = 0

    async def listen() -> None:
        nonlocal came
        while came < size:
            data = await reader.read(1 << 18)
            assert data, f"closed after {came} of {size} bytes"
            came += len(data)

    listening = asyncio.create_task(listen())
    for _ in range(size // len(BLOCK)):
        writer.write(BLOCK)
        await writer.drain()
    await listening
    writer.close()
    await writer.wait_closed()
    return came


async def be_mute(port: int) -> None:
    """Sends until it is thrown out, and never reads."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    try:
        while True:
            writer.write(BLOCK)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.mark.nightly
def test_a_mute_client_is_closed_and_the_others_get_all_their_echoes(tmp_path: Path) -> None:
    flow = echo_flow(tmp_path)
    text = flow.read_text().replace('"url": "127.0.0.1:0"', '"url": "127.0.0.1:0", "write_timeout": 10000000000')
    flow.write_text(text)
    each = OFFERED // CLIENTS // len(BLOCK) * len(BLOCK)

    async def all_of_them(port: int) -> None:
        mute = asyncio.create_task(be_mute(port))
        async with asyncio.timeout(150):
            came = await asyncio.gather(*(talk(port, each) for _ in range(CLIENTS)))
            assert came == [each] * CLIENTS
        async with asyncio.timeout(PATIENCE):
            await mute

    with running(flow, tmp_path) as daemon:
        port = daemon.port()
        idle = daemon.memory
        asyncio.run(all_of_them(port))
        assert daemon.memory <= idle + ALLOWED + (1 + CLIENTS) * WRITE_BUFFER
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["slow_clients_closed_total"] == 1
        assert daemon.last("slow client closed")["reason"] == "it does not read what is written to it"
