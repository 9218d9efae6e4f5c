from pathlib import Path

import pytest

from bench.filter import main


def test_a_small_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    main(100, 1)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("100 events of ")
    assert [line.split()[0] for line in printed[1:]] == ["nothing", "select", "add", "start"]
