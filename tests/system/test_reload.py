"""`walflow reload`: the next process takes over, and clients of the daemon do not notice."""

import asyncio
import http.client
import itertools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.flows.builder import AT_ONCE, LOG, OUT, flow_of, lines, lines_in, lines_out, plain
from tests.system import ledger
from tests.system.admin import Admin
from tests.system.certificates import Authority
from tests.system.daemon import ROOT, WALFLOW, Client, Daemon, free_port, running
from tests.system.warm import ran, said as printed
from tests.waiting import PATIENCE, wait_until
from walflow.runtime.handover.channel import SocketChannel
from walflow.runtime.handover.reload import Reload

RELOADS = 3
DROPPED = "the kernel dropped datagrams"


class Reloaded:
    """A daemon that can be reloaded. `flow`: the file."""

    def __init__(self, daemon: Daemon, flow: Path, socket_file: Path) -> None:
        self.daemon = daemon
        self.flow = flow
        self.address = f"unix:{socket_file}"
        self.admin = Admin(None, self.address)

    def reload(self, *options: str) -> "subprocess.CompletedProcess[str]":
        return ran(
            [*WALFLOW, "reload", "--admin", self.address, "--watch", "100ms", *options],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=PATIENCE,
        )

    def reloads(self, *options: str) -> str:
        """Well. Returns what it prints."""
        done = self.reload(*options)
        assert done.returncode == 0, (done.stderr, "\n".join(self.daemon.raw[-40:]))
        return done.stdout

    def next_pid(self) -> int:
        """Of the process that is to take over, as soon as it is there."""
        before = self.pid()
        children = Path(f"/proc/{before}/task/{before}/children")
        wait_until(lambda: children.read_text().split(), "no process is started")
        return int(children.read_text().split()[0])

    def pid(self) -> int:
        """Of the process that serves."""
        running = [int(str(line["pid"])) for line in self.daemon.lines if line.get("event") == "running"]
        return running[-1]

    def shows(self) -> str:
        """What `walflow status` prints."""
        return printed([*WALFLOW, "status", "--admin", self.address], cwd=ROOT)

    def asks(self) -> "subprocess.Popen[str]":
        """For a reload, and does not wait."""
        command = [*WALFLOW, "reload", "--admin", self.address]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)

    def line_of(self, event: str, pid: int) -> None:
        wait_until(
            lambda: any(line.get("event") == event and line.get("pid") == pid for line in self.daemon.lines), event
        )

    def ends(self) -> None:
        """SIGTERM to the process that serves; it drains, and none is left."""
        os.kill(self.pid(), signal.SIGTERM)
        wait_until(lambda: not self.admin.answers(), "it still answers")
        wait_until(lambda: self.said("stopped") == self.said("running"), "it has not stopped")

    def said(self, event: str) -> int:
        return sum(line.get("event") == event for line in self.daemon.lines)


@contextmanager
def started(
    directory: Path,
    flow: str,
    *options: str,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
) -> Iterator[Reloaded]:
    file = directory / "main.troy"
    file.write_text(flow)
    admin = directory / "admin.sock"
    named = f"unix:{admin}"
    with running(file, directory, *options, admin=named, environment=environment, command=command) as daemon:
        reloaded = Reloaded(daemon, file, admin)
        daemon.wait_for("ready")
        try:
            yield reloaded
        finally:
            daemon.kill()


def echo(port: int, **more: object) -> str:
    tcp = lines("tcp_server", url=f"127.0.0.1:{port}", **more)
    return flow_of("tcp -> log -> out", "log -> tcp", tcp=tcp, log=LOG, out=OUT)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def more(counts: Callable[[], list[int]]) -> None:
    """Waits until each count has grown by twenty."""
    goals = [count + 20 for count in counts()]
    wait_until(lambda: all(count >= goal for count, goal in zip(counts(), goals, strict=True)), "nothing goes on")


def inherited_by_programs(pid: int) -> list[str]:
    """Descriptors of process `pid` that a program that it starts has open too; its stdin, stdout and stderr are not
    among them."""
    found = []
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        flags = next(line for line in info.read_text().splitlines() if line.startswith("flags:"))
        if int(info.name) > 2 and not int(flags.split()[1], 8) & os.O_CLOEXEC:
            found.append(os.readlink(f"/proc/{pid}/fd/{info.name}"))
    return found


