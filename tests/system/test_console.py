"""What a flow prints, as a shell sees it."""

import sys
from pathlib import Path

from tests.flows.builder import flow_of, lines_in, lines_out, pipeline
from tests.system.warm import ran

HALF = """
  into out, exit, err
  pipeline
    select {"exit": 0} from in where event == "exit" into exit;
    select event / 2 from in where event != "exit" into out;
    select event.error from in where present event.error into err;
"""
FLOW = flow_of(
    "source -> half -> console",
    "half/err -> console/stderr",
    "half/exit -> exit",
    half=pipeline(HALF),
    console=lines_out("stdio"),
    source=lines_in("file", path="in.json", mode="read"),
    exit="exit",
)


def test_results_go_to_stdout_and_errors_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "main.troy").write_text(FLOW, "utf-8")
    (tmp_path / "in.json").write_text('3\n"x"\n5\n"exit"\n', "utf-8")
    command = [sys.executable, "-m", "walflow", "run", "main.troy", "--admin", "off", "--log-format", "json"]
    ended = ran(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "1.5\n2.5\n"
    error = (
        '{"error":"`/` cannot be applied to a string and a whole number","source":"main::half","stream_id":1,'
        '"at":"main.troy:8:12","event":"x"}'
    )
    assert error in ended.stderr.splitlines()
