"""`walflow replay`, and the connector `replay` beside a daemon that uses the log."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.builder import OUT, TCP, Pipeline, flow_of, lines_out, pipeline, plain
from tests.system.daemon import Client, running
from tests.waiting import wait_until

LOG = plain("wal", path="state", retain="24h")
OTHER = lines_out("file", path="other.log", mode="append")
SHOWN: Pipeline = pipeline('select {"n": event.n, "again": present $replay} from in into out;')
EVENTS = 50


def written(path: Path, name: str, text: str) -> Path:
    file = path / name
    file.write_text(text)
    return file


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """Its daemon has delivered so many events, and has ended."""
    text = flow_of("tcp -> log -> shown -> out", "log -> other", tcp=TCP, log=LOG, shown=SHOWN, out=OUT, other=OTHER)
    file = written(tmp_path, "main.troy", text)
    with running(file, tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b"".join(b'{"n":%d}\n' % number for number in range(1, EVENTS + 1)))
        wait_until(lambda: len(lines(tmp_path, "out.log")) == len(lines(tmp_path, "other.log")) == EVENTS)
        client.close()
        assert daemon.terminate() == 0
    return file


def lines(path: Path, name: str) -> list[dict[str, object]]:
    file = path / name
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


def replay(path: Path, *options: str, answer: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walflow", "replay", "state", "main.troy", *options]
    return subprocess.run(
        command,
        cwd=path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        input=answer,
        env={"PATH": "/bin"},
    )


def test_a_part_of_a_log_goes_into_one_sink_again(tmp_path: Path, flow: Path) -> None:
    done = replay(tmp_path, "--into", "out", "--from", "11", "--to", "20", "--yes")
    assert done.stdout == (
        "10 events, positions 11 to 20 of state, go through main::shown to out\n"
        "10 events were sent, and have their outcome\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(tmp_path, "out.log")[EVENTS:] == [{"n": n, "again": True} for n in range(11, 21)]
    assert len(lines(tmp_path, "other.log")) == EVENTS, "no other sink gets any"
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("ready")
        assert daemon.last("log open")["replays"] == 0, "the log is as it was"
        assert daemon.terminate() == 0


def test_it_asks_first(tmp_path: Path, flow: Path) -> None:
    for options, answer in ((["--dry-run"], None), ([], "n\n"), ([], "")):
        done = replay(tmp_path, "--into", "out", *options, answer=answer)
        assert done.stdout.startswith("50 events, positions 1 to 50 of state, go")
        assert "nothing was changed" in done.stdout
        assert done.returncode == 0
    assert len(lines(tmp_path, "out.log")) == EVENTS
    assert replay(tmp_path, "--into", "out", answer="y\n").returncode == 0
    assert len(lines(tmp_path, "out.log")) == 2 * EVENTS


def test_what_is_wrong_is_one_line_and_a_code(tmp_path: Path, flow: Path) -> None:
    for options, code, line in (
        (["--into", "away"], 78, "walflow: no sink is named away: there is main::tcp, main::out, main::other\n"),
        (
            ["--into", "out", "--from", "51"],
            1,
            "walflow: no event of state is within these bounds; it has positions 1 to 50\n",
        ),
        (["--into", "out", "--speed", "0"], 2, "walflow: --speed 0: a number above 0\n"),
        (["--into", "out", "--workdir", "nowhere"], 2, "walflow: --workdir nowhere: No such file or directory\n"),
    ):
        done = replay(tmp_path, *options, "--yes")
        assert (done.returncode, done.stderr) == (code, line), done
    assert "is not a position" in replay(tmp_path, "--into", "out", "--from", "soon").stderr
    flow.write_text(flow.read_text() + "deploy")
    assert replay(tmp_path, "--into", "out", "--yes").returncode == 78


def test_what_a_sink_rejects_is_counted_and_the_code_says_so(tmp_path: Path, flow: Path) -> None:
    flow.write_text(flow.read_text().replace('"n": event.n', '"n": 10 / (event.n - 7)'))
    done = replay(tmp_path, "--into", "out", "--yes")
    assert done.stdout.endswith("50 events were sent, and have their outcome, 1 were rejected\n")
    assert done.returncode == 1
    assert len(lines(tmp_path, "out.log")) == 2 * EVENTS - 1


def test_a_replay_follows_the_log_of_a_daemon_beside_it(tmp_path: Path) -> None:
    main = written(tmp_path, "main.troy", flow_of("tcp -> log -> out", tcp=TCP, log=LOG, out=OUT))
    again = lines_out("file", path="again.log", mode="append")
    second = plain("replay", path="state", follow=True)
    other = written(tmp_path, "again.troy", flow_of("old -> shown -> again", old=second, shown=SHOWN, again=again))
    with running(main, tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'{"n":1}\n')
        wait_until(lambda: len(lines(tmp_path, "out.log")) == 1)
        with running(other, tmp_path) as beside:
            wait_until(lambda: len(lines(tmp_path, "again.log")) == 1)
            client.send(b'{"n":2}\n{"n":3}\n')
            wait_until(lambda: len(lines(tmp_path, "again.log")) == 3)
            assert beside.terminate() == 0
        client.close()
        assert daemon.terminate() == 0
    assert lines(tmp_path, "again.log") == [{"n": n, "again": True} for n in (1, 2, 3)]