# What clients notice


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_an_echo_over_its_connection_goes_on(tmp_path: Path, loop: str) -> None:
    port = free_port()
    senders = [ledger.Sender(number) for number in range(4)]
    with started(tmp_path, echo(port), "--loop", loop) as daemon:

        async def loaded() -> None:
            tasks = [asyncio.create_task(sender.run(port)) for sender in senders]
            for _ in range(RELOADS):
                await asyncio.to_thread(more, lambda: [len(sender.echoed) for sender in senders])
                await asyncio.to_thread(daemon.reloads)
            await asyncio.to_thread(more, lambda: [len(sender.echoed) for sender in senders])
            assert not any(task.done() for task in tasks), "a connection has ended"
            await asyncio.to_thread(daemon.ends)
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*tasks)

        asyncio.run(loaded())
    written = Counter((tmp_path / "out.log").read_bytes().splitlines(keepends=True))
    for sender in senders:
        assert not sender.strange
        assert sender.echoed <= written.keys()
    assert set(written.values()) == {1}


def test_half_a_line_is_finished_in_the_next_process(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        client = Client(port)
        for number in range(RELOADS):
            client.send(b'{"half": ')
            time.sleep(0.05)  # it is read, or not yet: either is well
            daemon.reloads()
            client.send(b"%d}\n" % number)
            assert [json.loads(line) for line in client.lines(1)] == [{"half": number}]
        client.close()
        daemon.ends()
    assert [json.loads(line) for line in (tmp_path / "out.log").read_bytes().splitlines()] == [
        {"half": number} for number in range(RELOADS)
    ]


class Poster(threading.Thread):
    """Posts one event after the other over one connection, until it is told to stop. `failed`: what was no 200."""

    def __init__(self, connection: http.client.HTTPConnection, name: str) -> None:
        super().__init__(daemon=True)
        self.acked: list[str] = []
        self.failed: list[str] = []
        self.connections = 0
        self.enough = threading.Event()
        self._connection = connection
        self._name = name

    def run(self) -> None:
        number = 0
        while not self.enough.is_set():
            event = f"{self._name}-{number}"
            number += 1
            if self._connection.sock is None:
                self.connections += 1
            try:
                self._connection.request("POST", "/", json.dumps({"id": event}))
                answer = self._connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"{event}: {error!r}")
                self._connection.close()
            else:
                (self.acked if answer.status == 200 else self.failed).append(event)
        self._connection.close()


def posted(daemon: Reloaded, posters: list[Poster], reloads: int = RELOADS) -> None:
    for poster in posters:
        poster.start()
    for _ in range(reloads):
        more(lambda: [len(poster.acked) for poster in posters])
        daemon.reloads()
    more(lambda: [len(poster.acked) for poster in posters])
    for poster in posters:
        poster.enough.set()
        poster.join(PATIENCE)
    daemon.ends()


def door(port: int, **more: object) -> str:
    scheme = "https" if "tls" in more else "http"
    server = plain("http_server", url=f"{scheme}://127.0.0.1:{port}", **more).replace("with", 'with codec = "json",')
    return flow_of("http -> log -> out", http=server, log=LOG, out=OUT)


def ids(directory: Path) -> Counter[str]:
    return Counter(json.loads(line)["id"] for line in (directory / "out.log").read_bytes().splitlines())


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_no_request_fails_and_no_connection_ends(tmp_path: Path, loop: str) -> None:
    port = free_port()
    posters = [Poster(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE), str(n)) for n in range(4)]
    with started(tmp_path, door(port), "--loop", loop) as daemon:
        posted(daemon, posters)
    assert [(poster.failed, poster.connections) for poster in posters] == [([], 1)] * 4
    assert ids(tmp_path) == Counter(event for poster in posters for event in poster.acked)


