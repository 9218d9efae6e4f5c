"""Two sinks behind one log: what one has is not sent to it again because the other failed."""

import json
from collections import Counter
from pathlib import Path

from tests.flows.builder import LOG, OUT, TCP, flow_of, lines_out
from tests.system.daemon import Client, running

FLOW = flow_of(
    "tcp -> log -> out",
    "log -> flaky",
    tcp=TCP,
    log=LOG,
    out=OUT,
    flaky=lines_out("tests.system.flaky:Flaky", failures=50),
)


def test_fifty_failures_of_one_sink_are_not_seen_by_the_other(tmp_path: Path) -> None:
    flow = tmp_path / "fanout.troy"
    flow.write_text(FLOW)
    with running(flow, tmp_path, "--drain-seconds", "120") as daemon:
        client = Client(daemon.port())
        for start in range(0, 3000, 10):
            client.send(b"".join(b'{"id":%d}\n' % number for number in range(start, start + 10)))
        client.socket.shutdown(1)
        daemon.wait_for("redelivery")
        client.close()
        assert daemon.terminate() == 0
        stopped = daemon.last("stopped")
    assert stopped["left"] == 0
    assert int(str(stopped["failed_events_total"])) >= 50
    ids = [json.loads(line)["id"] for line in (tmp_path / "out.log").read_bytes().splitlines()]
    assert sorted(ids) == list(range(3000))
    assert max(Counter(ids).values()) == 1
