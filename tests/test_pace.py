"""What a run cost counts its processes too, and is a ratio to the loop."""

import re
import subprocess
import sys
from pathlib import Path

SAID = re.compile(r"([0-9.]+) s of processor = ([0-9]+) paces of ([0-9.]+) ms")
BURNS = "import time\nwhile time.process_time() < 0.5: pass"


def test_the_time_of_a_command_and_of_what_it_starts_is_told_in_paces() -> None:
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURNS!r}]); sys.exit(3)"
    command = [sys.executable, "-m", "tests.pace", sys.executable, "-c", starts]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    said = SAID.fullmatch(done.stdout.strip())
    assert said is not None, done
    seconds, paces, one = map(float, said.groups())
    assert seconds >= 0.5
    rounded = 0.05 / one * 1000  # of the seconds, which are printed with one decimal
    assert abs(paces - seconds / one * 1000) <= 0.02 * paces + 1 + rounded
    assert done.returncode == 3
