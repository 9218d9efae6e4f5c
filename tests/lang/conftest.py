from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a working directory of its own, and none of this user's modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WALFLOW_PATH", raising=False)
    monkeypatch.delenv("TREMOR_PATH", raising=False)
