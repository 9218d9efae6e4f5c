"""flows/doors/syslog*.troy as shipped, between `logger` and rsyslog as they are."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.peers import modules_of, started
from bench.unpacked import RSYSLOG, absent, environment, program
from demo.server import free_port, write_flow
from tests.system.daemon import ROOT, contents, running
from tests.waiting import wait_until

DOORS = ROOT / "flows" / "doors"
MESSAGES = [f"message {number} [x] caf\xe9" for number in range(200)]

# It takes lines and forwards them as RFC 5424, or takes either framing and writes what each message says.
SENDS = """
module(load="imtcp")
ruleset(name="forward" queue.type="LinkedList") {{
  action(type="omfwd" target="127.0.0.1" port="{to}" protocol="tcp" template="RSYSLOG_SyslogProtocol23Format"
         action.resumeInterval="1" action.resumeRetryCount="-1")
}}
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="forward")
"""
RECEIVES = """
module(load="imtcp")
template(name="told" type="string"
         string="%syslogfacility-text% %syslogseverity-text% %hostname% %app-name% %procid% %msgid% %structured-data%|%msg%\\n")
ruleset(name="store") {{ action(type="omfile" file="{workdir}/received" template="told") }}
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="store")
"""  # noqa: E501  # a line of its data is one

with_logger = pytest.mark.skipif(shutil.which("logger") is None, reason="no logger: sudo apt-get install bsdutils")
with_rsyslog = pytest.mark.skipif(absent(RSYSLOG) is not None, reason=str(absent(RSYSLOG)))


@contextmanager
def rsyslog(config: str, workdir: Path, port: int, to: int = 0) -> Iterator[None]:
    daemon = program(RSYSLOG)
    assert daemon is not None
    workdir.mkdir(exist_ok=True)
    file = workdir / "rsyslog.conf"
    file.write_text('global(workDirectory="%s")' % workdir + config.format(workdir=workdir, port=port, to=to))  # noqa: UP031  # braces are rsyslog's
    command: list[str | Path] = [daemon, "-n", "-f", file, "-i", workdir / "pid", "-M", modules_of(daemon)]
    with started(command, workdir, port, environment(RSYSLOG)):
        yield


def log(*options: str, messages: list[str]) -> None:
    """What `logger` sends, a message a line of its input."""
    text = "".join(f"{message}\n" for message in messages)
    subprocess.run(["logger", *options], input=text.encode(), check=True, timeout=100)


@with_logger
def test_logger_by_every_door(tmp_path: Path) -> None:
    lines, counted, socket = free_port(), free_port(), tmp_path / "socket"
    args = {"lines": f"127.0.0.1:{lines}", "counted": f"127.0.0.1:{counted}", "socket": str(socket)}
    flow = write_flow(tmp_path, DOORS / "syslog.troy", args)
    here = ("-n", "127.0.0.1", "-P")
    ways = {
        "udp": ("-d", *here, str(lines)),
        "udp-bsd": ("-d", *here, str(lines), "--rfc3164"),
        "tcp": ("-T", *here, str(lines)),
        "tcp-bsd": ("-T", *here, str(lines), "--rfc3164"),
        "counted": ("-T", *here, str(counted), "--octet-count"),
        "counted-data": (
            "-T",
            *here,
            str(counted),
            "--octet-count",
            "--sd-id",
            "zoo@1",
            "--sd-param",
            'tiger="a\\]b"',
        ),
        "unix": ("-u", str(socket), "--socket-errors=on"),
    }
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("ready")
        for tag, options in ways.items():
            log(*options, "-t", tag, "-p", "mail.err", "--id=77", messages=['first "one"', "second caf\xe9"])
        out = tmp_path / "out.jsonl"
        wait_until(lambda: out.exists() and out.read_bytes().count(b"\n") == 2 * len(ways), "all messages")
        assert daemon.terminate() == 0
    events = [json.loads(line) for line in out.read_text().splitlines()]
    for tag in ways:
        came = [event for event in events if event["appname"] == tag]
        assert [event["msg"] for event in came] == ['first "one"', "second caf\xe9"], tag
        for event in came:
            assert (event["facility"], event["severity"], event["procid"]) == ("mail", "err", "77")
            bsd = tag.endswith("bsd") or tag == "unix"
            assert event["protocol"] == ("RFC3164" if bsd else "RFC5424")
            assert abs(event["timestamp"] / 1e9 - out.stat().st_mtime) < 36 * 3600  # RFC 3164 has no time zone
            assert ("hostname" in event) is (tag != "unix")
        if tag == "counted-data":
            assert came[0]["structured_data"]["zoo@1"] == [{"tiger": "a]b"}]
    assert not (tmp_path / "refused.jsonl").exists() or not (tmp_path / "refused.jsonl").read_bytes()


@with_rsyslog
@with_logger
def test_from_rsyslog_to_rsyslog_through_a_log_that_is_killed(tmp_path: Path) -> None:
    """The receiver is away, the messages are in the log when walflow is killed, and all arrive as they were."""
    listen, send, to_sender = free_port(), free_port(), free_port()
    args = {"listen": f"127.0.0.1:{listen}", "send": f"127.0.0.1:{send}"}
    flow = write_flow(tmp_path, DOORS / "syslog-forward.troy", args)
    state = tmp_path / "state"
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("listening")
        with rsyslog(SENDS, tmp_path / "sender", to_sender, listen):
            options = (
                "-T",
                "-n",
                "127.0.0.1",
                "-P",
                str(to_sender),
                "-t",
                "app",
                "-p",
                "local3.warning",
                "--msgid",
                "ID47",
            )
            log(*options, "--sd-id", "zoo@1", "--sd-param", 'tiger="hun\\"gry"', messages=MESSAGES)
            last = MESSAGES[-1].encode()
            wait_until(lambda: any(last in content for content in contents(state)), "the last one in the log")
            daemon.kill()
    with rsyslog(RECEIVES, tmp_path / "receiver", send), running(flow, tmp_path) as daemon:
        received = tmp_path / "receiver" / "received"
        wait_until(lambda: received.exists() and received.read_text().count("\n") >= len(MESSAGES), "all messages")
        assert daemon.terminate() == 0
    told = [line.partition("|") for line in received.read_text().splitlines()]
    assert [msg.strip() for _, _, msg in told] == MESSAGES
    for head, _, _ in told:
        assert head.startswith("local3 warning ")
        assert " app - ID47 [" in head
        assert r'[zoo@1 tiger="hun\"gry"]' in head
