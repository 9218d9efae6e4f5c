"""The bench cannot be fooled by a system that loses, changes or invents bytes. No test looks at a speed."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.lines import Load, made_lines, outgoing, returning
from bench.systems import PLAIN, SERVER, Walflow, WrongResult
from bench.wire import RedisWire, Wire

LINES = made_lines(100)

Ends = Callable[[Load], tuple[Wire, socket.socket]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The generator's wire, and the far end of it."""
    near, far = socket.socketpair()
    near.setblocking(False)

    def made(load: Load) -> tuple[Wire, socket.socket]:
        kind = RedisWire if load.speaks == "redis" else Wire
        return kind(near, near, outgoing(load), returning(load), load), far

    with near, far:
        yield made


def test_an_echo_counts_when_a_line_is_whole(ends: Ends) -> None:
    wire, far = ends(Load())
    wire.send()
    sent = far.recv(1 << 20)

    far.sendall(sent[:150])
    wire.receive()
    assert wire.events_returned == 1
    far.sendall(sent[150:200])
    wire.receive()
    assert wire.events_returned == 2


@pytest.mark.parametrize(
    "answer",
    [LINES[100:200], LINES[:99] + b" ", b"\n", b""],
    ids=["a line left out", "a byte changed", "no line", "closed"],
)
def test_anything_else_ends_the_run(ends: Ends, answer: bytes) -> None:
    wire, far = ends(Load())
    far.sendall(answer)
    far.close()

    with pytest.raises(SystemExit):
        wire.receive()


def test_what_a_pipeline_adds_must_be_there(ends: Ends) -> None:
    wire, far = ends(Load(added=',"seen":true'))
    far.sendall(LINES[:98] + b',"seen":true}\n')
    wire.receive()
    assert wire.events_returned == 1

    far.sendall(LINES[100:200])
    with pytest.raises(SystemExit, match="behind event 1 is wrong"):
        wire.receive()


def test_redis_answers_with_an_id_a_line(ends: Ends) -> None:
    wire, far = ends(Load(speaks="redis"))
    wire.send_rest_of_line()
    assert far.recv(1 << 20) == b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nl\r\n$99\r\n" + LINES[:99] + b"\r\n"

    far.sendall(b"$15\r\n1763779000000-0\r\n$15\r\n17637")
    wire.receive()
    assert wire.events_returned == 1
    far.sendall(b"-MISCONF errors writing to the AOF file\r\n")
    with pytest.raises(SystemExit, match="MISCONF"):
        wire.receive()


def test_one_write_is_as_many_lines_as_it_should_be(ends: Ends) -> None:
    wire, far = ends(Load(lines_per_write=10, window=1000))
    wire.send()

    assert far.recv(1 << 20) == LINES[:1000]
    assert not wire.may_send()  # before all ten have come back
    far.sendall(LINES[:900])
    wire.receive()
    assert not wire.may_send()
    far.sendall(LINES[900:1000])
    wire.receive()
    assert wire.may_send()


@pytest.mark.parametrize("size", [100, 1000, 5000])
def test_lines_have_their_size_and_differ(size: int) -> None:
    lines = made_lines(size).splitlines(keepends=True)

    assert {len(line) for line in lines} == {size}
    assert len(set(lines)) == len(lines)


def test_a_file_that_lacks_a_line_is_a_wrong_result(tmp_path: Path) -> None:
    (tmp_path / "server_out.log").write_bytes(LINES[:300])

    Walflow("a flow", SERVER, file=True).verify(tmp_path, 3)
    with pytest.raises(WrongResult, match="4 lines were sent, 3 are in the file"):
        Walflow("a flow", PLAIN, file=True).verify(tmp_path, 4)
