"""`walflow wal consumers` and `forget`: which queries of Spark hold a log, and that one does no more."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.cli.wal_tools import inventory, run
from tests.connectors.spark.test_consumers import Life
from tests.wal.tools import put


async def lived(path: Path, names: tuple[str, ...], work: Callable[[Life], Awaitable[object]]) -> None:
    life = Life(path, *names)
    await work(life)
    await life.finish(life.consumers.close())
    life.log.close()


@pytest.fixture
def known(tmp_path: Path) -> Path:
    async def work(life: Life) -> None:
        put(life.log, b"x", count=100)
        await life.commit("hourly", 61)

    asyncio.run(lived(tmp_path / "lake", ("hourly", "nightly"), work))
    return tmp_path / "lake"


def test_each_is_listed(known: Path) -> None:
    before = inventory(known)
    hourly, nightly = run("consumers", known).output.splitlines()
    assert hourly.startswith("hourly: at 61, lacks 40 events, last commit 2")
    assert hourly.endswith("Z from 10.0.0.1:5")
    assert nightly == "nightly: at 1, lacks 100 events, no commit"
    (_, one) = json.loads(run("consumers", known, "--json").output)
    assert one == {
        "name": "nightly",
        "position": 1,
        "lag": 100,
        "committed_at": None,
        "peer": "",
        "silent_seconds": 0,
    }
    assert inventory(known) == before


def test_one_that_is_forgotten_holds_nothing(known: Path) -> None:
    result = run("forget", known, "nightly")
    assert (result.exit_code, result.output) == (0, f"forgotten: nightly in {known}, which lacked 100 events\n")

    async def work(life: Life) -> None:
        assert life.log.low == 60

    asyncio.run(lived(known, ("hourly",), work))
    result = run("forget", known, "nightly")
    assert (result.exit_code, result.output) == (
        1,
        f"walflow: {known}: there is no consumer 'nightly'; there are: hourly\n",
    )


def test_a_daemon_keeps_its_own(known: Path) -> None:
    async def work(life: Life) -> None:
        assert run("forget", known, "nightly").exit_code == 75
        assert len(run("consumers", known).output.splitlines()) == 2

    asyncio.run(lived(known, ("hourly", "nightly"), work))


def test_a_damaged_file_is_named(known: Path) -> None:
    (known / "consumers").write_bytes(b"{}\ncrc32 0\n")
    result = run("consumers", known)
    assert (result.exit_code, result.output) == (
        74,
        f"walflow: {known}/consumers: damaged: its checksum is wrong\n",
    )


def test_another_log_has_none(path: Path) -> None:
    for command in (("consumers", path), ("forget", path, "a")):
        result = run(*command)
        assert (result.exit_code, result.output) == (
            74,
            f"walflow: {path}: is no log of `spark`: it has no file consumers\n",
        )
