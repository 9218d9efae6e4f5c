"""The echo server as a user runs it: lines go in, come back, stand in the file."""

import signal
import socket
from pathlib import Path

import pytest

from tests.system.daemon import Client, Daemon, echo_flow, running
from tests.waiting import wait_until


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_line_comes_back_and_is_in_the_file(tmp_path: Path, loop: str) -> None:
    with running(echo_flow(tmp_path), tmp_path, "--loop", loop) as daemon:
        client = Client(daemon.port())
        client.send(b'{"b": 1,  "a":18446744073709551617}\n[1.10]\n')
        assert client.lines(2) == [b'{"b": 1,  "a":18446744073709551617}', b"[1.10]"]
        client.close()
        assert daemon.terminate() == 0
    assert (tmp_path / "out.log").read_bytes() == b'{"b": 1,  "a":18446744073709551617}\n[1.10]\n'


def test_invalid_json_beside_valid_leaves_by_err_and_is_counted(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'{"a":1}\n{nonsense\n\n{"a":2}\n\xff\n')
        assert client.lines(2) == [b'{"a":1}', b'{"a":2}']
        client.close()
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["rejected_events_total"] == 3
    assert (tmp_path / "out.log").read_bytes() == b'{"a":1}\n{"a":2}\n'


def test_fifty_connections_with_lines_cut_at_every_byte(tmp_path: Path, loop: str) -> None:
    with running(echo_flow(tmp_path), tmp_path, "--loop", loop) as daemon:
        port = daemon.port()
        clients = [Client(port) for _ in range(50)]
        lines = [b'{"client":%d,"text":"%s"}\n' % (number, b"z" * number) for number in range(50)]
        for at in range(max(map(len, lines))):
            for client, line in zip(clients, lines, strict=True):
                if at < len(line):
                    client.send(line[at : at + 1])
        for client, line in zip(clients, lines, strict=True):
            assert client.lines(1) == [line[:-1]]
            client.close()
        assert daemon.terminate() == 0
    assert sorted((tmp_path / "out.log").read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_an_event_over_the_limit_is_refused_and_the_next_one_echoed(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'"' + b"x" * (3 << 20) + b'"\n{"a":1}\n')
        assert client.lines(1) == [b'{"a":1}']
        client.close()
        assert daemon.terminate() == 0
        rejected = daemon.last("rejected")
        assert rejected["reason"] == f"event of {(3 << 20) + 3} bytes exceeds max_event_bytes, {1 << 20}"


def test_a_client_that_has_sent_all_still_gets_its_answers(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'{"a":1}\n{"a":2}')
        client.socket.shutdown(socket.SHUT_WR)
        assert client.lines(2) == [b'{"a":1}', b'{"a":2}']
        client.close()


def test_two_daemons_on_one_directory(tmp_path: Path) -> None:
    flow = echo_flow(tmp_path)
    with running(flow, tmp_path) as first:
        client = Client(first.port())
        second = Daemon(flow, tmp_path)
        assert second.wait() == 75
        (line,) = [line for line in second.lines if line.get("level") == "critical"]
        assert str(first.pid) in str(line["error"])
        assert "Traceback" not in "\n".join(second.raw)
        client.send(b"1\n")
        assert client.lines(1) == [b"1"]
        client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_after_it_has_stopped_changes_nothing(number: signal.Signals, tmp_path: Path, loop: str) -> None:
    with running(echo_flow(tmp_path), tmp_path, "--loop", loop) as daemon:
        daemon.wait_for("running")
        daemon.process.terminate()
        daemon.wait_for("stopped")
        while daemon.alive():
            daemon.process.send_signal(number)
        assert daemon.wait() == 0


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path, "--drain-seconds", "1000") as daemon:
        daemon.port()
        daemon.process.send_signal(signal.SIGSTOP)  # so that both are there when it looks
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.send_signal(signal.SIGINT)
        daemon.process.send_signal(signal.SIGCONT)
        assert daemon.wait() == 0


def test_the_file_is_opened_anew_on_hangup(tmp_path: Path) -> None:
    out = tmp_path / "out.log"
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b"1\n")
        client.lines(1)
        wait_until(lambda: out.read_bytes() == b"1\n")
        out.rename(tmp_path / "out.log.1")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("reopening files")
        client.send(b"2\n")
        client.lines(1)
        client.close()
        assert daemon.terminate() == 0
    assert (tmp_path / "out.log.1").read_bytes() == b"1\n"
    assert out.read_bytes() == b"2\n"


def test_a_torn_line_at_the_end_of_a_broken_connection_is_no_event(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        port = daemon.port()
        client = Client(port)
        client.send(b"1\n12")
        assert client.lines(1) == [b"1"]
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()  # a reset
        assert daemon.wait_for("rejected")["reason"] == "the stream broke off inside an event"
        assert daemon.terminate() == 0
    assert (tmp_path / "out.log").read_bytes() == b"1\n"
