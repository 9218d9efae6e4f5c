"""What a flow prints, as a shell sees it."""

import subprocess
import sys
from pathlib import Path

FLOW = """
define flow main
flow
  use integration;
  define pipeline half
  into out, exit, err
  pipeline
    select {"exit": 0} from in where event == "exit" into exit;
    select event / 2 from in where event != "exit" into out;
    select event.error from in where present event.error into err;
  end;
  define connector console from stdio with codec = "json", postprocessors = ["separate"] end;
  create connector console;
  create connector in from integration::read_file;
  create connector exit from integration::exit;
  create pipeline half;
  connect /connector/in to /pipeline/half;
  connect /pipeline/half to /connector/console;
  connect /pipeline/half/err to /connector/console/stderr;
  connect /pipeline/half/exit to /connector/exit;
end;
deploy flow main;
"""


def test_results_go_to_stdout_and_errors_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "main.troy").write_text(FLOW, "utf-8")
    (tmp_path / "in.json").write_text('3\n"x"\n5\n"exit"\n', "utf-8")
    command = [sys.executable, "-m", "walflow", "run", "main.troy", "--admin", "off", "--log-format", "json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "1.5\n2.5\n"
    error = (
        '{"error":"`/` cannot be applied to a string and a whole number","source":"main::half","stream_id":1,'
        '"at":"main.troy:9:12","event":"x"}'
    )
    assert error in ended.stderr.splitlines()
