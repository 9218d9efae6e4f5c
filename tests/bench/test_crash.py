"""The crash benchmark: its ledger tells lost from late and twice from once; and our own row."""

import asyncio
import time
from pathlib import Path
from typing import Literal

import pytest

from bench.crash.ends import HttpReceiver, RelpReceiver, relp
from bench.crash.events import event, numbers
from bench.crash.ledger import POISON, Ledger
from bench.crash.report import ComparedSystem, Results, load, page, store, table
from bench.crash.run import one
from bench.crash.systems import Walflow
from bench.report import between
from demo.server import ROOT, free_port


def test_an_event_is_known_within_a_line_of_syslog_and_an_altered_one_is_seen() -> None:
    line = b"<13>Jan  1 00:00:00 host bench: " + event(7) + b"\n" + event(8).replace(b"abc", b"abd")
    assert numbers(line) == [(7, True), (8, False)]
    assert numbers(event(9)[:-1]) == []


def test_the_ledger_tells_what_is_lost_twice_late_and_out_of_order() -> None:
    ledger = Ledger()
    ledger.sent.update([*range(6), 2])
    ledger.acked.update(range(5))
    ledger.began = ledger.healed = time.monotonic()
    ledger.came([(0, True), (3, True), (2, True), (2, True), (5, True), (5, False)])
    row = ledger.row("a system", "a fault", "")
    assert (row.acked, row.lost, row.twice, row.sent_twice, row.disordered, row.altered) == (5, 2, 2, 1, 1, 1)
    assert row.again_s is not None
    assert "| a system | 5 | 2 | 0 | 2 (1 of them sent twice) | 1 | 1 |" in table([row])


def test_an_event_that_is_refused_is_not_lost_and_the_row_says_what_became_of_it() -> None:
    ledger = Ledger()
    ledger.acked.update([POISON, POISON + 1])
    ledger.refuse(POISON)
    ledger.last_try -= 60
    assert (ledger.row("a", "b", "").lost, ledger.row("a", "b", "").held) == (1, 0)
    assert ledger.row("a", "b", "kept as a letter").refused == "tried once, kept as a letter"
    assert ledger.row("a", "b", "").refused == "tried once, then dropped"
    ledger.refuse(POISON)
    assert ledger.row("a", "b", "").refused == "tried 2 times, and on"
    assert (ledger.row("a", "b", "").lost, ledger.row("a", "b", "").held) == (0, 1), "it is not gone"


def test_repeats_show_the_worst() -> None:
    ledger = Ledger()
    ledger.began = time.monotonic()
    good, bad = ledger.row("a", "b", ""), ledger.row("a", "b", "")._replace(lost=3, again_s=None, still_s=9.0)
    assert "| 0 | 0-3 | 0 | 0 | 0 | 0 | 9.0 | never |" in table([good, bad])


@pytest.mark.parametrize(("acked", "again"), [([1], 0.0), ([1, 2], None)])
def test_what_came_before_the_fault_had_ended_need_not_come_after_it(acked: list[int], again: float | None) -> None:
    """It is "never" only where something is missing: slow kills may outlast the load."""
    ledger = Ledger()
    ledger.sent.update(acked)
    ledger.acked.update(acked)
    ledger.began = time.monotonic()
    ledger.came([(1, True)])
    ledger.healed = ledger.ended = time.monotonic() + 1
    assert ledger.row("a system", "a fault", "").again_s == again


def test_a_page_has_all_systems_and_says_what_is_left_out(tmp_path: Path) -> None:
    rows = [Ledger().row(name, "poison event", "") for name in ("one", "two")]
    left = ComparedSystem(
        "three", "3.0", "nothing", "https://x", "none", {"poison event": "it has no such thing"}, {}
    )
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for file, row in zip(files, rows, strict=True):
        store(file, Results("a machine", "a command", [left._replace(name=row.system, leaves_out={})], [row]))
    store(files[1], load(files[1])._replace(systems=[*load(files[1]).systems, left]))
    text = page(load(*files))
    assert "| poison event | 0 lost, 0 twice | 0 lost, 0 twice |  |" in text
    assert "three is left out: it has no such thing." in text
    assert "One event is refused, for ever." in text


def test_the_page_of_the_docs_is_made_of_the_results_that_are_kept() -> None:
    text = (ROOT / "docs/reference/crash.md").read_text()
    assert between(text, f"{page(load(ROOT / 'bench/crash/results.json'))}\n") == text


@pytest.mark.parametrize("kind", [HttpReceiver, RelpReceiver])
async def test_a_receiver_takes_is_busy_refuses_hangs_and_is_down(kind: type[HttpReceiver | RelpReceiver]) -> None:
    asked = asyncio.Event()

    class Watched(kind):  # type: ignore[misc, valid-type]
        async def judge(self, data: bytes) -> Literal["taken", "busy", "refused"]:
            asked.set()
            verdict: Literal["taken", "busy", "refused"] = await super().judge(data)
            return verdict

    receiver = Watched(Ledger(), free_port())
    await receiver.start()
    receiver.poison = True

    async def answer(number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        body = event(number)
        request = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        writer.write(request if kind is HttpReceiver else relp(1, "syslog", body))
        said = await reader.read(100)
        writer.close()
        return said

    assert b"200 OK" in await answer(1)
    assert b"refused" in await answer(POISON) or b"400" in await answer(POISON)
    await receiver.becomes("busy")
    assert b"500" in await answer(2)
    await receiver.becomes("hung")
    asked.clear()
    waiting = asyncio.ensure_future(answer(3))
    await asked.wait()
    assert not receiver.ledger.got[3], "it is not answered yet"
    await receiver.becomes("well")
    assert b"200 OK" in await waiting
    await receiver.becomes("down")
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await answer(4)
    assert set(receiver.ledger.got) == {1, 3}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "fault",
    ["kill -9, three times", "kill -9 while the receiver is away", "500 to everything for 5 s", "poison event"],
)
def test_our_own_row(fault: str) -> None:
    row = asyncio.run(one(Walflow(), fault))
    assert (row.sent, row.acked, row.lost, row.altered) == (12_000, 12_000, 0, 0)
    assert row.again_s is not None
    if fault == "poison event":
        assert row.refused.endswith("kept as a letter")
