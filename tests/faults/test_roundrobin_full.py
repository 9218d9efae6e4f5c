"""A round robin over two sinks, one of them on a small disk that gets full: all events arrive, those that it has no room for in
the other."""

import json
from pathlib import Path

import pytest

from tests.faults.namespace import SmallDisk, needs_namespace
from tests.flows.builder import TCP, flow_of, lines_out, pipeline
from tests.system.daemon import Client, running
from tests.waiting import wait_until

pytestmark = [needs_namespace, pytest.mark.nightly]

EVENTS = 400
SIZE = 1000  # bytes of each: twice of what the small disk has, for both

TURNS = """
  into small, large
  pipeline
    define operator turns from qos::roundrobin with outputs = ["small", "large"] end;
    create operator turns;
    select event from in into turns;
    select event from turns/small into out/small;
    select event from turns/large into out/large;
"""


def ids(path: Path) -> list[int]:
    return [json.loads(line)["id"] for line in path.read_bytes().splitlines()] if path.exists() else []


def test_all_events_arrive_when_one_of_two_files_is_on_a_full_disk(tmp_path: Path) -> None:
    flow = tmp_path / "turns.troy"
    flow.write_text(
        flow_of(
            "tcp -> turns",
            "turns/small -> small",
            "turns/large -> large",
            turns=pipeline(TURNS),
            tcp=TCP,
            small=lines_out("file", path=str(tmp_path / "small" / "out.log"), mode="append"),
            large=lines_out("file", path="large.log", mode="append"),
        )
    )
    with SmallDisk(tmp_path / "small", "size=128k") as disk:
        with running(flow, tmp_path, prefix=disk.prefix) as daemon:
            client = Client(daemon.port())
            for number in range(EVENTS):
                client.send(b'{"id":%d,"x":"%s"}\n' % (number, b"y" * SIZE))
            there, here = disk.inside / "out.log", tmp_path / "large.log"
            wait_until(lambda: len(ids(there)) + len(ids(here)) == EVENTS)
            client.close()
            daemon.drained()
        small = ids(there)
        assert 0 < len(small) < EVENTS / 2
        assert sorted(small + ids(here)) == list(range(EVENTS)), "each of them once"
