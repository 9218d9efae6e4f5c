"""Socket files: who may open them, who listens on them, and what is left of them."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from connectors.unix import UnixSocketClient, UnixSocketServer
from walflow.net import CannotListen
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


class End:
    """A connector and the world it runs in."""

    def __init__(self, connector: UnixSocketServer | UnixSocketClient) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler)
        self.outlet = MemoryOutlet(self.scheduler)
        self.task = asyncio.ensure_future(connector.run(self.inlet, self.outlet))

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def serving(path: Path, **config: object) -> AsyncIterator[End]:
    end = End(UnixSocketServer.model_validate({"path": str(path), **config}))
    try:
        await until(lambda: "listening" in end.outlet.lines or end.task.done(), end)
        yield end
    finally:
        await end.stop()


async def until(happened: Callable[[], bool], *ends: End) -> None:
    async with asyncio.timeout(100):
        while not happened():
            for end in ends:
                end.scheduler.run()
            await asyncio.sleep(0)


async def test_client_and_server(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path) as server:
        client = End(UnixSocketClient.model_validate({"path": str(path)}))
        client.inlet.give(client.inlet.block(b"1\n"))
        await until(lambda: [stream.fed for stream in server.outlet.streams] == [[b"1\n"]], server, client)
        (stream,) = server.outlet.streams
        assert stream.meta == {"unix_socket_server": {"path": str(path)}}
        assert client.inlet.acked == [b"1\n"]
        await client.stop()


@pytest.mark.parametrize(
    ("permissions", "mode"), [("=600", 0o600), ("=660", 0o660), ("0666", 0o666), ("0o640", 0o640)]
)
async def test_its_permissions_whatever_the_umask(tmp_path: Path, permissions: str, mode: int) -> None:
    before = os.umask(0o077)
    try:
        async with serving(tmp_path / "s", permissions=permissions):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == mode
    finally:
        os.umask(before)
    assert not (tmp_path / "s").exists()


async def test_what_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    async with serving(path) as server:
        assert not server.task.done()
    assert not path.exists()


async def test_what_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path) as first:
        async with serving(path) as second:
            with pytest.raises(CannotListen, match="another process listens there"):
                await second.task
        assert not first.task.done()
        assert path.exists()
    (tmp_path / "file").write_text("precious")
    async with serving(tmp_path / "file") as third:
        with pytest.raises(CannotListen, match="no socket"):
            await third.task
    assert (tmp_path / "file").read_text() == "precious"


async def test_a_file_that_is_anothers_by_now_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path):
        path.unlink()
        path.write_text("precious")
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    "config", [{"path": ""}, {"path": "a\0b"}, {"path": "x" * 108}, {"path": "a", "permissions": "u=rw"}]
)
def test_what_it_refuses(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        UnixSocketServer.model_validate(config)


def test_a_backlog_that_no_kernel_takes_is_told_by_check() -> None:
    with pytest.raises(ValidationError, match="backlog"):
        UnixSocketServer.model_validate({"path": "a.sock", "backlog": 1 << 31})
