"""A broker for trials, until Ctrl-C."""

import signal
import sys
import tempfile
from pathlib import Path

from tests.broker.jars import absent
from tests.broker.kafka import PASSWORD, USER, kafka

if __name__ == "__main__":
    reason = absent()
    if reason is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as directory, kafka(Path(directory)) as broker:
        sys.stdout.write(f"Kafka: {broker.address}\n")
        sys.stdout.write(f"with TLS ({broker.authority.file}), user {USER}, password {PASSWORD!r}: {broker.secure}\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
