"""Every mistake in `mistakes/` with the very text that a person reads, in NAME.out beside the file."""

import os
from pathlib import Path

import pytest

from walflow.assemble import load
from walflow.diagnostics import render_all

MISTAKES = Path(__file__).parent / "mistakes"


def said(*files: str | Path) -> str:
    assembly, diagnostics = load(files)
    assert assembly is None
    return render_all(diagnostics) + "\n"


@pytest.mark.parametrize("name", sorted(file.name for file in MISTAKES.iterdir() if file.suffix != ".out"))
def test_what_is_said_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MISTAKES)
    assert said(name) == (MISTAKES / name).with_suffix(".out").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["[" * 10_000, "{a: " * 10_000, "- " * 10_000, "a: " + "9" * 100_000])
def test_what_is_deep_or_long_is_a_diagnostic(text: str, tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text(text)
    assert len(said(tmp_path / "deep.yaml").splitlines()) < 10
    assert os.listdir(tmp_path) == ["deep.yaml"]
