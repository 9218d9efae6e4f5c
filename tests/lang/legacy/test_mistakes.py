"""Every mistake in `mistakes/` with the very text that a person reads, in NAME.out beside the file."""

import os
from pathlib import Path

import pytest

from walflow.diagnostics import render_all
from walflow.plan import load

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
@pytest.mark.test
def test_what_is_deep_or_long_is_a_diagnostic(text: str, tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text(text)
    assert len(said(tmp_path / "deep.yaml").splitlines()) < 10
    assert os.listdir(tmp_path) == ["deep.yaml"]


TWO_INSTANCES = """\
onramp:
  - {id: ticks, type: metronome, config: {interval: 1000}}
offramp:
  - {id: out, type: file, config: {file: out.json}}
binding:
  - id: default
    links:
      "/onramp/ticks/{instance}/out": ["/pipeline/system::passthrough/{instance}/in"]
      "/pipeline/system::passthrough/{instance}/out": ["/offramp/out/OUT/in"]
mapping:
  /binding/default/01: {instance: "01"}
  /binding/default/02: {instance: "02"}
"""


def test_what_two_instances_cannot_share_and_how_they_share_it(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO_INSTANCES.replace("OUT", "{instance}"))
    told = said(file)
    assert f"have the same file to write `{Path.cwd() / 'out.json'}`" in told
    assert "let all link one, with a fixed name in the place of `{instance}`" in told
    file.write_text(TWO_INSTANCES.replace("OUT", "all"))
    assembly, diagnostics = load([file])
    assert assembly is not None, render_all(diagnostics)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(16 * 1024 * 1024 + 1)
    assert said(file) == f"error: cannot read {file}: it is larger than 16 MiB\n"
