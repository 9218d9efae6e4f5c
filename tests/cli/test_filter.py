"""`walflow run` of a script or a pipeline: files, ports, exit codes, and how it ends in a row of commands."""

import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from typer.testing import CliRunner, Result

from walflow.cli import app

SCRIPT = """\
match event.kind of
  case "drop" => drop
  case "hot" => emit => "hot"
  default => event.n
end
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("s.tremor").write_text(SCRIPT)
    Path("in.json").write_text('{"kind":"a","n":1}\n{"kind":"drop"}\n{"kind":"hot"}\n')
    before = {one: signal.getsignal(one) for one in (signal.SIGPIPE, signal.SIGINT)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app(), ["run", *arguments])


def test_from_a_file_to_a_file() -> None:
    result = run("s.tremor", "-i", "in.json", "-o", "out.json")
    assert result.exit_code == 0
    assert Path("out.json").read_text() == "1\n"
    assert result.stderr == "walflow: 1 event left by `hot` and was not written: `--port hot`\n"


def test_several_ports() -> None:
    result = run("s.tremor", "-i", "in.json", "-o", "out.json", "-p", "out", "-p", "hot")
    assert (result.exit_code, result.stderr) == (0, "")
    assert Path("out.json").read_text() == '1\n{"kind":"hot"}\n'


def test_a_rejected_event_is_exit_code_1() -> None:
    Path("in.json").write_text('{"kind":"a","n":1}\n{}\n{"kind":"b","n":2}\n')
    result = run("s.tremor", "-i", "in.json", "-o", "out.json")
    assert result.exit_code == 1
    assert Path("out.json").read_text() == "1\n2\n"
    assert result.stderr.splitlines()[0] == "s.tremor:1:7: error: `event.kind`: a record without `kind`"


def test_a_script_with_a_mistake_leaves_the_output_alone() -> None:
    Path("s.tremor").write_text("event.")
    Path("out.json").write_text("kept")
    result = run("s.tremor", "-i", "in.json", "-o", "out.json")
    assert result.exit_code == 78
    assert result.stderr.startswith("s.tremor:1:7: error: ")
    assert Path("out.json").read_text() == "kept"


def test_a_pipeline_and_its_args() -> None:
    Path("p.trickle").write_text("select event.n + args.by from in where present event.n into out;")
    assert run("p.trickle", "-i", "in.json", "-o", "out.json", "--set", "by=10").exit_code == 0
    assert Path("out.json").read_text() == "11\n"
    Path("p.trickle").write_text('select "#{args.by}" from in into out;')
    run("p.trickle", "-i", "in.json", "-o", "out.json", "--set", "by=ten")
    assert Path("out.json").read_text() == '"ten"\n' * 3


FLOW = """
define flow main
flow
  define pipeline one pipeline select 1 from in into out; end;
  define pipeline two pipeline select 2 from in into out; end;
end;
deploy flow main;
"""


def test_a_pipeline_of_a_flow_file() -> None:
    Path("f.troy").write_text(FLOW)
    assert run("f.troy", "--pipeline", "two", "-i", "in.json", "-o", "out.json").exit_code == 0
    assert Path("out.json").read_text() == "2\n" * 3
    assert run("f.troy", "--pipeline", "main::one", "-i", "in.json", "-o", "out.json").exit_code == 0
    assert Path("out.json").read_text() == "1\n" * 3


REFUSED = [
    (("s.tremor", "s.tremor"), 2, "one script or pipeline at a time"),
    (("s.tremor", "in.json"), 2, ("s.tremor is a script, and has a command of its own: "
"walflow run s.tremor -i INPUT -o OUTPUT")),
    (("gone.tremor",), 66, "cannot read gone.tremor: no such file or directory"),
    (("s.tremor", "-i", "gone"), 66, "--input gone: No such file or directory"),
    (("s.tremor", "-i", "."), 66, "--input .: is a directory"),
    (("s.tremor", "-i", "in.json", "-o", "gone/out"), 73, "--output gone/out: No such file or directory"),
    (("s.tremor", "-i", "in.json", "-o", "in.json"), 2, "--output in.json: this is the input too"),
    (("s.tremor", "-i", "in.json", "-p", "hott"), 2, "--port hott: no such output; did you mean `hot`?"),
    (("s.tremor", "-i", "in.json", "-d", "xml"), 2, "Unknown codec xml"),
    (("s.tremor", "-i", "in.json", "--preprocessor", "{"), 2, "{: write a name, or"),
    (("s.tremor", "-i", "in.json", "--set", "x"), 2, "--set x: write `--set name=value`"),
    (("s.tremor", "-i", "in.json", "-o", "/dev/full", "-p", "hot"), 74,
     "cannot write /dev/full: No space left on device"),
    (("f.troy", "-i", "in.json"), 78, "f.troy defines 2 pipelines"),
    (("f.troy", "-i", "in.json", "--pipeline", "three"), 78, "f.troy defines no pipeline `three`"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "said"), REFUSED)
def test_what_is_refused(arguments: tuple[str, ...], code: int, said: str) -> None:
    Path("f.troy").write_text(FLOW)
    result = run(*arguments)
    assert said in result.stderr
    assert result.exit_code == code
    assert Path("in.json").read_text().startswith('{"kind":"a"')


COMMAND = [sys.executable, "-m", "walflow", "run", "s.tremor"]


@contextmanager
def running() -> Generator[tuple["subprocess.Popen[bytes]", IO[bytes], IO[bytes]]]:
    """With its stdin and its stdout, when it has had a line and has written what it makes of it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"kind":"a","n":1}\n')
        assert process.stdout.readline() == b"1\n"
        yield process, process.stdin, process.stdout


def test_a_reader_that_goes_away_ends_it_in_silence() -> None:
    with running() as (process, stdin, stdout):
        stdout.close()
        stdin.write(b'{"kind":"a","n":2}\n')
        assert process.wait(60) == -signal.SIGPIPE
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_ctrl_c_ends_it_in_silence() -> None:
    with running() as (process, _, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
        assert process.stderr is not None
        assert process.stderr.read() == b""
