"""A client and a server, each with a log, and either may die at any moment."""

import json
import random
import time
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, Daemon, free_port, running
from tests.system.relay import Relay
from tests.waiting import wait_until

FLOWS = ROOT / "flows" / "echo"
KILLS = 30
INTERVAL = 200_000  # ns


def flow_of(name: str, directory: Path, **args: str) -> Path:
    """A flow of flows/echo with other defaults for its args."""
    lines = (FLOWS / name).read_text().splitlines()
    for key, value in args.items():
        (at,) = [number for number, line in enumerate(lines) if line.startswith(f"  {key} = ")]
        lines[at] = f"  {key} = {value}{',' if ',' in lines[at] else ''}"
    file = directory / name
    file.write_text("\n".join(lines) + "\n")
    return file


class Lives:
    """Of the client: when each began, and how many events its log had when it ended."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.durable: list[int] = []  # in the log, as each life found it

    def begin(self, flow: Path, directory: Path) -> Daemon:
        self.begun.append(time.time_ns())
        client = Daemon(flow, directory)
        self.durable.append(int(str(client.wait_for("log open")["durable"])))
        return client

    def of(self, ingest_ns: int) -> int:
        return bisect_right(self.begun, ingest_ns) - 1

    def logged(self, final: int) -> list[int]:
        """By each life: what is durable stands in the log in the order of the ids, from 0."""
        ends = [*self.durable[1:], final]
        return [end - begin for begin, end in zip(self.durable, ends, strict=True)]


@pytest.mark.nightly
def test_thirty_kills_of_either_side(tmp_path: Path) -> None:
    for name in ("client", "server"):
        (tmp_path / name).mkdir()
    chance = random.Random(7)
    lives = Lives()
    with Relay() as relay:
        server_flow = flow_of("server.troy", tmp_path, url='"127.0.0.1:0"')
        client_flow = flow_of("metronome.troy", tmp_path, url=f'"127.0.0.1:{relay.port}"', interval=str(INTERVAL))
        server = Daemon(server_flow, tmp_path / "server")
        relay.target = server.port()
        client = lives.begin(client_flow, tmp_path / "client")
        try:
            for _ in range(KILLS):
                relay.wait_for_echoes(chance.randrange(1, 1500))
                if chance.random() < 0.5:
                    server.kill()
                    server = Daemon(server_flow, tmp_path / "server")
                    relay.target = server.port()
                else:
                    client.kill()
                    relay.settle()
                    relay.new_life()
                    client = lives.begin(client_flow, tmp_path / "client")
            relay.wait_for_echoes(1000)
            client.drained()
            final = int(str(client.last("log closing")["durable"]))
            assert server.terminate() == 0
        finally:
            for daemon in (client, server):
                daemon.close()
    lines = (tmp_path / "server" / "server_out.log").read_bytes().splitlines()
    ids: defaultdict[int, set[int]] = defaultdict(set)
    for line in lines:
        event = json.loads(line)
        ids[lives.of(event["ingest_ns"])].add(event["id"])
    logged = lives.logged(final)
    assert [ids[life] for life in range(len(logged))] == [set(range(count)) for count in logged]
    assert relay.echoed.keys() <= set(lines)
    assert relay.again == []
    assert sum(logged) > KILLS * 300  # there was load
    assert relay.sent.total() > sum(logged)  # and the kills hit it


def test_a_file_is_sent_whole_to_a_server_that_comes_later(tmp_path: Path) -> None:
    """The lines keep their order, however late the server comes: a refused connection counts against no event."""
    lines = [b'{"line": %d}' % number for number in range(20_000)]
    (tmp_path / "client_in.json").write_bytes(b"\n".join(lines) + b"\n")
    url, out = f'"127.0.0.1:{free_port()}"', tmp_path / "server_out.log"
    with running(flow_of("client.troy", tmp_path, url=url), tmp_path) as client:
        client.wait_for("breaker triggered")
        with running(flow_of("server.troy", tmp_path, url=url), tmp_path) as server:
            wait_until(lambda: out.read_bytes().count(b"\n") >= len(lines))
            client.drained()
            assert server.terminate() == 0
    assert out.read_bytes().splitlines() == lines
