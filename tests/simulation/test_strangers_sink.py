"""What an author of a connector writes: their sink in a whole daemon, with kills and power cuts."""

import asyncio
from collections import deque
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from tests.examples import shared
from walflow import Block, CodecUse, Connector, Guarantee, Inlet, JobSink, Outlet, Ports, SinkWork, Traits, world
from walflow.codecs import JSON
from walflow.plan import Assembly, load
from walflow.registry import connectors
from walflow.testing.disk import MemoryDisk
from walflow.testing.simulation import Machine, simulated
from walflow.testing.simulation.ends import Clients, Outside, outside

FLOW = """
define flow main
flow
  define connector log from wal with config = {"path": "/log", "chunk_size": 65536, "max_chunks": 8} end;
  define connector client from client;
  define connector spool from spool;
  define pipeline pass pipeline select event from in into out end;
  create connector log; create connector client; create connector spool;
  create pipeline first from pass; create pipeline second from pass;
  connect /connector/client to /pipeline/first; connect /pipeline/first to /connector/log;
  connect /connector/log to /pipeline/second; connect /pipeline/second to /connector/spool;
end;
deploy flow main;
"""


class Spool(Connector):
    """Each block is a file of its own."""

    traits: ClassVar[Traits] = Traits(codec=CodecUse.OPTIONAL)
    syncs: ClassVar[bool] = True

    def ports_used(self) -> Ports:
        return Ports(outputs=("err",))

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(source="", sink="an event is acked once its file was synced and has its name")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await JobSink(inlet, Spooling(syncs=self.syncs)).run()


class Hasty(Spool):
    """It forgets to sync."""

    syncs: ClassVar[bool] = False


class File:
    def __init__(self, block: Block) -> None:
        self.blocks = [block]


class Spooling(SinkWork[File]):
    def __init__(self, *, syncs: bool) -> None:
        self._syncs = syncs

    def take(self, waiting: deque[Block]) -> File | None:
        return File(waiting.popleft()) if waiting else None

    def do(self, job: File) -> None:
        disk = world.disk()
        disk.makedir("/spool")
        name = f"/spool/{world.dice().randbytes(8).hex()}"
        fd = disk.open(name + ".part", create=True)
        disk.write(fd, [job.blocks[0].frames.data], 0)
        if self._syncs:
            disk.sync(fd)
        disk.close(fd)
        disk.rename(name + ".part", name)
        disk.sync_directory("/spool")
        disk.sync_directory("/")


def assembly(directory: Path, spool: type[Connector]) -> Assembly:
    file = directory / "flow.troy"
    file.write_text(FLOW)
    made, found = load([file], {**connectors(), "client": Clients, "spool": spool})
    assert made is not None, found
    return made


def spooled(disk: MemoryDisk) -> set[int]:
    names = [path for path in disk.sizes() if path.startswith("/spool/") and not path.endswith(".part")]
    return {
        JSON.decode(line)["n"]  # type: ignore[index]
        for name in names
        for line in disk.content(name).splitlines()
        if line.startswith(b"{") and line.endswith(b"}")
    }


def lacking(seed: int, made: Assembly) -> set[int]:
    """Which events a client got acked that no file has, after kills and cuts."""
    dice = Random(seed)
    ends = Outside(dice, ["client"], [])
    client = ends.clients["client"]
    client.wants = 60

    async def story(machine: Machine) -> set[int]:
        for _ in range(4):
            life = machine.start(made)
            await asyncio.sleep(dice.expovariate(2))
            if dice.random() < 0.5:
                machine.kill(life)
            else:
                machine.cut()
        machine.start(made)
        await asyncio.sleep(60)
        return client.acked - spooled(machine.disk)

    token = outside.set(ends)
    try:
        found = simulated(story, dice)
        assert client.done
        return found
    finally:
        outside.reset(token)


@pytest.mark.parametrize("seed", shared(range(40)))
def test_no_event_is_lost(tmp_path: Path, seed: int) -> None:
    assert lacking(seed, assembly(tmp_path, Spool)) == set()


def test_a_sink_that_acks_too_early_is_found(tmp_path: Path) -> None:
    made = assembly(tmp_path, Hasty)
    assert any(lacking(seed, made) for seed in range(20))
