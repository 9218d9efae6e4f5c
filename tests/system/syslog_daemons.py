"""rsyslog and syslog-ng as senders with a queue on disk, and as receivers, over TLS and with octet counting."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.peers import modules_of, started
from bench.unpacked import RSYSLOG, SYSLOG_NG, absent, environment, program

RSYSLOG_SENDS: Final = """
global(workDirectory="{workdir}" defaultNetstreamDriverCAFile="{ca}")
module(load="imtcp" StreamDriver.Name="ptcp")
ruleset(name="forward") {{
  action(type="omfwd" target="127.0.0.1" port="{to}" protocol="tcp" TCP_Framing="octet-counted"
         template="RSYSLOG_SyslogProtocol23Format" action.resumeInterval="1" action.resumeRetryCount="-1"
         StreamDriver="ossl" StreamDriverMode="1" StreamDriverAuthMode="x509/name" StreamDriverPermittedPeers="localhost"
         queue.type="Disk" queue.filename="queue" queue.checkpointInterval="1" queue.syncQueueFiles="on")
}}
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="forward")
"""
RSYSLOG_RECEIVES: Final = """
global(workDirectory="{workdir}" defaultNetstreamDriverCAFile="{ca}"
       defaultNetstreamDriverCertFile="{cert}" defaultNetstreamDriverKeyFile="{key}")
module(load="imtcp" StreamDriver.Name="ossl" StreamDriver.Mode="1" StreamDriver.AuthMode="anon")
template(name="message" type="string" string="%msg:::sp-if-no-1st-sp%%msg%\\n")
ruleset(name="store") {{ action(type="omfile" file="{workdir}/received" template="message") }}
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="store")
"""
SYSLOG_NG_SENDS: Final = """@version: 3.38
options {{ stats-freq(0); time-reopen(1); }};
source incoming {{ network(ip("127.0.0.1") port({port}) transport("tcp") flags(syslog-protocol)); }};
destination onward {{
  syslog("localhost" ip-protocol(4) port({to}) transport("tls") tls(ca-file("{ca}") peer-verify(required-trusted))
         disk-buffer(reliable(yes) mem-buf-size(163840) disk-buf-size(2097152) dir("{workdir}")));
}};
log {{ source(incoming); destination(onward); }};
"""
SYSLOG_NG_RECEIVES: Final = """@version: 3.38
options {{ stats-freq(0); }};
source incoming {{
  syslog(ip("127.0.0.1") port({port}) transport("tls") tls(key-file("{key}") cert-file("{cert}") peer-verify(optional-untrusted)));
}};
destination store {{ file("{workdir}/received" template(" $MSG\\n")); }};
log {{ source(incoming); destination(store); }};
"""


class Rsyslog:
    name = "rsyslog"
    sends, receives = RSYSLOG_SENDS, RSYSLOG_RECEIVES

    def absent(self) -> str | None:
        daemon = program(RSYSLOG)
        if daemon is None:
            return absent(RSYSLOG)
        if not (modules_of(daemon) / "lmnsd_ossl.so").exists():
            return (
                "rsyslog has no TLS: sudo apt-get install rsyslog-openssl, "
                "or `rm -r .venv/rsyslog` and `make rsyslog`"
            )
        return None

    def command(self, config: Path) -> tuple[list[str | Path], Mapping[str, str]]:
        daemon = program(RSYSLOG)
        assert daemon is not None
        own = config.parent
        return [daemon, "-n", "-f", config, "-i", own / "pid", "-M", modules_of(daemon)], environment(RSYSLOG)


class SyslogNg:
    name = "syslog-ng"
    sends, receives = SYSLOG_NG_SENDS, SYSLOG_NG_RECEIVES

    def absent(self) -> str | None:
        return absent(SYSLOG_NG)

    def command(self, config: Path) -> tuple[list[str | Path], Mapping[str, str]]:
        daemon = program(SYSLOG_NG)
        assert daemon is not None
        own = config.parent
        files = [f"--{kind}={own / kind}" for kind in ("persist-file", "pidfile", "control")]
        modules = [f"--module-path={path}" for path in SYSLOG_NG.place.glob("usr/lib/syslog-ng/[0-9]*")]
        return [daemon, "-F", "--no-caps", "-f", config, *files, *modules], environment(SYSLOG_NG)


@contextmanager
def syslog_daemon(kind: Rsyslog | SyslogNg, config: str, workdir: Path, port: int, **keys: object) -> Iterator[None]:
    """Until kill -9, which ends the block. What it has on disk stays in `workdir`."""
    workdir.mkdir(exist_ok=True)
    file = workdir / "daemon.conf"
    file.write_text(config.format(workdir=workdir, port=port, **keys))
    command, environ = kind.command(file)
    with started(command, workdir, port, environ):
        yield
