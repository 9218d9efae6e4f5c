"""Stack traces as events: the how-to's own example, and kill -9 while a program writes them."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, running
from tests.system.test_follow_once import FLOW
from tests.waiting import wait_until

HOWTO = (ROOT / "docs" / "howto" / "follow-log-files.md").read_text()
SOURCE = 'codec = "json", preprocessors = ["separate"], config = {"path": "in/*.log"'


def flow(workdir: Path, preprocessors: str) -> Path:
    assert SOURCE in FLOW
    file = workdir / "follow.troy"
    file.write_text(FLOW.replace(SOURCE, f'codec = "string", {preprocessors}, config = {{"path": "in/*.log"'))
    (workdir / "in").mkdir()
    return file


def events(out: Path) -> list[str]:
    whole = out.read_bytes().rpartition(b"\n")[0] if out.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def number_is(out: Path, count: int) -> bool:
    return len(events(out)) >= count


def test_the_how_to_s_stack_trace(tmp_path: Path) -> None:
    section = HOWTO.partition("## Events of several lines")[2].partition("\n## ")[0]
    [preprocessors] = re.findall(r"preprocessors = \[.*\](?=,\n)", section)
    [text] = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    out = tmp_path / "out.log"
    with running(flow(tmp_path, preprocessors), tmp_path) as daemon:
        (tmp_path / "in" / "app.log").write_text(text)
        wait_until(partial(number_is, out, 3), "events are missing")
        assert daemon.terminate() == 0
    found = events(out)
    assert [event.count("\n") + 1 for event in found] == [1, 7, 1]
    assert "".join(event + "\n" for event in found) == text


@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.nightly)])
def test_killed_while_traces_are_written_no_line_is_missing_and_none_comes_twice(tmp_path: Path, kills: int) -> None:
    preprocessors = 'preprocessors = [{"name": "multiline", "config": {"indent": true, "timeout": 50000000}}]'
    file, log, out = flow(tmp_path, preprocessors), tmp_path / "in" / "app.log", tmp_path / "out.log"
    written = 0

    def write(lines: int) -> None:
        nonlocal written
        with log.open("ab") as to:
            for _ in range(lines):
                to.write(b"%s%d\n" % (b"\t" if written % 4 else b"ERROR ", written))
                written += 1

    for life in range(kills):
        write(302)  # the last event has not ended: it is one for lack of more lines
        with running(file, tmp_path):  # killed at its end
            wait_until(partial(has_line, out, written - 1), "the last lines are missing")
            write(1 + life % 3)
    write(1)
    with running(file, tmp_path) as daemon:
        wait_until(partial(has_line, out, written - 1), "the last lines are missing")
        assert daemon.terminate() == 0
    assert "".join(event + "\n" for event in events(out)) == log.read_text()


def has_line(out: Path, number: int) -> bool:
    found = events(out)
    return bool(found) and found[-1].endswith((f"ERROR {number}", f"\t{number}"))
