"""flows/doors/syslog-forward.troy with TLS on both sides, between rsyslog and syslog-ng,
with kills of all that have a queue."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from demo.server import free_port, write_flow
from tests.system.certificates import Authority
from tests.system.daemon import ROOT, contents, running
from tests.system.syslog_daemons import Rsyslog, SyslogNg, syslog_daemon
from tests.waiting import wait_until

MESSAGES = 100
ABSENT = Rsyslog().absent() or SyslogNg().absent()

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT)),
    pytest.mark.skipif(shutil.which("logger") is None, reason="no logger: sudo apt-get install bsdutils"),
]


def forwarding(directory: Path, listen: int, send: int, authority: Authority) -> Path:
    """Octet counting and TLS, in and out."""
    urls = {"listen": f"127.0.0.1:{listen}", "send": f"localhost:{send}"}
    flow = write_flow(directory, ROOT / "flows" / "doors" / "syslog-forward.troy", urls)
    incoming, outgoing = json.dumps(authority.issue("localhost")), json.dumps({"cafile": authority.file})
    text = flow.read_text().replace('"separate"', '"textual-length-prefixed"')
    first, second, rest = text.split('"url": args.url')
    flow.write_text(f'{first}"url": args.url, "tls": {incoming}{second}"url": args.url, "tls": {outgoing}{rest}')
    return flow


def log(port: int, messages: list[str]) -> None:
    command = ["logger", "-T", "-n", "127.0.0.1", "-P", str(port), "-t", "app"]
    text = "".join(f"{message}\n" for message in messages)
    subprocess.run(command, input=text.encode(), check=True, timeout=100)


def holds(directory: Path, message: str) -> bool:
    return any(message.encode() in content for content in contents(directory))


@pytest.mark.parametrize(
    ("sender", "receiver"), [(Rsyslog(), SyslogNg()), (SyslogNg(), Rsyslog())], ids=["from rsyslog", "from syslog-ng"]
)
def test_what_a_queue_has_arrives_over_tls_after_kills_of_sender_and_walflow(
    sender: Rsyslog | SyslogNg, receiver: Rsyslog | SyslogNg, tmp_path: Path
) -> None:
    """TCP alone confirms nothing, so a message counts from when a queue or a log has it."""
    authority = Authority(tmp_path)
    to_sender, listen, send = free_port(), free_port(), free_port()
    flow = forwarding(tmp_path, listen, send, authority)
    out, back = tmp_path / "sender", tmp_path / "receiver"
    keys = {"ca": authority.file, "to": listen}
    own = authority.issue("receiver", "localhost")
    first = [f"first {number} caf\xe9" for number in range(MESSAGES)]
    second = [f"second {number} caf\xe9" for number in range(MESSAGES)]

    with running(flow, tmp_path) as daemon, syslog_daemon(sender, sender.sends, out, to_sender, **keys):
        daemon.wait_for("listening")
        log(to_sender, first)
        wait_until(lambda: holds(tmp_path / "state", first[-1]), "the last one in the log")
        daemon.kill()
    with syslog_daemon(sender, sender.sends, out, to_sender, **keys):  # walflow is away
        log(to_sender, [*second, "behind them"])
        wait_until(lambda: holds(out, "behind them"), "the last one in the sender's queue")
    with (
        syslog_daemon(receiver, receiver.receives, back, send, ca=authority.file, **own),
        running(flow, tmp_path) as daemon,
        syslog_daemon(sender, sender.sends, out, to_sender, **keys),
    ):
        received = back / "received"
        wanted = {f" {message}" for message in first + second}
        wait_until(lambda: received.exists() and wanted <= set(received.read_text().splitlines()), "all messages")
        assert daemon.terminate() == 0
