"""`walflow fmt`: files, directories, stdin, and what it leaves alone."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from walflow.cli import app

UGLY = "define flow a\nflow\ncreate   connector x;\nend;\n"
NEAT = "define flow a\nflow\n  create connector x;\nend;\n"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fmt(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app(), ["fmt", *arguments], input=stdin)


def test_a_file_is_written_and_keeps_its_mode() -> None:
    file = Path("a.troy")
    file.write_text(UGLY)
    file.chmod(0o640)
    assert fmt("a.troy").exit_code == 0
    assert file.read_text() == NEAT
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in Path().iterdir()] == ["a.troy"]


def test_a_directory() -> None:
    Path("d").mkdir()
    for name in ("a.troy", "b.trickle", "c.txt"):
        Path("d", name).write_text(UGLY if name != "b.trickle" else "select  event from in into out")
    assert fmt("d").exit_code == 0
    assert Path("d/a.troy").read_text() == NEAT
    assert Path("d/b.trickle").read_text() == "select event from in into out\n"
    assert Path("d/c.txt").read_text() == UGLY


def test_stdin() -> None:
    assert fmt("-", stdin=UGLY).stdout == NEAT
    assert fmt("-", stdin=NEAT).stdout == NEAT


def test_check_and_diff_write_nothing() -> None:
    Path("a.troy").write_text(UGLY)
    result = fmt("--check", "a.troy")
    assert (result.exit_code, result.stderr) == (1, "a.troy: `walflow fmt` changes its layout\n")
    result = fmt("--diff", "a.troy")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[3:] == [
        " define flow a",
        " flow",
        "-create   connector x;",
        "+  create connector x;",
        " end;",
    ]
    assert Path("a.troy").read_text() == UGLY
    Path("a.troy").write_text(NEAT)
    assert fmt("--check", "a.troy").exit_code == 0


def test_a_file_with_a_syntax_error_stays_as_it_is() -> None:
    Path("a.troy").write_text(UGLY.replace("end;", ""))
    result = fmt("a.troy")
    assert result.exit_code == 78
    assert "the flow `a` has no `end`" in result.stderr
    assert Path("a.troy").read_text() == UGLY.replace("end;", "")


@pytest.mark.test
def test_what_is_shipped_has_this_layout() -> None:
    assert fmt("--check", str(ROOT / "flows"), str(ROOT / "walflow" / "modules")).stderr == ""
