"""Two sinks behind one log: what one has is not sent to it again because the other failed."""

import json
from collections import Counter
from pathlib import Path

from tests.system.daemon import Client, running

FLOW = """\
define flow server
flow
  use tremor::pipelines;

  define connector tcp from tcp_server
  with
    codec = "json",
    preprocessors = ["separate"],
    postprocessors = ["separate"],
    config = {"url": "127.0.0.1:0"}
  end;
  define connector log from wal with config = {"path": "state"} end;
  define connector out from file
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"path": "out.log", "mode": "append"}
  end;
  define connector flaky from `tests.system.flaky:Flaky`
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"failures": 50}
  end;

  create connector tcp;
  create connector log;
  create connector out;
  create connector flaky;
  create pipeline before from pipelines::passthrough;
  create pipeline after from pipelines::passthrough;

  connect /connector/tcp to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
  connect /pipeline/after to /connector/flaky;
end;

deploy flow server;
"""


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
