"""The systems, each set up as its own documentation says for durability."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.crash.ends import Client, HttpClient, HttpReceiver, Receiver, RelpClient, RelpReceiver, SyslogClient
from bench.crash.ledger import Ledger
from bench.peers import modules_of
from bench.unpacked import RSYSLOG, SYSLOG_NG, absent, environment, program, version

MOST_MB: Final = 64  # on disk, where a system can be told


class Ready(NamedTuple):
    """What a system is started with, again after each kill."""

    command: Sequence[str | Path]
    environment: Mapping[str, str]
    ready: Callable[[], bool] = lambda: True


class System:
    """`promise`: what its documentation says of durability, in its words, with the page. `leaves_out`: faults, and
    why. `notes`: what is to be known of a fault."""

    name = ""
    promise = ""
    page = ""
    leaves_out: Mapping[str, str] = {}
    notes: Mapping[str, str] = {}

    def absent(self) -> str | None:
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        raise NotImplementedError

    def has_kept(self, directory: Path) -> str:
        """What it says of an event that the receiver refuses for ever and that it tries no more. "": nothing."""
        return ""

    def client(self, port: int) -> Client:
        raise NotImplementedError

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        """`own`: the port of the system."""
        raise NotImplementedError


FLOW: Final = """
define flow main
flow
  use tremor::pipelines;
  define connector door from http_server
  with codec = "json", preprocessors = ["separate"], config = {{"url": "127.0.0.1:{port}"}} end;
  define connector log from wal
  with config = {{"path": "log", "chunk_size": {chunk}, "max_chunks": 16}} end;
  define connector peer from http_client
  with codec = "json", config = {{"url": "http://127.0.0.1:{receiver}/", "batch": "lines"}} end;
  create pipeline first from pipelines::passthrough;
  create pipeline second from pipelines::passthrough;
  create connector door; create connector log; create connector peer;
  connect /connector/door to /pipeline/first; connect /pipeline/first to /connector/log;
  connect /connector/log to /pipeline/second; connect /pipeline/second to /connector/peer;
end;
deploy flow main;
"""


class Walflow(System):
    name = "walflow"
    promise = "an event is acked after its bytes were written to the log and fdatasync returned"
    page = "connectors/wal.md"

    def absent(self) -> str | None:
        return None

    def version(self) -> str:
        from walflow import __version__

        return f"walflow {__version__}"

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        flow = directory / "flow.troy"
        flow.write_text(FLOW.format(port=port, receiver=receiver, chunk=MOST_MB * (1 << 20) // 16))
        return Ready([sys.executable, "-m", "walflow", "run", flow, "--admin", "off"], os.environ)

    def has_kept(self, directory: Path) -> str:
        command = [sys.executable, "-m", "walflow", "letters", "list", "log"]
        said = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False).stdout
        return "kept as a letter" if said.startswith("peer: 1 letter") else ""

    def client(self, port: int) -> Client:
        return HttpClient(port)

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        return HttpReceiver(ledger, port)


RSYSLOG_CONFIG: Final = """
global(workDirectory="{directory}" maxMessageSize="64k")
module(load="imrelp")
module(load="omrelp")
template(name="raw" type="string" string="<%pri%>%timestamp% %hostname% %syslogtag%%msg%")
ruleset(name="forward" queue.type="Disk" queue.filename="main" queue.maxDiskSpace="{most}m"
        queue.syncQueueFiles="on" queue.checkpointInterval="1" queue.saveOnShutdown="on") {{
  action(type="omrelp" target="127.0.0.1" port="{receiver}" template="raw" timeout="5"
         action.resumeRetryCount="-1" action.resumeInterval="1")
}}
input(type="imrelp" port="{port}" ruleset="forward")
"""


class Rsyslog(System):
    name = "rsyslog, RELP, disk queue, synced"
    promise = "RELP should ensure a safe and loss-free transmission; queue.syncQueueFiles: each write is synced"
    page = "https://www.rsyslog.com/actions-with-directives"
    notes: Mapping[str, str] = {
        "500 to everything for 5 s": "RELP has no word for an error that passes",
    }

    def absent(self) -> str | None:
        return absent(RSYSLOG) or (None if self._modules() else "no module imrelp: the package rsyslog-relp")

    def _modules(self) -> Path | None:
        daemon = program(RSYSLOG)
        found = modules_of(daemon) if daemon is not None else None
        return Path(found) if found is not None and Path(found, "imrelp.so").exists() else None

    def version(self) -> str:
        return version(RSYSLOG) or ""

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        config = directory / "rsyslog.conf"
        config.write_text(RSYSLOG_CONFIG.format(directory=directory, port=port, receiver=receiver, most=MOST_MB))
        pid, daemon = directory / "pid", program(RSYSLOG)
        assert daemon is not None
        pid.unlink(missing_ok=True)  # as systemd's unit has none
        command = [str(daemon), "-n", "-f", str(config), "-i", str(pid), "-M", str(self._modules())]
        return Ready(command, environment(RSYSLOG))

    def client(self, port: int) -> Client:
        return RelpClient(port)

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        return RelpReceiver(ledger, port)


SYSLOG_NG_CONFIG: Final = """
@version: 3.38
options {{ stats-freq(0); time-reopen(1); }};
source s {{ network(ip("127.0.0.1") port({port}) transport("tcp") flags(no-parse) log-iw-size(1000)); }};
destination d {{
  http(url("http://127.0.0.1:{receiver}/") method("POST") body("${{MESSAGE}}\\n") batch-lines(20) batch-timeout(100)
       timeout(5) retries(1000000)
       disk-buffer(reliable(yes) disk-buf-size({most}000000) mem-buf-size(1000000) dir("{directory}")));
}};
log {{ source(s); destination(d); flags(flow-control); }};
"""


class SyslogNg(System):
    name = "syslog-ng, reliable disk-buffer"
    promise = "reliable(yes): cannot lose logs in case of reload/restart, unreachable destination or a crash"
    page = "https://www.syslog-ng.com/technical-documents/doc/doc1769031"
    notes: Mapping[str, str] = {
        "kill -9, three times": "what it has not read of its socket is lost: the protocol has no ack",
        "poison event": "with `retries(3)`, its default, the request with the bad event is dropped, "
        "and so is what an outage refuses",
    }

    def absent(self) -> str | None:
        return absent(SYSLOG_NG) or (None if self._module() else "no module http: the package syslog-ng-mod-http")

    def _module(self) -> Path | None:
        places = [*SYSLOG_NG.place.glob("usr/lib/syslog-ng/*"), *Path("/usr/lib/syslog-ng").glob("*")]
        return next((place for place in places if (place / "libhttp.so").exists()), None)

    def version(self) -> str:
        return version(SYSLOG_NG) or ""

    def ready(self, directory: Path, port: int, receiver: int) -> Ready:
        config = directory / "syslog-ng.conf"
        config.write_text(SYSLOG_NG_CONFIG.format(directory=directory, port=port, receiver=receiver, most=MOST_MB))
        daemon = program(SYSLOG_NG)
        assert daemon is not None
        places = {"-f": config, "-R": directory / "persist", "-c": directory / "ctl", "-p": directory / "pid"}
        options = [str(one) for pair in places.items() for one in pair]
        return Ready([daemon, "-F", *options, f"--module-path={self._module()}"], environment(SYSLOG_NG))

    def client(self, port: int) -> Client:
        return SyslogClient(port)

    def receiver(self, ledger: Ledger, port: int, own: int) -> Receiver:
        return HttpReceiver(ledger, port)
