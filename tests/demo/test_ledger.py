"""The demo's verdict can be "guilty": every kind of damage to the file or to the echoes is found and counted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.client import Client
from demo.ledger import LONG, Account, Connection, Faults, Ledger, audit
from demo.lines import Lines
from demo.spark import Windows, added_up

LINES = Lines(seed=1)


def made(client: int, ids: range, connection: int = 0) -> list[bytes]:
    return [LINES.make(client, id, connection) for id in ids]


def judged(tmp_path: Path, *file: bytes, accounts: list[Account] | None = None) -> Ledger:
    path = tmp_path / "out.log"
    path.write_bytes(b"".join(file))
    return audit(path, LINES, accounts or [Account(0, [Connection(0, 100)], echoed=100)], lambda count: None)


def test_a_perfect_file_has_no_faults(tmp_path: Path) -> None:
    ledger = judged(tmp_path, *made(0, range(100)))

    long = sum(len(json.loads(line)["text"]) >= LONG for line in made(0, range(100)))
    assert long == 6
    assert ledger == Ledger(sent=100, sent_again=0, echoed=100, in_file=100, distinct=100, long=long, faults=Faults())
    assert not ledger.faults


Damage = Callable[[list[bytes]], list[bytes]]


@pytest.mark.parametrize(
    ("damage", "faults"),
    [
        (lambda file: file[:40] + file[41:], Faults(missing=1)),
        (lambda file: file[:-1], Faults(missing=1)),
        (lambda file: [], Faults(missing=100)),
        (lambda file: [*file, file[40]], Faults(duplicated=1)),
        (lambda file: [*file[:41], file[40], *file[41:]], Faults(duplicated=1)),
        (lambda file: [*file, *file], Faults(duplicated=100)),
        (lambda file: [*file[:40], file[41], file[40], *file[42:]], Faults(disordered=1)),
        (
            lambda file: [*file[:40], file[40].replace(b'"big":4', b'"big":5'), *file[41:]],
            Faults(missing=1, altered=1),
        ),
        (
            lambda file: [*file[:40], file[40].replace(b"0000001,", b"0000000,"), *file[41:]],
            Faults(missing=1, altered=1),
        ),
        (lambda file: [*file[:40], file[40][:20], *file[41:]], Faults(missing=2, altered=1)),
        (lambda file: [*file[:99], file[99][:-1]], Faults(missing=1, altered=1)),
        (lambda file: [*file, b"\n"], Faults(altered=1)),
        (lambda file: [*file, LINES.make(0, 100, 0)], Faults(altered=1)),
        (lambda file: [*file, LINES.make(0, 50, 1)], Faults(altered=1)),
        (lambda file: [*file, LINES.make(7, 50, 0)], Faults(altered=1)),
    ],
    ids=[
        "a line left out",
        "the last line left out",
        "an empty file",
        "a line again at the end",
        "a line twice",
        "all lines twice",
        "two lines swapped",
        "a digit changed",
        "an integer rounded",
        "torn, and the next line behind it",
        "the last newline missing",
        "an empty line",
        "a line that was never sent",
        "a connection there never was",
        "a client there never was",
    ],
)
def test_damage_to_the_file_is_counted(tmp_path: Path, damage: Damage, faults: Faults) -> None:
    ledger = judged(tmp_path, *damage(made(0, range(100))))

    assert ledger.faults == faults
    assert ledger.faults


def test_lines_sent_again_are_the_clients_own(tmp_path: Path) -> None:
    account = Account(0, [Connection(0, 60), Connection(50, 100)], echoed=100)

    ledger = judged(tmp_path, *made(0, range(60)), *made(0, range(50, 100), connection=1), accounts=[account])

    assert not ledger.faults
    assert (ledger.sent, ledger.sent_again, ledger.in_file, ledger.distinct, ledger.repeated) == (
        100,
        10,
        110,
        100,
        10,
    )


def test_a_line_that_was_not_echoed_may_be_missing(tmp_path: Path) -> None:
    account = Account(0, [Connection(0, 100)], echoed=90)

    assert not judged(tmp_path, *made(0, range(90)), accounts=[account]).faults
    assert not judged(tmp_path, *made(0, range(95)), accounts=[account]).faults


def test_what_comes_back_is_held_against_what_was_sent() -> None:
    client = Client(3, LINES)
    client.account.connections.append(Connection(0, 2))
    client.outstanding.extend(made(3, range(2)))

    client.echoed(LINES.make(3, 0, 0))
    client.echoed(LINES.make(3, 0, 0))
    client.echoed(LINES.make(4, 1, 0))
    client.echoed(LINES.make(3, 1, 0)[:-5] + b"\n")

    assert client.account.echoed == 1
    assert (len(client.account.unasked), len(client.account.foreign), len(client.account.altered)) == (1, 1, 1)


def test_bad_echoes_are_faults(tmp_path: Path) -> None:
    account = Account(0, [Connection(0, 1)], echoed=1, altered=[b"?"], foreign=[b"?"] * 2, unasked=[b"?"] * 3)

    ledger = judged(tmp_path, *made(0, range(1)), accounts=[account])

    assert ledger.faults == Faults(altered_echoes=1, foreign_echoes=2, unasked_echoes=3)


def test_a_run_of_skipped_lines_that_come_late_is_disorder(tmp_path: Path) -> None:
    file = made(0, range(100))

    assert judged(tmp_path, *file[:20], *file[30:], *file[20:30]).faults == Faults(disordered=10)


def window(client: int, first: int, last: int, lines: int | None = None) -> dict[str, int]:
    return {"client": client, "connection": 0, "lines": lines or last + 1 - first, "first": first, "last": last}


def test_windows_of_spark_are_held_against_the_ledger() -> None:
    ledger = Ledger(sent=25, sent_again=5, echoed=25, in_file=30, distinct=25, long=3, faults=Faults())
    long = {"client": 0, "connection": 0, "long": 3}
    rows = [window(0, 0, 9), window(0, 10, 14), window(0, 10, 19), window(1, 0, 4), long]

    assert added_up(rows) == Windows(number=5, lines=30, distinct=25, long=3)
    assert added_up(rows).agree(ledger)
    assert not added_up(rows[:-1]).agree(ledger), "no long line was counted"
    assert not added_up(rows[1:]).agree(ledger), "a window is missing"
    assert not added_up([*rows, rows[0]]).agree(ledger), "a window came twice"
    assert not added_up([*rows[:3], window(1, 0, 5, 5), long]).agree(ledger), "another line came in the place of one"