def test_no_request_under_tls_fails(tmp_path: Path) -> None:
    """The old process decrypts for the new one, whose answer ends the connection."""
    port, authority = free_port(), Authority(tmp_path)
    context = ssl.create_default_context(cafile=authority.file)
    posters = [
        Poster(http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context), str(n))
        for n in range(3)
    ]
    with started(tmp_path, door(port, tls=authority.issue("127.0.0.1"))) as daemon:
        posted(daemon, posters)
    assert [poster.failed for poster in posters] == [[]] * 3
    assert ids(tmp_path) == Counter(event for poster in posters for event in poster.acked)


def test_a_request_over_a_kept_connection_under_tls_is_answered_in_each_second_of_the_watch(tmp_path: Path) -> None:
    """And one that comes when the old process has ended finds its connection closed, with nothing sent twice."""
    port, authority = free_port(), Authority(tmp_path)
    context = ssl.create_default_context(cafile=authority.file)
    kept = [http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context) for _ in range(6)]

    def posts(connection: http.client.HTTPConnection, event: str) -> tuple[int, bool]:
        """The status, and whether the connection ends with it."""
        connection.request("POST", "/", json.dumps({"id": event}))
        with connection.getresponse() as answer:
            answer.read()
            return answer.status, answer.will_close

    with started(tmp_path, door(port, tls=authority.issue("127.0.0.1"))) as daemon:
        assert [posts(one, f"before-{number}") for number, one in enumerate(kept)] == [(200, False)] * 6
        daemon.reloads("--watch", "5s")
        begun = time.monotonic()
        for second, one in enumerate(kept[:5]):
            time.sleep(max(0.0, begun + second - time.monotonic()))  # the watch goes by the clock
            assert posts(one, f"after-{second}") == (200, True)
        daemon.daemon.wait_for("process before has ended")
        with pytest.raises((ConnectionError, http.client.HTTPException, ssl.SSLError)):
            posts(kept[5], "late")
        for one in kept:
            one.close()
        daemon.ends()
    found = ids(tmp_path)
    assert found == Counter([f"before-{n}" for n in range(6)] + [f"after-{n}" for n in range(5)])


