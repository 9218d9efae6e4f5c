"""From a file to a file, through a log: all of it, whatever the moment of the stop."""

import os
from pathlib import Path

from tests.system.daemon import running

FLOW = """\
define flow copy
flow
  use integration;
  use tremor::pipelines;
  define connector log from wal with config = {"path": "state"} end;
  define connector out from file
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"path": "out.log", "mode": "append"}
  end;
  create connector read from integration::read_file with file = "in.json" end;
  create connector log;
  create connector out;
  create pipeline before from pipelines::passthrough;
  create pipeline after from pipelines::passthrough;
  connect /connector/read to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
end;
deploy flow copy;
"""


def test_a_file_read_to_its_end_is_drained_to_its_end(tmp_path: Path) -> None:
    lines = b"".join(b'{"id":%d}\n' % number for number in range(200_000))
    (tmp_path / "in.json").write_bytes(lines[:-1])  # the last line lacks its newline
    flow = tmp_path / "copy.troy"
    flow.write_text(FLOW)
    with running(flow, tmp_path) as daemon:
        while not (tmp_path / "out.log").exists() or not (tmp_path / "out.log").stat().st_size:
            os.sched_yield()
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["left"] == 0
    out = (tmp_path / "out.log").read_bytes()
    assert lines.startswith(out)
    assert out.endswith(b"\n")
    with running(flow, tmp_path) as daemon:  # reads the file again, from its beginning
        daemon.wait_for("log open")
        while (tmp_path / "out.log").stat().st_size < len(out) + len(lines):
            os.sched_yield()
        assert daemon.terminate() == 0
    assert (tmp_path / "out.log").read_bytes() == out + lines
