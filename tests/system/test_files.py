"""From a file to a file, through a log: all of it, whatever the moment of the stop."""

from pathlib import Path

from tests.flows.builder import LOG, OUT, flow_of, lines_in
from tests.system.daemon import running
from tests.waiting import wait_until

FLOW = flow_of("read -> log -> out", read=lines_in("file", path="in.json", mode="read"), log=LOG, out=OUT)


def test_a_file_read_to_its_end_is_drained_to_its_end(tmp_path: Path) -> None:
    lines = b"".join(b'{"id":%d}\n' % number for number in range(200_000))
    (tmp_path / "in.json").write_bytes(lines[:-1])  # the last line lacks its newline
    flow = tmp_path / "copy.troy"
    flow.write_text(FLOW)
    with running(flow, tmp_path) as daemon:
        wait_until(lambda: (tmp_path / "out.log").exists() and (tmp_path / "out.log").stat().st_size)
        daemon.drained()
    out = (tmp_path / "out.log").read_bytes()
    assert lines.startswith(out)
    assert out.endswith(b"\n")
    with running(flow, tmp_path) as daemon:  # reads the file again, from its beginning
        daemon.wait_for("log open")
        wait_until(lambda: (tmp_path / "out.log").stat().st_size == len(out) + len(lines))
        assert daemon.terminate() == 0
    assert (tmp_path / "out.log").read_bytes() == out + lines
