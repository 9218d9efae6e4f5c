"""A file whose name says that it is compressed is read as what is in it."""

import asyncio
import gzip
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest

from connectors.file import File
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Compress = Callable[[bytes], bytes]
KINDS: list[tuple[str, Compress]] = [
    ("a.log.gz", gzip.compress),
    ("a.log.xz", lzma.compress),
    ("a.log.zst", zstd.compress),
    ("a.log.lz4", lz4.frame.compress),
]
kinds = pytest.mark.parametrize(("name", "compress"), KINDS)


async def read(path: Path, outlet: MemoryOutlet | None = None) -> MemoryOutlet:
    outlet = outlet or MemoryOutlet(VirtualScheduler())
    await File(path=str(path), mode="read").run(MemoryInlet(VirtualScheduler(), linked=False), outlet)
    return outlet


@kinds
async def test_it_is_read_to_its_end_member_by_member(tmp_path: Path, name: str, compress: Compress) -> None:
    data = os.urandom(300_000) + bytes(3_000_000)
    (tmp_path / name).write_bytes(compress(data) + compress(b"last\n"))
    (stream,) = (await read(tmp_path / name)).streams
    assert b"".join(stream.fed) == data + b"last\n"
    assert max(map(len, stream.fed)) <= 256 << 10
    assert stream.ended == "complete"


@kinds
@pytest.mark.parametrize("left", [10, -6])
async def test_what_is_cut_off_is_rejected(tmp_path: Path, name: str, compress: Compress, left: int) -> None:
    (tmp_path / name).write_bytes(compress(b"a\n" * 1000)[:left])
    outlet = await read(tmp_path / name)
    (stream,) = outlet.streams
    assert (b"a\n" * 1000).startswith(b"".join(stream.fed))
    (reason,) = stream.rejected
    assert f"{tmp_path / name} is damaged: the " in reason
    assert reason.endswith("data ended too early")
    assert stream.ended == "incomplete"
    assert outlet.lines == [f"{tmp_path / name} is damaged, the rest of it is not read"]


async def test_what_is_not_what_its_name_says_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"plain\n")
    (stream,) = (await read(tmp_path / "a.gz")).streams
    assert stream.fed == []
    assert "is damaged: not gzip" in stream.rejected[0]


async def test_an_empty_one_has_no_events(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"")
    (stream,) = (await read(tmp_path / "a.gz")).streams
    assert (stream.fed, stream.rejected, stream.ended) == ([], [], "complete")


@pytest.mark.test
async def test_a_bomb_goes_no_further_than_the_flow_takes_it(tmp_path: Path) -> None:
    """30 KB that are a gigabyte."""
    (tmp_path / "a.zst").write_bytes(zstd.compress(bytes(1 << 30)))
    outlet = MemoryOutlet(VirtualScheduler())
    task = asyncio.ensure_future(read(tmp_path / "a.zst", outlet))
    while not outlet.streams or not outlet.streams[0].fed:  # noqa: ASYNC110  # a thread decompresses
        await asyncio.sleep(0)
    outlet.pause()
    seen = len(outlet.streams[0].fed)
    for _ in range(100):
        await asyncio.sleep(0.001)
    assert len(outlet.streams[0].fed) <= seen + 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert outlet.streams[0].ended == "closed"
