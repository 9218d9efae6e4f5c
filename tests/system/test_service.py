"""walflow as a service: what Prometheus, systemd, a probe and an operator see of the real process."""

import json
import os
import pty
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.flows.builder import TCP, flow_of, json_only, plain, unready
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import ROOT, WALFLOW, Client, Daemon, echo_flow, free_port, running
from tests.system.warm import ran
from tests.waiting import PATIENCE
from walflow.admin.catalogue import of_connectors, of_operators
from walflow.metrics import CORE, exposed


def trouble(workdir: Path, name: str, **config: object) -> Path:
    """A metronome and one of the stubborn sinks."""
    file = workdir / "trouble.troy"
    sink = json_only(f"tests.system.stubborn:{name}", **config)
    file.write_text(flow_of("tick -> sink", name="trouble", tick=plain("metronome", interval=1_000_000), sink=sink))
    return file


def walflow(*arguments: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return ran(
        [*WALFLOW, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=PATIENCE,
        check=False,
    )


# What it shows


def test_the_figures_are_what_was_done(tmp_path: Path) -> None:
    sent = [b'{"n":%d}\n' % number for number in range(500)]
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        client = Client(daemon.port())
        client.send(b"".join(sent) + b"{nonsense\n")
        client.lines(500)
        admin.until(lambda admin: admin.metrics()["walflow_wal_backlog_events", "log"] == 0)
        seen = admin.metrics()
        client.close()
        assert daemon.terminate() == 0

    def of(component: str, name: str) -> float:
        return seen[f"walflow_{name}", component]

    size = len(b"".join(sent))
    assert of("tcp", "component_received_events_total") == 500
    assert of("tcp", "component_received_bytes_total") == size
    assert of("tcp", "component_rejected_events_total") == 1
    for sink in ("log", "out", "tcp"):
        assert of(sink, "component_acked_events_total") == 500
        assert of(sink, "component_acked_bytes_total") == size
        assert of(sink, "component_failed_events_total") == 0
        assert of(sink, "component_breaker_open") == 0
    assert of("log", "component_received_events_total") == 500
    assert of("log", "component_redelivered_events_total") == 0
    for source in ("tcp", "log"):
        assert of(source, "component_inflight_bytes") == 0
        assert of(source, "component_window_bytes") > 0
        assert of(source, "component_up") == 1
        assert of(source, "component_restarts_total") == 0
    assert of("log", "wal_appended_events_total") == 500
    assert of("log", "wal_appended_bytes_total") > size
    for position in ("low", "durable"):
        assert of("log", f"wal_{position}_position") == 500
    assert of("log", "wal_next_position") == 501
    assert of("log", "wal_backlog_bytes") == 0
    assert of("log", "wal_oldest_seconds") == 0
    assert of("log", "wal_budget_bytes") == 16 * (16 << 20)
    assert 0 < of("log", "wal_used_bytes") <= of("log", "wal_budget_bytes")
    assert 0 < of("log", "wal_fill_ratio") < 0.1
    assert of("log", "wal_chunks") == 1
    commits = of("log", "wal_sync_seconds_count")
    assert 1 <= commits <= 500
    assert of("log", "wal_commit_bytes_count") == commits
    assert of("log", "wal_commit_bytes_sum") == of("log", "wal_appended_bytes_total")
    assert of("", "ready") == 1
    assert of("", "uptime_seconds") > 0
    assert seen["walflow_topology_edge_info", "tcp"] == 1
    assert seen["walflow_topology_edge_info", "after"] == 2
    assert seen["walflow_build_info", ""] == 1
    assert seen["process_resident_memory_bytes", ""] > 1 << 20
    types = [CORE, *of_operators("walflow").values(), *of_connectors("walflow").values()]
    known = {exposed(name) for families in types for name in families}
    for name, _ in seen:
        base = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        assert base in known or name.startswith("process_")


def test_a_backlog_shows_as_one_and_survives_a_restart(tmp_path: Path) -> None:
    flow = tmp_path / "held.troy"
    ways = ("tcp -> log -> out", "log -> tcp")
    log = plain("wal", path="state", chunk_size=1 << 20, max_chunks=4)
    flow.write_text(flow_of(*ways, name="server", tcp=TCP, log=log, out=unready(tmp_path)))
    (tmp_path / "up").touch()
    with running(flow, tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        client = Client(daemon.port())
        client.send(b'{"a":1}\n' * 100)
        client.lines(100)
        shown = admin.status()["flows"][0]["connectors"][1]
        assert shown["held_by"] == ["server::out holds 700 bytes"]
        log = shown["log"]
        assert "full_in_seconds" not in log  # it does not grow
        assert (log["low_position"], log["durable_position"], log["next_position"]) == (0, 100, 101)
        assert log["backlog_events"] == 100
        assert log["backlog_bytes"] > 800
        assert log["oldest_seconds"] > 0
        client.close()
        killed = time.monotonic()
        daemon.kill()
    with running(flow, tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        since = time.monotonic() - killed
        assert admin.metrics()["walflow_wal_backlog_events", "log"] == 100
        assert admin.metrics()["walflow_wal_oldest_seconds", "log"] > since - 0.01  # two clocks
        (tmp_path / "ack").touch()
        admin.until(lambda admin: admin.metrics()["walflow_wal_low_position", "log"] == 100)
        assert daemon.terminate() == 0


def test_what_is_not_ready_says_why(tmp_path: Path) -> None:
    flow = echo_flow(tmp_path)
    flow.write_text(flow.read_text().replace('"path": "out.log"', '"path": "nowhere/out.log"'))
    with running(flow, tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        why = "server::out is starting: cannot write nowhere/out.log: its directory nowhere does not exist"
        admin.until(lambda admin: why in admin.get("/readyz")[1])
        (tmp_path / "nowhere").mkdir()
        admin.until_ready()


def test_status_has_the_graph_and_rates(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        client = Client(daemon.port())

        def tcp() -> dict[str, object]:
            connectors: list[dict[str, object]] = admin.status()["flows"][0]["connectors"]
            return connectors[0]

        admin.until(lambda admin: bool(tcp()["rates"]))
        client.send(b'{"a":1}\n' * 100)
        client.lines(100)
        admin.until(lambda admin: bool(tcp()["rates"]["received"] > 0))  # type: ignore[index]
        status = admin.status()
        (flow,) = status["flows"]
        assert flow["name"] == "server"
        assert [connector["name"] for connector in flow["connectors"]] == ["tcp", "log", "out"]
        assert [pipeline["name"] for pipeline in flow["pipelines"]] == ["before", "after"]
        assert {"source": "after", "source_port": "out", "target": "tcp", "target_port": "in"} in flow["links"]
        assert (status["ready"], status["state"], status["pid"]) == (True, "running", daemon.pid)
        assert tcp()["events"]["received"] == 100  # type: ignore[index]
        asked = walflow("status", "--admin", admin.address)
        assert asked.returncode == 0
        for word in ("server", "tcp", "ready", "backlog", "total"):
            assert word in asked.stdout
        asked = walflow("top", "--once", "--sort", "name", "--admin", admin.address)
        assert [line.split("  ")[0].split(" up")[0] for line in asked.stdout.splitlines()[2:]] == [
            *("after", "before", "log", "log to out", "log to tcp", "out", "tcp"),
            "total",
        ]
        scripted = walflow("status", "--json", WALFLOW_ADMIN=admin.address)
        assert json.loads(scripted.stdout)["pid"] == daemon.pid
        client.close()


def test_status_is_watched_until_ctrl_c_and_over_the_end_of_the_daemon(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        watching = subprocess.Popen(
            [*WALFLOW, "status", "--watch", "--admin", admin.address],
            stdin=end,
            stdout=end,
            stderr=end,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"},
            start_new_session=True,
        )
        os.close(end)
        _until_shown(terminal, b"pid %d" % daemon.pid)
        assert daemon.terminate() == 0
    _until_shown(terminal, b"no daemon answers")
    watching.send_signal(signal.SIGINT)
    assert watching.wait(PATIENCE) == 0
    os.close(terminal)


def _until_shown(terminal: int, words: bytes) -> None:
    shown = b""
    while words not in shown:
        assert select.select([terminal], [], [], PATIENCE)[0], shown
        shown += os.read(terminal, 1 << 16)


def test_prometheus_may_ask_in_either_format_and_twice_on_one_connection(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        code, text = admin.get("/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})
        assert (code, text.endswith("# EOF\n")) == (200, True)
        for path in ("/nothing", "/status/../metrics", "/page.html"):
            assert admin.get(path)[0] == 404


def test_a_page_in_a_browser_here_learns_nothing(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        foreign = {"Host": "evil.example:9898"}
        assert [admin.get(path, foreign)[0] for path in ("/status", "/metrics", "/livez")] == [403, 403, 200]


# Whether it is ready


@pytest.mark.nightly
def test_not_ready_until_every_connector_is_up_and_named_until_then(tmp_path: Path) -> None:
    flow = trouble(tmp_path, "Unready", directory=str(tmp_path))
    with running(flow, tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until(lambda admin: admin.metrics()["walflow_component_restarts_total", "sink"] >= 2)
        code, text = admin.get("/readyz")
        assert code == 503
        assert text.splitlines()[0] == "not ready"
        assert text.splitlines()[1:] == [r"trouble::sink is restarting: the peer\x1b[31m is not there"]
        assert admin.get("/livez") == (200, "ok\n")
        assert admin.metrics()["walflow_component_up", "sink"] == 0
        assert admin.metrics()["walflow_component_breaker_open", "sink"] == 1
        asked = walflow("status", "--admin", admin.address)
        assert "sink is restarting: the peer\\x1b[31m is not there" in asked.stdout
        assert "\x1b" not in asked.stdout
        health = walflow("status", "--ready", "--admin", admin.address)
        assert (health.returncode, "trouble::sink" in health.stderr) == (69, True)
        (tmp_path / "up").touch()
        (tmp_path / "ack").touch()
        admin.until_ready()
        health = walflow("status", "--ready", "--admin", admin.address)
        assert (health.returncode, health.stdout) == (0, "ready\n")
        assert daemon.terminate() == 0


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_stop_is_told_at_once_and_it_lives_while_it_drains(tmp_path: Path, loop: str) -> None:
    flow = trouble(tmp_path, "Unready", directory=str(tmp_path))
    (tmp_path / "up").touch()
    with running(flow, tmp_path, "--drain-seconds", "60", "--loop", loop, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        admin.until(lambda admin: admin.metrics()["walflow_component_inflight_bytes", "tick"] > 0)
        daemon.process.terminate()
        daemon.wait_for("draining")
        code, text = admin.get("/readyz")
        assert (code, text.splitlines()) == (503, ["not ready", "the daemon is stopping"])
        assert admin.get("/livez")[0] == 200
        assert admin.status()["state"] == "stopping"
        (tmp_path / "ack").touch()
        assert daemon.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        admin.get("/livez")


# Where it listens


@pytest.mark.nightly
def test_on_a_socket_that_is_its_owners_alone_and_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    address = f"unix:{path}"
    with running(echo_flow(tmp_path), tmp_path, admin=address) as daemon:
        assert daemon.wait_for("admin listening")["address"] == address
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        asked = walflow("status", "--json", "--admin", address)
        assert json.loads(asked.stdout)["pid"] == daemon.pid
        second = Daemon(echo_flow(tmp_path), tmp_path, admin=address)
        assert second.wait() == 69
        assert daemon.terminate() == 0
    assert not path.exists()
    with running(echo_flow(tmp_path), tmp_path, admin=address) as daemon:
        daemon.wait_for("admin listening")
        daemon.kill()
    assert path.exists()
    with running(echo_flow(tmp_path), tmp_path, admin=address) as daemon:  # a dead one's socket is replaced
        daemon.wait_for("admin listening")


def test_an_address_that_is_taken_ends_the_start_with_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        daemon = Daemon(echo_flow(tmp_path), tmp_path, admin=address)
        assert daemon.wait() == 69
    (line,) = [line for line in daemon.lines if line.get("level")]
    assert (line["level"], line["exit_code"]) == ("critical", 69)
    assert address in str(line["error"])
    assert "--admin" in str(line["error"])
    assert not (tmp_path / "state").exists()  # before any log was opened


@pytest.mark.nightly
def test_away_from_loopback_only_with_a_token(tmp_path: Path) -> None:
    flow = echo_flow(tmp_path)
    refused = walflow("run", flow, "--workdir", tmp_path, "--admin", "0.0.0.0:0")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--admin-token-file" in refused.stderr
    token = tmp_path / "token"
    for useless in ("", "\n", "two words\n"):
        token.write_text(useless)
        refused = walflow("run", flow, "--admin", "0.0.0.0:0", "--admin-token-file", token)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    token.write_text("s3cret-canary\n")
    with running(flow, tmp_path, "--admin-token-file", str(token), admin="0.0.0.0:0") as daemon:
        admin = Admin(daemon)
        admin.address = admin.address.replace("0.0.0.0", "127.0.0.1")
        assert daemon.wait_for("insecure")
        right = {"Authorization": "Bearer s3cret-canary"}
        assert admin.get("/status")[0] == 401
        assert admin.get("/metrics", {"Authorization": "Bearer wrong"})[0] == 401
        assert admin.get("/status", right)[0] == 200
        assert admin.get("/livez")[0] == 200
        admin.until_ready()
        assert walflow("status", "--admin", admin.address).returncode == 69
        asked = walflow("status", "--admin", admin.address, "--admin-token-file", token)
        assert asked.returncode == 0
        assert daemon.terminate() == 0
    assert "s3cret-canary" not in "\n".join(daemon.raw) + asked.stdout


def test_a_credential_of_systemd_is_the_token(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("from-systemd")
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK, environment=environment) as daemon:
        admin = Admin(daemon)
        assert admin.get("/metrics")[0] == 401
        assert admin.get("/metrics", {"Authorization": "Bearer from-systemd"})[0] == 200


@pytest.mark.parametrize("address", ["nowhere", "unix:relative", "http://127.0.0.1/x"])
@pytest.mark.parametrize("command", ["run", "status"])
def test_an_address_that_is_none_is_a_mistake_in_usage(tmp_path: Path, command: str, address: str) -> None:
    arguments = ["run", str(echo_flow(tmp_path)), "--admin"] if command == "run" else ["status", "--admin"]
    if address == "nowhere":
        address = "no where:x"
    refused = walflow(*arguments, address)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert address in refused.stderr


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    for address in (f"127.0.0.1:{free_port()}", f"unix:{tmp_path}/nobody.sock"):
        asked = walflow("status", "--admin", address)
        assert (asked.returncode, asked.stdout, asked.stderr.count("\n")) == (69, "", 1)
        assert address in asked.stderr


# systemd


def test_systemd_hears_how_it_goes(tmp_path: Path) -> None:
    flow = trouble(tmp_path, "Unready", directory=str(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)

        def heard(wanted: bytes) -> list[bytes]:
            said: list[bytes] = []
            while wanted not in said:
                said += systemd.recv(4096).split(b"\n")
            return said

        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        with running(flow, tmp_path, environment=environment) as daemon:
            before = heard(b"STATUS=not ready: trouble::sink is restarting: the peer?[31m is not there")
            assert b"STATUS=starting" in before
            assert b"READY=1" not in before
            (tmp_path / "up").touch()
            (tmp_path / "ack").touch()
            heard(b"READY=1")
            heard(b"STATUS=ready")
            heard(b"WATCHDOG=1")
            os.kill(daemon.pid, 1)
            assert heard(b"READY=1").count(b"RELOADING=1") == 1
            daemon.process.terminate()
            heard(b"STOPPING=1")
            assert daemon.wait() == 0


IMPATIENT = """
import os, sys
from pathlib import Path
from walflow.cli import logs
from walflow.plan import load
from walflow.runtime.daemon import Settings, run
logs.configure("json")
assembly, _ = load([Path(sys.argv[1])])
os.chdir(sys.argv[3])
sys.exit(run(assembly, Settings(start_seconds=0.5)))
"""


def test_systemd_is_told_that_the_start_failed_if_the_port_is_taken(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, socket.create_server(("127.0.0.1", 0)) as other:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        flow = echo_flow(tmp_path)
        port = other.getsockname()[1]
        flow.write_text(flow.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with running(flow, tmp_path, command=[sys.executable, "-c", IMPATIENT], environment=environment) as daemon:
            daemon.wait_for("start failed")
            assert daemon.wait() == 69
        said: list[bytes] = []
        while b"STOPPING=1" not in said:
            said += systemd.recv(4096).split(b"\n")
    assert b"READY=1" not in said
    assert b"ERRNO=98" in said
    [told] = [line for line in said if line.startswith(b"STATUS=start failed")]
    assert told.startswith(b"STATUS=start failed: server::tcp is restarting: cannot listen on")


def test_without_a_service_manager_a_port_that_is_taken_is_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        flow = echo_flow(tmp_path)
        port = other.getsockname()[1]
        flow.write_text(flow.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        with running(flow, tmp_path, command=[sys.executable, "-c", IMPATIENT]) as daemon:
            assert "cannot listen" in str(daemon.wait_for("not ready")["lacking"])
            other.close()
            daemon.wait_for("listening")
            assert daemon.terminate() == 0


def test_ready_is_waited_for_with_one_line_at_the_end(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'admin'}"
    said = walflow("status", "--ready", "--wait", "300ms", "--admin", address)
    assert said.returncode == 69
    assert said.stderr.startswith(f"walflow: after 0 s: no daemon answers at {address}: No such file or directory")
    assert said.stderr.count("\n") == 1
    waiting = subprocess.Popen(
        [*WALFLOW, "status", "--ready", "--wait", "100s", "--admin", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    flow = trouble(tmp_path, "Unready", directory=str(tmp_path))
    (tmp_path / "ack").touch()
    with running(flow, tmp_path, admin=address) as daemon:
        Admin(None, address).until_there()
        said = walflow("status", "--ready", "--admin", address)
        assert (said.returncode, "None" in said.stderr) == (69, False)
        (tmp_path / "up").touch()
        assert waiting.communicate(timeout=PATIENCE) == ("ready\n", "")
        assert daemon.terminate() == 0
    assert walflow("status", "--wait", "1s").returncode == 2
    assert "30 seconds is no duration" in walflow("status", "--ready", "--wait", "30 seconds").stderr


def test_a_loop_that_stands_still_feeds_no_watchdog(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        with running(echo_flow(tmp_path), tmp_path, environment=environment) as daemon:
            daemon.wait_for("ready")
            os.kill(daemon.pid, 19)  # SIGSTOP
            while _is_running(daemon.pid):
                pass
            _drain(systemd)
            systemd.settimeout(0.2)  # ten times what it was told
            with pytest.raises(TimeoutError):
                systemd.recv(4096)
            os.kill(daemon.pid, 18)
            systemd.settimeout(PATIENCE)
            while b"WATCHDOG=1" not in systemd.recv(4096):
                pass


def _drain(sock: socket.socket) -> None:
    sock.setblocking(False)
    try:
        while True:
            sock.recv(4096)
    except BlockingIOError:
        return


def _is_running(pid: int) -> bool:
    return "T (stopped)" not in Path(f"/proc/{pid}/status").read_text()


# How it ends


def test_a_clean_stop_is_0(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        daemon.wait_for("ready")
        assert daemon.terminate() == 0


def test_a_mistake_on_the_command_line_is_2(tmp_path: Path) -> None:
    assert walflow("run").returncode == 2
    assert walflow("run", echo_flow(tmp_path), "--no-such-option").returncode == 2
    refused = walflow("run", echo_flow(tmp_path), "--workdir", tmp_path / "missing")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_a_drain_lasts_no_such_time(tmp_path: Path, seconds: str) -> None:
    told = walflow("run", echo_flow(tmp_path), "--workdir", tmp_path, "--admin", "off", "--drain-seconds", seconds)
    assert told.returncode == 2
    assert told.stderr == f"walflow: --drain-seconds {float(seconds)}: a number of seconds, 0 or more\n"


def test_a_sighup_during_the_start_ends_nothing(tmp_path: Path) -> None:
    text = echo_flow(tmp_path).read_text()
    fifo = tmp_path / "fifo.troy"
    os.mkfifo(fifo)
    with running(fifo, tmp_path) as daemon:
        with fifo.open("w") as file:  # it reads its flow file, and waits for the rest
            os.kill(daemon.pid, signal.SIGHUP)
            file.write(text)
        daemon.wait_for("ready")
        assert daemon.terminate() == 0


def test_a_bug_is_70_and_one_line(tmp_path: Path) -> None:
    ended = walflow("run", trouble(tmp_path, "Bug"), "--admin", "off")
    assert (ended.returncode, ended.stderr.count("Traceback")) == (70, 0)
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("walflow: ")]
    assert line.startswith("walflow: internal error: RuntimeError: a bug (in claims, stubborn.py:")
    ended = walflow("run", trouble(tmp_path, "Bug"), "--admin", "off", WALFLOW_TRACEBACK="1")
    assert "Traceback" in ended.stderr


def test_a_disk_that_fails_is_74(tmp_path: Path) -> None:
    with running(trouble(tmp_path, "Sick"), tmp_path) as daemon:
        assert daemon.wait() == 74
    assert daemon.last("fatal")["error"] == "the disk is broken"


def test_a_log_directory_that_is_none_is_74(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a directory")
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        assert daemon.wait() == 74
    assert "state" in str(daemon.last("fatal")["error"])


def test_a_log_that_another_one_has_is_75(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        daemon.wait_for("ready")
        with running(echo_flow(tmp_path), tmp_path) as second:
            assert second.wait() == 75


def test_a_flow_file_with_a_mistake_is_78(tmp_path: Path) -> None:
    flow = tmp_path / "bad.troy"
    flow.write_text("deploy flow nowhere;")
    assert walflow("run", flow, "--admin", "off").returncode == 78


# What is closed, stuck or used up


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_standard_descriptors_that_are_closed_are_no_ones_file(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """What is printed or logged must not end up in the log's chunk that got the number."""
    flow = echo_flow(tmp_path)
    address = f"unix:{tmp_path}/admin.sock"

    closing = " ".join(f"{fd}>&-" for fd in closed)
    process = subprocess.Popen(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *WALFLOW, "run", flow, "--workdir", tmp_path, "--admin", address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        admin = Admin(None, address)
        admin.until_there()
        admin.until_ready()
        for fd in closed:
            assert os.readlink(f"/proc/{process.pid}/fd/{fd}") == os.devnull
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("how", ["closed", "reader gone"])
def test_stdout_is_lost_and_nothing_else(tmp_path: Path, how: str) -> None:
    console = json_only("stdio", when_closed="drop")
    flow = echo_flow(tmp_path, chunk_size=1 << 20, max_chunks=4, console=console)
    read, write = os.pipe()
    os.close(read)
    begin = "os.close(1)" if how == "closed" else f"os.dup2({write}, 1)"
    command = [sys.executable, "-c", f"import os, sys; {begin}; os.execv(sys.argv[1], sys.argv[1:])", *WALFLOW, "run"]
    daemon = Daemon(flow, tmp_path, command=command, descriptors=(write,))
    try:
        client = Client(daemon.port())
        for number in range(3):
            client.send(b'{"n":%d}\n' % number)
            assert client.lines(1) == [b'{"n":%d}' % number]
        client.close()
        assert daemon.terminate() == 0
    finally:
        os.close(write)
        daemon.close()
    assert (tmp_path / "out.log").read_bytes() == b'{"n":0}\n{"n":1}\n{"n":2}\n'


def test_a_stderr_that_nobody_reads_holds_no_flow_up(tmp_path: Path) -> None:
    flow = trouble(tmp_path, "Chatty")
    address = f"unix:{tmp_path}/admin.sock"
    process = subprocess.Popen(
        [*WALFLOW, "run", flow, "--workdir", tmp_path, "--admin", address],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stderr is not None
    admin = Admin(None, address)
    try:
        admin.until_there()
        # 2,000 lines of 1 kB and more: the pipe and the queue are long full
        admin.until(lambda admin: admin.metrics()["walflow_component_acked_events_total", "sink"] > 20)
        before = admin.metrics()["walflow_component_acked_events_total", "sink"]
        admin.until(lambda admin: admin.metrics()["walflow_component_acked_events_total", "sink"] > before)
        assert admin.metrics()["walflow_log_lines_dropped_total", ""] > 0
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stderr.close()


def test_descriptors_run_out_and_accepting_pauses_while_the_log_goes_on(tmp_path: Path) -> None:
    limit = 160

    with running(
        echo_flow(tmp_path, chunk_size=64 << 10, max_chunks=64),
        tmp_path,
        prefix=("prlimit", f"--nofile={limit}:{limit}"),
        admin=LOOPBACK,
    ) as daemon:
        admin = Admin(daemon)
        port = daemon.port()
        first = Client(port)
        crowd = [Client(port) for _ in range(limit)]
        daemon.wait_for("accepting paused")
        for number in range(100):  # a chunk every few lines: files are opened all the time
            line = b'"%d %s"' % (number, b"x" * 10_000)
            first.send(line + b"\n")
            assert first.lines(1) == [line]
        assert admin.get("/livez")[0] == 200
        for client in crowd:  # reset: a client that only says that it has sent all is answered for a while
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        daemon.wait_for("accepting again")
        late = Client(port)
        late.send(b"1\n")
        assert late.lines(1) == [b"1"]
        for client in (first, late):
            client.close()
        assert len([line for line in daemon.lines if line.get("event") == "accepting paused"]) <= 10
        assert daemon.terminate() == 0
