"""The bench cannot be fooled by a system that loses, changes or invents bytes. No test looks at a speed."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cases import Case
from bench.load import Load, Result, Wire, made_lines
from bench.report import figures, ratios
from bench.rsyslog import RsyslogDisk
from bench.systems import Walflow, WrongResult

LOAD = Load(size=100)
LINES = made_lines(100)


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    """The generator's wire, and the far end of it."""
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield Wire(near, near, LINES, LOAD), far


def test_an_echo_counts(ends: tuple[Wire, socket.socket]) -> None:
    wire, far = ends
    wire.send()
    far.sendall(far.recv(1 << 20)[:150])
    wire.receive()

    assert wire.returned == 150


@pytest.mark.parametrize(
    "answer",
    [LINES[100:200], LINES[:99] + b" ", b"\n", b""],
    ids=["a line left out", "a byte changed", "no line", "closed"],
)
def test_anything_else_ends_the_run(ends: tuple[Wire, socket.socket], answer: bytes) -> None:
    wire, far = ends
    far.sendall(answer)
    far.close()

    with pytest.raises(SystemExit):
        wire.receive()


@pytest.mark.parametrize("size", [100, 1000, 5000])
def test_lines_have_their_size_and_differ(size: int) -> None:
    lines = made_lines(size).splitlines(keepends=True)

    assert {len(line) for line in lines} == {size}
    assert len(set(lines)) == len(lines)


def test_a_file_that_lacks_a_line_is_a_wrong_result(tmp_path: Path) -> None:
    (tmp_path / "server_out.log").write_bytes(LINES[:300])

    Walflow("a flow", "server.troy").verify(tmp_path, 3)
    with pytest.raises(WrongResult, match="4 lines were sent, 3 are in the file"):
        Walflow("a flow", "server.troy").verify(tmp_path, 4)


def test_what_is_absent_has_a_row_all_the_same() -> None:
    cases = [
        Case(Walflow("with", "server.troy")),
        Case(Walflow("without", "plain.troy"), baseline="without"),
        Case(RsyslogDisk()),
    ]
    results = [Result(10, 10, speed, 1.0, 50.0, 0.1) for speed in (1e6, 2e6)]
    rounds = {"with": results, "without": results[::-1]}

    table = figures(cases, rounds, {cases[2].name: "not here"})

    assert list(table.columns[1].cells) == ["1,500,000", "1,500,000", "absent"]
    assert list(ratios(cases, rounds).columns[1].cells) == ["1.25 (0.5-2)", "1"]
