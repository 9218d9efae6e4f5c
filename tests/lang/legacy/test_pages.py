"""The files of tremor's two pages, as printed and mended, run by real processes with real listeners."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, WALFLOW, Daemon, contents, free_port
from tests.system.listener import Listener
from tests.system.warm import ran
from tests.waiting import PATIENCE, wait_until

PAGES = ROOT / "flows" / "legacy"
PRINTED = Path(__file__).parent / "printed"
CONFIG = Path("etc", "tremor", "config")

Event = dict[str, object]


@pytest.mark.parametrize(("page", "code"), [("persistent", 0), ("roundrobin", 78)])
def test_what_check_says_of_the_page_as_printed(page: str, code: int) -> None:
    checked = ran(
        [*WALFLOW, "check", *(str(CONFIG / file.name) for file in files(PAGES / page / "printed"))],
        cwd=PAGES / page / "printed",
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert checked.stdout.startswith((PRINTED / f"{page}.out").read_text(encoding="utf-8"))
    assert (checked.returncode, checked.stderr) == (code, "")


def files(folder: Path) -> list[Path]:
    return sorted((folder / CONFIG).iterdir())


def copied(folder: Path, to: Path, interval: int, ports: Sequence[int]) -> Path:
    """On ports of its own, and faster."""
    (to / CONFIG).mkdir(parents=True)
    for file in files(folder):
        text = file.read_text(encoding="utf-8").replace("interval: 1000", f"interval: {interval}")
        for number, port in enumerate(ports):
            text = text.replace(f"ws://localhost:{8080 + number}/", f"ws://127.0.0.1:{port}/")
        (to / CONFIG / file.name).write_text(text, encoding="utf-8")
    return to


@contextmanager
def run(folder: Path) -> Iterator[Daemon]:
    *others, last = files(folder)
    daemon = Daemon(last, folder, command=[*WALFLOW, "run", *(str(file) for file in others)])
    try:
        yield daemon
    finally:
        daemon.close()


def events(file: Path) -> list[Event]:
    """What the listener wrote down whole."""
    lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else [""]
    return [json.loads(line) for line in lines[:-1]]


def stored(folder: Path) -> int:
    return sum(content.count(b'"onramp"') for content in contents(folder))


@contextmanager
def listening(port: int, file: Path) -> Iterator[Listener]:
    listener = Listener(port, file)
    try:
        yield listener
    finally:
        listener.kill()


def test_the_page_as_printed_runs_in_memory(tmp_path: Path) -> None:
    port, heard = free_port(), tmp_path / "heard"
    folder = copied(PAGES / "persistent" / "printed", tmp_path / "flow", 10, [port])
    with listening(port, heard), run(folder) as daemon:
        wait_until(lambda: len(events(heard)) >= 5)
        assert daemon.terminate() == 0
    first = events(heard)[0]
    assert list(first) == ["onramp", "id", "ingest_ns", "hostname"]
    assert (first["onramp"], first["id"]) == ("metronome", 0)
    assert abs(int(str(first["ingest_ns"])) - time.time_ns()) < 60e9
    assert [path.name for path in folder.iterdir()] == ["etc"]  # nothing was stored


def test_the_persistent_page_mended_loses_nothing_when_both_die(tmp_path: Path) -> None:
    port, heard = free_port(), tmp_path / "heard"
    folder = copied(PAGES / "persistent", tmp_path / "flow", 10, [port])
    with run(folder) as daemon:
        with listening(port, heard):
            wait_until(lambda: len(events(heard)) >= 20)
        behind = int(str(events(heard)[-1]["id"])) + 1
        before = stored(folder / "store")
        wait_until(lambda: stored(folder / "store") >= before + 10)  # with nobody to hear it
        daemon.kill()
    seen = len(events(heard))
    with listening(port, heard), run(folder) as daemon:
        wait_until(lambda: any(event["id"] == 5 for event in events(heard)[seen + 5 :]))
        wait_until(lambda: runs(heard)[-1][-1] >= 5 and len(runs(heard)) == 2)
        assert daemon.terminate() == 0
    first, second = runs(heard)
    missing = sorted(set(range(first[-1])) - set(first))
    # acked is what the kernel of the listener has, and it may have had some when the listener was killed
    assert missing == list(range(behind, behind + len(missing)))
    assert len(missing) < 20
    assert len(first) >= 20 + 10
    assert second == list(range(len(second)))


def runs(heard: Path) -> list[list[int]]:
    """The ids of each run of the metronome, each once, in the order they were made."""
    made = sorted({(int(str(event["ingest_ns"])), int(str(event["id"]))) for event in events(heard)})
    found: list[list[int]] = []
    for _, number in made:
        if number == 0:
            found.append([])
        found[-1].append(number)
    return found


def shares(heard: Sequence[Path]) -> list[int]:
    """Of the events from where all listeners have heard one, up to where all have heard theirs."""
    ids = [[int(str(event["id"])) for event in events(file)] for file in heard]
    if not all(ids):
        return [0] * len(ids)
    first, last = max(map(min, ids)), min(map(max, ids))
    return [sum(first <= number <= last for number in of_one) for of_one in ids]


def test_the_round_robin_mended_goes_on_with_those_that_are_left(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    heard = [tmp_path / f"heard{number}" for number in range(3)]
    folder = copied(PAGES / "roundrobin", tmp_path / "flow", 5, ports)

    def more(of: Sequence[Path], count: int) -> None:
        goals = [(file, len(events(file)) + count) for file in of]
        wait_until(lambda: all(len(events(file)) >= goal for file, goal in goals))

    with run(folder) as daemon, listening(ports[0], heard[0]), listening(ports[1], heard[1]):
        with listening(ports[2], heard[2]):
            wait_until(lambda: min(shares(heard)) >= 20, "each of three gets its share")
            counts = shares(heard)
        alone = len(events(heard[2]))
        more(heard[:2], 40)
        assert len(events(heard[2])) == alone
        with listening(ports[2], heard[2]):
            more(heard, 20)
            assert daemon.terminate() == 0
    assert max(counts) - min(counts) <= 20
    times = Counter(event["id"] for file in heard for event in events(file))
    missing = set(range(max(int(str(number)) for number in times))) - {int(str(number)) for number in times}
    # acked is what the kernel of a listener has, and it may have had some when the listener was killed
    assert len(missing) < 20
    repeated = {number for number, count in times.items() if count > 1}
    last = [event["id"] for event in events(heard[2])[:alone]][-len(repeated) :] if repeated else []
    assert repeated == set(last)  # in flight at the kill
