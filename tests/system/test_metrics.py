"""flows/doors/metrics.troy as shipped, but for its interval, to a program that takes lines."""

import socket
from pathlib import Path

import pytest

from demo.server import write_flow
from tests.system.daemon import ROOT, running
from tests.waiting import PATIENCE
from walflow.codecs import make


@pytest.mark.nightly
def test_lines_of_influx_come_over_tcp(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        args = {"send": f"127.0.0.1:{server.getsockname()[1]}"}
        flow = write_flow(tmp_path, ROOT / "flows" / "doors" / "metrics.troy", args)
        flow.write_text(flow.read_text().replace("10000000000", "100000000"))
        with running(flow, tmp_path) as daemon:
            peer, _ = server.accept()
            with peer, peer.makefile("rb") as lines:
                peer.settimeout(PATIENCE)
                seen = [make("influx").decode(next(lines).rstrip(b"\n")) for _ in range(50)]
            assert daemon.terminate() == 0, daemon.raw
    assert {"measurement", "tags", "fields", "timestamp"} == {key for event in seen for key in event}  # type: ignore[attr-defined]
    names = {event["measurement"] for event in seen}  # type: ignore[index]  # records
    assert "walflow_component_received_events_total" in names
