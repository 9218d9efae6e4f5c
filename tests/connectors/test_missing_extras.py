"""A flow with a connector whose client is not installed."""

import subprocess
import sys

import pytest

from tests.system.daemon import ROOT
from walflow.extras import install_line

WITHOUT = "import sys; sys.modules['{}'] = None; import walflow_command; walflow_command.main()"


@pytest.mark.parametrize(
    ("flow", "module", "extra"),
    [
        ("kafka-in", "confluent_kafka", "kafka"),
        ("kafka-out", "confluent_kafka", "kafka"),
        ("mqtt", "paho", "mqtt"),
        ("dns", "dns", "dns"),
        ("kafka-avro", "fastavro", "avro"),
    ],
)
def test_check_says_what_to_install(flow: str, module: str, extra: str) -> None:
    command = [sys.executable, "-c", WITHOUT.format(module), "check", f"flows/doors/{flow}.troy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert install_line(extra) in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
