"""Without the extra."""

import subprocess
import sys

import pytest

from tests.system.daemon import ROOT

WITHOUT = "import sys; sys.modules['confluent_kafka'] = None; import walflow_command; walflow_command.main()"


@pytest.mark.parametrize("name", ["kafka-in", "kafka-out"])
def test_check_says_what_to_install(name: str) -> None:
    command = [sys.executable, "-c", WITHOUT, "check", f"flows/doors/{name}.troy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "pip install 'walflow[kafka]'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