def test_a_request_that_is_half_sent_is_answered_by_the_next_process(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, door(port)) as daemon, ExitStack() as closed_at_end:
        in_head, in_body = (closed_at_end.enter_context(connected(port)) for _ in range(2))
        in_head.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Le")
        in_body.sendall(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"id"')
        asked = daemon.asks()
        daemon.line_of("running", daemon.next_pid())
        in_head.sendall(b'ngth: 10\r\n\r\n{"id":"h"}')
        in_body.sendall(b':"b"}'.ljust(5))
        for connection in (in_head, in_body):
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200"), connection
        asked.communicate(timeout=PATIENCE)
        assert asked.returncode == 0
        daemon.ends()
    assert ids(tmp_path) == Counter(["h", "b"])


def test_a_websocket_is_told_that_the_service_restarts(tmp_path: Path) -> None:
    """1012. The client connects again at once, and sends again what has no echo."""
    port, closed, echoed = free_port(), list[int](), list[str]()
    enough = threading.Event()
    server = plain("ws_server", url=f"ws://127.0.0.1:{port}").replace(" with ", ' with codec = "json", ')

    def client() -> None:
        while not enough.is_set():
            with connect(f"ws://127.0.0.1:{port}", open_timeout=PATIENCE) as connection:
                try:
                    while not enough.is_set():
                        event = f"e{len(echoed)}"
                        connection.send(json.dumps({"id": event}))
                        assert json.loads(connection.recv(PATIENCE)) == {"id": event}
                        echoed.append(event)
                except ConnectionClosed as error:
                    closed.append(error.rcvd.code if error.rcvd is not None else 0)

    sender = threading.Thread(target=client, daemon=True)
    with started(tmp_path, flow_of("ws -> log -> out", "log -> ws", ws=server, log=LOG, out=OUT)) as daemon:
        sender.start()
        for _ in range(RELOADS):
            more(lambda: [len(echoed)])
            daemon.reloads()
        more(lambda: [len(echoed)])
        enough.set()
        sender.join(PATIENCE)
        daemon.ends()
    assert closed == [1012] * RELOADS
    found = ids(tmp_path)
    assert set(echoed) <= set(found)
    assert sum(found.values()) <= len(echoed) + RELOADS  # of each connection, one had no echo yet


def test_datagrams_wait_in_the_socket(tmp_path: Path) -> None:
    port = free_port()
    udp = plain("udp_server", url=f"127.0.0.1:{port}").replace(" with ", ' with codec = "json", ')
    with started(tmp_path, flow_of("udp -> log -> out", udp=udp, log=LOG, out=OUT)) as daemon:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", port))
            asked = daemon.asks()
            sent = 0
            while asked.poll() is None:
                sender.send(b'{"id":"%d"}' % sent)
                sent += 1
                time.sleep(0.001)
        wait_until(lambda: len(ids(tmp_path)) == sent)
        daemon.ends()
    assert set(ids(tmp_path).values()) == {1}
    assert re.search(
        r"main::udp: while no process read its socket, [\d,]+ of [\d,]+ bytes were filled: no datagram was dropped\n",
        asked.communicate()[0],
    )


def test_datagrams_that_the_kernel_drops_meanwhile_are_counted(tmp_path: Path) -> None:
    """Each is there, or counted by one of the two processes. The next one is held while none reads the socket: it may
    read before it is held, then it is done again."""
    port, sent = free_port(), itertools.count()
    udp = plain("udp_server", url=f"127.0.0.1:{port}", receive_buffer=4096).replace(
        " with ", ' with codec = "json", '
    )
    with started(tmp_path, flow_of("udp -> log -> out", udp=udp, log=LOG, out=OUT)) as daemon:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", port))
            wait_until(lambda: "datagrams were dropped" in reloaded_while_held(daemon, sender, sent))
        daemon.ends()
    lost = sum(int(str(line.get("datagrams", 0))) for line in daemon.daemon.lines if line["event"] == DROPPED)
    assert len(ids(tmp_path)) + lost == next(sent)


def reloaded_while_held(daemon: Reloaded, sender: socket.socket, numbers: Iterator[int]) -> str:
    """What the reload prints."""
    asked, held = daemon.asks(), ""
    after, draining, stopped = daemon.next_pid(), daemon.said("draining"), daemon.said("stopped")
    while asked.poll() is None:
        if not held and daemon.said("draining") > draining:
            os.kill(after, signal.SIGSTOP)
            held = "as the old one stops"
        elif held == "as the old one stops" and daemon.said("stopped") > stopped:
            held = "while none reads"
        elif held == "while none reads":
            os.kill(after, signal.SIGCONT)
            held = "no more"
        for _ in range(20):
            sender.send(b'{"id":"%d","pad":"%s"}' % (next(numbers), b"x" * 500))
        time.sleep(0.001)  # a steady stream, and not one that takes the processor
    assert asked.wait() == 0
    return asked.communicate()[0]


def test_a_unix_socket_keeps_its_file_and_its_clients(tmp_path: Path) -> None:
    path = tmp_path / "in.sock"
    server = lines("unix_socket_server", path=str(path))
    with started(tmp_path, flow_of("unix -> log -> out", "log -> unix", unix=server, log=LOG, out=OUT)) as daemon:
        made = path.stat().st_ino
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(path))
            for number in range(RELOADS):
                client.sendall(b'{"id":"%d"}\n' % number)
                assert client.recv(100)
                daemon.reloads()
            client.sendall(b'{"id":"last"}\n')
            assert client.recv(100)
        assert path.stat().st_ino == made
        daemon.ends()
        assert not path.exists()
    assert len(ids(tmp_path)) == RELOADS + 1


def test_a_followed_file_is_read_once(tmp_path: Path) -> None:
    follow = lines_in("file", path=str(tmp_path / "app.log"), mode="read", follow=True)
    with started(tmp_path, flow_of("file -> log -> out", file=follow, log=LOG, out=OUT)) as daemon:
        with (tmp_path / "app.log").open("ab", buffering=0) as writer:
            asked = daemon.asks()
            sent = 0
            while asked.poll() is None or sent < 100:
                writer.write(b'{"id":"%d"}\n' % sent)
                sent += 1
                time.sleep(0.001)
        wait_until(lambda: len(ids(tmp_path)) == sent)
        daemon.ends()
    assert set(ids(tmp_path).values()) == {1}
    asked.communicate()


