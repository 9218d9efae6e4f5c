"""The directory and the flow of a real daemon as the start of a story: what it has left goes on there."""

import asyncio
import socket
from pathlib import Path
from random import Random

from tests.flows.builder import flow_of, lines, plain
from tests.system.daemon import running
from walflow.plan import load
from walflow.registry import connectors
from walflow.testing.simulation import Machine, simulated
from walflow.testing.simulation.wires import EchoPeer
from walflow.world import entered

EVENTS = 50
ECHO = {"url": "near.invalid:4242", "ack": "echo"}


def test_the_log_of_a_daemon_that_was_killed_is_sent_to_its_end(tmp_path: Path) -> None:
    flow = tmp_path / "main.troy"
    log = tmp_path / "state"
    door = lines("tcp_server", url="127.0.0.1:0")
    flow.write_text(
        flow_of(
            "door -> log",
            "log -> peer",
            "log -> door",
            door=door,
            log=plain("wal", path=str(log)),
            peer=lines("tcp_client", **ECHO),
        )
    )
    with running(flow, tmp_path) as daemon, socket.create_connection(("127.0.0.1", daemon.port())) as client:
        sent = b"".join(b'{"n":%d,"from":"client"}\n' % number for number in range(EVENTS))
        client.sendall(sent)
        back = b""
        while len(back) < len(sent):
            back += client.recv(1 << 16)
        daemon.kill()
    made, found = load([flow], connectors())
    assert made is not None, found
    dice = Random(1)
    peer = EchoPeer("near", dice)

    async def story(machine: Machine) -> None:
        machine.holds(str(log), at=str(log))
        with entered(machine.other("near.invalid")):
            serves = asyncio.create_task(peer.run("near.invalid", 4242))
        for _ in range(3):
            life = machine.start(made)
            await asyncio.sleep(0.02)
            machine.kill(life)
        machine.start(made)
        await asyncio.sleep(30)
        serves.cancel()

    simulated(story, dice)
    assert set(peer.got) == {("client", number) for number in range(EVENTS)}
