"""Until the process before has stopped, the next one has no effect on anything that it uses."""

import json
import re
import subprocess
import sys
from pathlib import Path

from demo.server import ROOT
from tests.flows.builder import NULL, flow_of, lines_in, plain
from walflow.registry import connectors

BINDS = re.compile(r"socket\.bind SOCK_(STREAM|DGRAM) \('127\.0\.0\.1', \d+\)")  # of what is not handed on, and free
ASKS_A_ROUTE = re.compile(r"socket\.connect SOCK_DGRAM \('127\.0\.0\.1', \d+\)")  # UDP: no packet is sent
ASKS_A_SOCKET = re.compile(r"socket\.connect SOCK_STREAM 'syslog\.sock'")  # a file whose socket was not handed on
OTHERS = flow_of(
    "from_unix -> to_null",
    "from_unix -> cb",
    "from_unix -> exit",
    "from_unix -> sqlite",
    "again -> to_null",
    from_unix=lines_in("unix_socket_client", path="there.sock"),
    to_null=NULL,
    again=plain("replay", path="incoming"),
    cb="cb",
    exit="exit",
    sqlite=plain("sqlite", path="here.db", table="events"),
)


def test_no_probe_has_an_effect(tmp_path: Path) -> None:
    """Of all connectors. No peer is connected to, so there is no second client, and no group is joined."""
    Path(tmp_path, "incoming").mkdir()
    for name in ("client_in.json", "events.json"):
        Path(tmp_path, name).touch()
    Path(tmp_path, "others.troy").write_text(OTHERS)
    flows = [str(path) for path in sorted((ROOT / "flows").rglob("*.troy"))]
    command = [sys.executable, "-m", "tests.cli.probes", *flows, "others.troy"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {kind.__name__ for kind in connectors().values()} <= set(told["kinds"])
    assert [line.split(" ")[0] for line in told["noticed"]] == ["open", "socket.bind", "socket.connect"]
    allowed = (BINDS, ASKS_A_ROUTE, ASKS_A_SOCKET)
    effects = {
        flow: odd
        for flow, made in told["found"].items()
        if (odd := [one for one in made if not any(kind.fullmatch(one) for kind in allowed)])
    }
    assert effects == {}