def test_spark_inherits_no_descriptor(tmp_path: Path) -> None:
    """A driver that outlives the daemon for a moment would still listen on its addresses and hold its logs."""
    with started(tmp_path, echo(free_port())) as daemon:
        assert not inherited_by_programs(daemon.pid())
        daemon.reloads()
        assert not inherited_by_programs(daemon.pid())


def test_a_daemon_without_a_token_is_told_by_a_signal(tmp_path: Path) -> None:
    """Its admin interface cannot know who asks; the kernel knows who may send SIGUSR2."""
    port, admin = free_port(), f"127.0.0.1:{free_port()}"
    flow = tmp_path / "main.troy"
    flow.write_text(echo(port))
    with running(flow, tmp_path, admin=admin) as daemon:
        daemon.wait_for("ready")
        client = Client(port)
        command = [*WALFLOW, "reload", "--admin", admin]
        refused = ran([*command, "--watch", "1s"], capture_output=True, text=True, cwd=ROOT)
        assert (refused.returncode, "SIGUSR2" in refused.stderr) == (69, True), refused
        done = ran(command, capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode, "serves" in done.stdout) == (0, True), done
        client.send(b"{}\n")
        assert client.lines(1) == [b"{}"]
        client.close()
        daemon.kill()


def test_systemd_is_told_which_process_it_is_now(tmp_path: Path) -> None:
    told = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(told))
        manager.settimeout(PATIENCE)
        port = free_port()
        with started(tmp_path, echo(port), environment={"NOTIFY_SOCKET": str(told)}) as daemon:
            old, asked = daemon.pid(), daemon.asks()
            said = b""
            while not (b"MAINPID" in said and b"READY=1" in said.rpartition(b"RELOADING=1")[2]):
                said += manager.recv(4096) + b"\n"
            asked.communicate()
            assert f"MAINPID={daemon.pid()}".encode() in said
            assert daemon.pid() != old
            assert b"STOPPING=1" not in said


# What is refused before anything changes


def test_a_mistake_is_printed_and_the_old_process_serves_on(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        client, pid = Client(port), daemon.pid()
        daemon.flow.write_text(echo(port).replace("deploy flow main", "deploy flow mian"))
        done = daemon.reload()
        assert done.returncode == 78, done
        assert "main.troy:" in done.stderr
        assert "^" in done.stderr
        assert "goes on as it was" in done.stderr
        daemon.flow.write_text(echo(port))
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = echo(other.getsockname()[1])
            daemon.flow.write_text(taken)
            done = daemon.reload()
        assert (done.returncode, "Address already in use" in done.stderr) == (69, True), done
        client.send(b"{}\n")
        assert client.lines(1) == [b"{}"]
        assert daemon.pid() == pid
        client.close()
        assert "reload failed, asked for" in daemon.shows()
        daemon.flow.write_text(echo(port))
        daemon.reloads()
        assert "; reloaded " in daemon.shows()


def test_a_log_that_may_outgrow_its_disk_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """`run` starts it, so a reload does."""
    large = plain("wal", path="state", chunk_size=1 << 40, max_chunks=1 << 10)
    tcp = lines("tcp_server", url=f"127.0.0.1:{free_port()}")
    with started(tmp_path, flow_of("tcp -> log -> out", tcp=tcp, log=large, out=OUT)) as daemon:
        daemon.reloads()


def test_what_would_be_lost_is_named_and_kept(tmp_path: Path) -> None:
    """A sink that lacks events is not in the new flow."""
    port, away = free_port(), free_port()
    http_client = lines_out("http_client", url=f"http://127.0.0.1:{away}", reconnect=AT_ONCE)
    tcp = lines("tcp_server", url=f"127.0.0.1:{port}")
    before = flow_of("tcp -> log -> out", "log -> there", tcp=tcp, log=LOG, out=OUT, there=http_client)
    with started(tmp_path, before) as daemon:
        client = Client(port)
        client.send(b'{"id":"1"}\n')
        wait_until(lambda: (tmp_path / "out.log").exists() and len(ids(tmp_path)) == 1)
        daemon.flow.write_text(flow_of("tcp -> log -> out", tcp=tcp, log=LOG, out=OUT))
        dry = daemon.reload("--dry-run")
        assert (dry.returncode, "main::there" in dry.stdout, "would do this" in dry.stdout) == (0, True, True), dry
        assert f"\nhanded on: tcp 127.0.0.1:{port}\n" in dry.stdout
        done = daemon.reload()
        assert done.returncode == 1
        assert "--lose main::there" in done.stderr
        daemon.reloads("--lose", "main::there")
        client.send(b'{"id":"2"}\n')
        wait_until(lambda: len(ids(tmp_path)) == 2)
        client.close()
        daemon.ends()


def test_a_new_sink_begins_where_it_is_told_to(tmp_path: Path) -> None:
    port, away = free_port(), free_port()
    tcp = lines("tcp_server", url=f"127.0.0.1:{port}")
    there = lines_out("http_client", url=f"http://127.0.0.1:{away}", reconnect=AT_ONCE)
    ways, held = ["tcp -> log -> out", "log -> there"], {"tcp": tcp, "log": LOG, "out": OUT, "there": there}

    def sink(name: str) -> str:
        return lines_out("file", path=str(tmp_path / name), mode="append")

    def has(name: str) -> list[str]:
        file = tmp_path / name
        return [json.loads(line)["id"] for line in file.read_bytes().splitlines()] if file.exists() else []

    with started(tmp_path, flow_of(*ways, **held)) as daemon:
        client = Client(port)
        for number in range(1, 4):
            client.send(b'{"id":"%d"}\n' % number)
            wait_until(lambda: len(ids(tmp_path)) == number)  # noqa: B023  # it waits here
        new = ("late", "third", "first")
        ways += [f"log -> {name}" for name in new]
        held.update((name, sink(name)) for name in new)
        daemon.flow.write_text(flow_of(*ways, **held))
        dry = daemon.reload("--dry-run", "--begin", "main::out=now")
        assert "main::late is new behind it, and begins with the oldest that is there (3 events)" in dry.stdout
        assert "--begin main::out: no sink of that name is new behind a log with lanes" in dry.stdout
        assert daemon.reload("--begin", "main::out=now").returncode == 1
        assert daemon.reload("--begin", "main::late=soon").returncode == 2
        daemon.reloads("--begin", "main::late=now", "--begin", "main::third=3")
        client.send(b'{"id":"4"}\n')
        wait_until(lambda: all(has(name)[-1:] == ["4"] for name in new))
        client.close()
        daemon.ends()
    assert [has(name) for name in new] == [["4"], ["3", "4"], ["1", "2", "3", "4"]]


# What dies on the way


def echoes(port: int, text: bytes) -> None:
    """A client that comes anew gets its echo."""
    client = Client(port)
    client.send(text + b"\n")
    assert client.lines(1) == [text]
    client.close()


def test_the_next_process_dies_before_it_has_checked(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        client, pid = Client(port), daemon.pid()
        asked = daemon.asks()
        os.kill(daemon.next_pid(), signal.SIGKILL)
        said = asked.communicate(timeout=PATIENCE)[1]
        assert (asked.returncode, "was ended by SIGKILL" in said) == (75, True), said
        client.send(b"{}\n")
        assert client.lines(1) == [b"{}"]
        assert daemon.pid() == pid
        client.close()
        daemon.reloads()


LATER = """
import os, pathlib, signal, socket, struct, sys

later = pathlib.Path(__file__).with_suffix("")
if "WALFLOW_HANDOVER" in os.environ and later.exists():
    channel = socket.socket(fileno=int(os.environ["WALFLOW_HANDOVER"]))
    for said in later.read_bytes().splitlines():
        channel.sendall(struct.pack("<II", len(said), 0) + said)
    signal.pause()
from walflow_command import main

main()
"""


@pytest.mark.parametrize("said", ['{"what":"thinks"}', "no JSON", '{"what":"checked","more":1}\n{"what":"thinks"}'])
def test_a_next_process_of_a_version_that_is_not_understood(tmp_path: Path, said: str) -> None:
    """It is ended, and the old one serves. What it only says more is passed over: it is one of a later version."""
    port = free_port()
    (tmp_path / "later.py").write_text(LATER)
    with started(tmp_path, echo(port), command=[sys.executable, str(tmp_path / "later.py"), "run"]) as daemon:
        (tmp_path / "later").write_text(said)
        done = daemon.reload()
        assert (done.returncode, "says is not understood" in done.stderr) == (75, True), done.stderr
        echoes(port, b'{"id":"after"}')
        (tmp_path / "later").unlink()
        daemon.reloads()  # and it can be asked again
        echoes(port, b'{"id":"again"}')


ALL = {"all": True, "tells": {}}
NOTHING = {"nodes": {"nodes": [], "links": []}, "status": {"version": "9"}, "lacking": []}


@pytest.mark.parametrize(
    "said",
    [
        [{}],
        [{"reload": Reload.new("a test")}],
        [{"reload": Reload.new("a test"), "running": {}}],
        [{"reload": Reload.new("a test"), "running": NOTHING}, ALL],
        [{"reload": Reload.new("a test"), "running": NOTHING}, {"sockets": 3}],
        [{"reload": Reload.new("a test"), "running": NOTHING}, {**ALL, "tells": [1]}],
    ],
)
def test_an_old_process_of_a_version_that_is_not_understood(tmp_path: Path, said: Sequence[object]) -> None:
    """It is told so, and serves on."""
    near, far = socket.socketpair()
    flow = tmp_path / "main.troy"
    flow.write_text(echo(free_port()))
    environment = {**os.environ, "WALFLOW_HANDOVER": str(far.fileno())}
    command = [*WALFLOW, "run", str(flow), "--workdir", str(tmp_path), "--admin", "off"]
    with subprocess.Popen(command, env=environment, pass_fds=[far.fileno()], cwd=ROOT) as process, near:
        far.close()

        async def spoken() -> Any:
            channel = SocketChannel(near)
            async with asyncio.timeout(PATIENCE):
                for each in said:
                    await channel.send(each)
                return (await channel.receive())[0]

        answer = asyncio.run(spoken())
        assert (answer["what"], answer["code"], process.wait(PATIENCE)) == ("refused", 69, 69)
    assert "what it says of itself is not understood" in answer["lines"][0]
    assert answer["lines"][1].endswith("stop that one, and start this")


@pytest.mark.parametrize("line", ["running", "took over"])
def test_the_next_process_dies_and_the_old_one_goes_on(tmp_path: Path, line: str) -> None:
    """As soon as it runs, and as soon as it serves."""
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        echoes(port, b'{"id":"before"}')
        pid = daemon.pid()
        asked = daemon.asks()
        after = daemon.next_pid()
        if line == "running":
            daemon.line_of("running", after)
        else:
            daemon.daemon.wait_for(line)
            echoes(port, b'{"id":"between"}')
        os.kill(after, signal.SIGKILL)
        wait_until(lambda: daemon.pid() == pid and daemon.said("running") == 3, "the old one does not run")
        echoes(port, b'{"id":"after"}')
        asked.communicate(timeout=PATIENCE)
        assert daemon.admin.get("/reload")[1].count("runs anew") == 1
        daemon.reloads()  # and it can be asked again
        echoes(port, b'{"id":"again"}')
        os.kill(daemon.pid(), signal.SIGTERM)
        wait_until(lambda: not daemon.admin.answers(), "it still answers")
    wanted = ["before", "after", "again", *(["between"] if line != "running" else [])]
    assert set(ids(tmp_path)) == set(wanted)


@pytest.mark.parametrize("line", ["reload", "took over"])
def test_the_old_process_dies(tmp_path: Path, line: str) -> None:
    """Before it has stopped, the next one ends too; from then on, it goes on."""
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        echoes(port, b'{"id":"before"}')
        old = daemon.pid()
        asked = daemon.asks()
        after = daemon.next_pid()
        daemon.daemon.wait_for(line)
        os.kill(old, signal.SIGKILL)
        asked.communicate(timeout=PATIENCE)
        if line == "reload":
            wait_until(lambda: not Path(f"/proc/{after}/fd").exists(), "the next one goes on alone")
            assert not daemon.admin.answers()
        else:
            echoes(port, b'{"id":"after"}')
            wait_until(lambda: daemon.said("process before has ended") == 1, "it is not noticed")
            daemon.reloads()
            os.kill(daemon.pid(), signal.SIGTERM)
            wait_until(lambda: not daemon.admin.answers(), "it still answers")


def test_a_next_process_that_is_told_to_stop_takes_the_old_one_with_it(tmp_path: Path) -> None:
    with started(tmp_path, echo(free_port())) as daemon:
        daemon.reloads("--watch", "1h")
        old = daemon.daemon.pid
        os.kill(daemon.pid(), signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{old}/fd").exists() or not daemon.daemon.alive(), "the old one stays")
        assert daemon.said("running") == 2
        assert not daemon.admin.answers()


def test_a_sink_that_was_dropped_gets_all_if_the_old_flow_comes_back(tmp_path: Path) -> None:
    """The new flow acks what the dropped sink lacks, and dies. Nothing of it was written down."""
    port, away = free_port(), free_port()
    tcp = lines("tcp_server", url=f"127.0.0.1:{port}")
    there = lines_out("tcp_client", url=f"127.0.0.1:{away}", reconnect=AT_ONCE)
    before = flow_of("tcp -> log -> out", "log -> there", tcp=tcp, log=LOG, out=OUT, there=there)
    with started(tmp_path, before) as daemon:
        old, client = daemon.pid(), Client(port)
        client.send(b'{"id":"1"}\n')
        wait_until(lambda: (tmp_path / "out.log").exists() and len(ids(tmp_path)) == 1)
        daemon.flow.write_text(flow_of("tcp -> log -> out", tcp=tcp, log=LOG, out=OUT))
        daemon.reloads("--lose", "main::there", "--watch", "1h")
        client.send(b'{"id":"2"}\n')
        wait_until(lambda: len(ids(tmp_path)) == 2)
        os.kill(daemon.pid(), signal.SIGKILL)
        wait_until(lambda: daemon.pid() == old and daemon.said("running") == 3, "the old one does not run")
        with socket.create_server(("127.0.0.1", away)) as listener:
            receiver = listener.accept()[0]
            with receiver, receiver.makefile("rb") as received:
                assert {json.loads(received.readline())["id"] for _ in range(2)} == {"1", "2"}
        client.close()


def test_too_many_errors_bring_the_old_flow_back(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        old = daemon.pid()
        daemon.reloads("--watch", "1h", "--max-errors", "2")
        client = Client(port)
        client.send(b"no json\n" * 3)
        wait_until(lambda: daemon.pid() == old and daemon.said("running") == 3, "the old one does not run")
        assert "3 events failed or were rejected" in "".join(daemon.daemon.raw)
        client.close()
        echoes(port, b"{}")


# In a container


def _is_namespace_to_be_had() -> bool:
    tried = subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(not _is_namespace_to_be_had(), reason="no namespace of processes is to be had")
def test_process_1_stays_and_passes_signals_on(tmp_path: Path) -> None:
    port, admin = free_port(), tmp_path / "admin.sock"
    flow = tmp_path / "main.troy"
    flow.write_text(echo(port))
    prefix = ["unshare", "-pf", "--mount-proc"]
    with running(flow, tmp_path, prefix=prefix, admin=f"unix:{admin}") as daemon:
        reloaded = Reloaded(daemon, flow, admin)
        daemon.wait_for("ready")
        first = int(Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text())
        client = Client(port)
        for number in range(RELOADS):
            reloaded.reloads()
            client.send(b'{"id":"%d"}\n' % number)
            assert client.lines(1)
        client.close()
        wait_until(lambda: reloaded.said("process before has ended") == RELOADS, "an old one stays")
        (now,) = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        assert not inherited_by_programs(int(now))
        os.kill(first, signal.SIGTERM)
        assert daemon.wait() == 0
        assert reloaded.said("stopped") == RELOADS + 1
