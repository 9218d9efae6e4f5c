"""`walflow new`: what it makes runs as it is, and a stranger's connector needs nothing but walflow."""

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.connectors.kafka_world import cluster, put
from tests.system.daemon import ROOT, Client, Daemon, free_port, running
from tests.waiting import wait_until
from walflow.cli import app
from walflow.cli.new import ACCESS, TEMPLATES
from walflow.diagnostics import render_all
from walflow.plan import load

TEMPLATE = ROOT / "walflow" / "cli" / "new" / "templates"


def new(*arguments: object) -> Result:
    return CliRunner().invoke(app(), ["new", *map(str, arguments)])


@pytest.mark.parametrize("template", sorted(name for name, made in TEMPLATES.items() if not made.stands_for))
def test_what_it_makes_is_without_mistakes(template: str, tmp_path: Path) -> None:
    result = new(tmp_path / "deep" / "mine", "-t", template)
    assert result.exit_code == 0, result.output
    assembly, diagnostics = load([tmp_path / "deep" / "mine" / "main.troy"])
    assert assembly is not None, render_all(diagnostics)


def test_there_is_a_folder_for_each_template() -> None:
    assert {path.name for path in TEMPLATE.iterdir() if path.name != "__pycache__"} == TEMPLATES.keys()


def test_an_echo_forwards_to_an_echo(tmp_path: Path) -> None:
    """Two of the templates, one talking to the other."""
    port = str(free_port())
    for name in ("echo", "forward"):
        assert new(tmp_path / name, "-t", name).exit_code == 0
        flow = tmp_path / name / "main.troy"
        flow.write_text(flow.read_text().replace("65535", port))
    with (
        running(tmp_path / "echo" / "main.troy", tmp_path / "echo") as server,
        running(tmp_path / "forward" / "main.troy", tmp_path / "forward") as client,
    ):
        server.wait_for("listening")
        client.wait_for("running")
        beside = Client(int(port))
        beside.send(b'{"n": 4}\n')
        assert beside.lines(1) == [b'{"n": 4}']
        beside.close()
        wait_until(lambda: _numbers(tmp_path / "echo" / "out.log") == [1, 2, 3, 4])
        assert client.terminate() == 0
        assert server.terminate() == 0


def _by_http(port: int, _: Path) -> None:
    for body, status in ((b'{"n": 1}', 200), (b"{", 400)):
        connection = HTTPConnection("127.0.0.1", port, timeout=100)
        connection.request("POST", "/", body)
        assert connection.getresponse().status == status
        connection.close()


def _into_a_file(_: int, folder: Path) -> None:
    (folder / "incoming" / "app.log").write_bytes(b"hello\n\xff\n")


def _by_syslog(port: int, _: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(b"<13>Nov 23 09:00:00 web-1 app: by UDP", ("127.0.0.1", port))
    beside = Client(port)
    beside.send(b"<13>1 2026-11-23T09:00:00Z web-1 app - - - by TCP\n\xff\n")
    beside.close()


@pytest.mark.parametrize(
    ("template", "send", "written", "dead"),
    [
        ("http", _by_http, {'{"n": 1}'}, None),
        ("follow", _into_a_file, {'{"file":"incoming/app.log","line":"hello"}'}, "/w=="),
        ("syslog", _by_syslog, {"by UDP", "by TCP"}, "/w=="),
    ],
)
def test_it_does_what_it_says(
    template: str, send: Callable[[int, Path], None], written: set[str], dead: str | None, tmp_path: Path
) -> None:
    """What comes is in the file, and what is no event is beside it with its bytes."""
    assert new(tmp_path, "-t", template).exit_code == 0
    port = free_port()
    options = () if template == "follow" else ("--set", f"listen=127.0.0.1:{port}")
    with running(tmp_path / "main.troy", tmp_path, *options) as daemon:
        daemon.wait_for("ready")
        send(port, tmp_path)
        wait_until(lambda: len(_lines(tmp_path / "out.jsonl")) == len(written))
        wait_until(lambda: dead is None or len(_lines(tmp_path / "dead.jsonl")) == 1)
        assert daemon.terminate() == 0
    lines = _lines(tmp_path / "out.jsonl")
    assert {json.loads(line)["msg"] if template == "syslog" else line for line in lines} == written
    assert [json.loads(line)["bytes"] for line in _lines(tmp_path / "dead.jsonl")] == ([dead] if dead else [])


def test_an_access_log_as_json(tmp_path: Path) -> None:
    made = new(tmp_path / "mine", "-t", "access-log")
    assert f"echo '{ACCESS}' >> incoming/access.log" in made.output
    folder = tmp_path / "mine"
    with running(folder / "main.troy", folder) as daemon:
        daemon.wait_for("ready")
        (folder / "incoming" / "access.log").write_text(f"{ACCESS}\nno access log\n")
        wait_until(lambda: len(_lines(folder / "out.jsonl")) == 1 and len(_lines(folder / "dead.jsonl")) == 1)
        assert daemon.terminate() == 0
    record = json.loads(_lines(folder / "out.jsonl")[0])
    assert (record["response"], record["verb"], record["agent"]) == (200, "GET", '"curl/8"')
    assert json.loads(_lines(folder / "dead.jsonl")[0]) == {"line": "no access log"}


def test_lines_to_kafka_and_back(tmp_path: Path) -> None:
    assert new(tmp_path, "-t", "kafka").exit_code == 0
    with cluster() as broker:
        put(broker, "events", b'{"n": 1}')  # there is the topic then
        port = free_port()
        options = ("--set", f"listen=127.0.0.1:{port}", "--set", f"broker={broker}")
        with running(tmp_path / "main.troy", tmp_path, *options) as daemon:
            daemon.wait_for("ready")
            client = Client(port)
            client.send(b'{"n": 2}\nrubbish\n{"n": 3}\n')
            wait_until(lambda: _numbers(tmp_path / "out.jsonl") == [1, 2, 3])
            client.close()
            assert daemon.terminate() == 0
    assert "rubbish" in _lines(tmp_path / "dead.jsonl")[0]


@pytest.mark.parametrize("template", ["echo", "spark", "kafka", "http", "follow", "syslog", "access-log"])
def test_its_last_words_send_something(template: str, tmp_path: Path) -> None:
    last = new(tmp_path / "mine", "-t", template).output.splitlines()[-1].split()[0]
    assert last in {"exec", "while", "curl", "echo", "logger"}


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["x", "-t", "nothing"],
            2,
            (
                "there is no template 'nothing': there are echo, forward, http, follow, syslog, access-log, "
                "kafka, spark, connector, operator, codec, framing"
            ),
        ),
        (["1x", "-t", "connector"], 2, "'1x' cannot be the name of a Python module: use small letters, digits and _"),
        *(
            (
                [name, "-t", "connector"],
                2,
                f"{name!r} is taken: choose a name that no module and no connector has",
            )
            for name in ("json", "walflow", "tcp_server")
        ),
        (["msgpack", "-t", "codec"], 2, "'msgpack' is taken: choose a name that no module and no codec has"),
        *(
            ([name, "-t", "framing"], 2, f"{name!r} is taken: choose a name that no module and no framing has")
            for name in ("base64", "separate")
        ),
        (["there"], 73, "there/main.troy exists already: nothing was written"),
        (["file/x"], 73, "file/x: Not a directory"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("there/main.troy").touch()
    Path("file").touch()
    result = new(*arguments)
    assert (result.exit_code, result.output) == (code, f"walflow: {said}\n")


# ---- a stranger


class Stranger:
    """A venv of its own, which sees walflow as installed and has the package in it."""

    def __init__(self, folder: Path, package: Path) -> None:
        self._folder = folder
        venv.create(folder, symlinks=True)
        site = next(folder.glob("lib/*/site-packages"))
        # what walflow needs is where this test's own Python has it: nothing is fetched
        (site / "walflow.pth").write_text(f"{ROOT}\n{sysconfig.get_paths()['purelib']}\n")
        command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
        offline = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
        subprocess.run([*command, *offline, str(package)], check=True)

    def walflow(self, *arguments: str, workdir: Path) -> "subprocess.CompletedProcess[str]":
        command = [str(self._folder / "bin" / "python"), "-m", "walflow", *arguments]
        return subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=100, check=False)

    def running(self, workdir: Path) -> AbstractContextManager[Daemon]:
        command = [str(self._folder / "bin" / "python"), "-m", "walflow", "run"]
        return running(workdir / "main.troy", workdir, command=command)


def test_a_connector_from_a_stranger(tmp_path: Path) -> None:
    package = tmp_path / "spool"
    assert new(package, "-t", "connector").exit_code == 0
    stranger = Stranger(tmp_path / "venv", package)

    shown = stranger.walflow("connectors", "show", "spool", workdir=package)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("spool: Files of a directory, as a source (`mode` read) or as a sink")
    listed = json.loads(stranger.walflow("connectors", "list", "--json", workdir=package).stdout)
    assert {"spool", "wal", "tcp_server"} <= listed.keys()

    flow = package / "main.troy"
    wrong = flow.read_text().replace('"mode": args.mode', '"mod": args.mode')
    (package / "wrong.troy").write_text(wrong)
    refused = stranger.walflow("check", "wrong.troy", workdir=package)
    assert refused.returncode == 78
    assert "unknown key `mod` in the config of spool" in refused.stdout

    (package / "in").mkdir()
    with stranger.running(package) as daemon:
        daemon.wait_for("running")
        (package / "in" / ".new").write_text('{"n": 1}\nrubbish\n{"n": 2}\n')
        os.rename(package / "in" / ".new", package / "in" / "1.json")
        wait_until(lambda: _numbers(*(package / "out").glob("*.json")) == [1, 2])
        assert daemon.terminate() == 0, daemon.raw
    assert [path.name for path in (package / "in").iterdir()] == ["1.done"]


@pytest.mark.parametrize(
    ("template", "name", "sent", "wanted"),
    [
        (
            "codec",
            "logfmt",
            b"level=info host=a\nrubbish\nlevel=warn\n",
            '{"level":"info","host":"a"}\n{"level":"warn"}\n',
        ),
        (
            "operator",
            "hosted",
            b'{"n": 1}\nrubbish\n{"n": 2}\n',
            '{"event":{"n":1},"label":"web"}\n{"event":{"n":2},"label":"web"}\n',
        ),
        ("framing", "digits", b"7b7d\nrubbish\n5b315d\n", "{}\n[1]\n"),
    ],
)
def test_a_codec_a_framing_and_an_operator_from_a_stranger(
    template: str, name: str, sent: bytes, wanted: str, tmp_path: Path
) -> None:
    """One file and one entry point each; what it refuses is counted, and nothing else is held up."""
    package = tmp_path / name
    assert new(package, "-t", template).exit_code == 0
    assert sorted(path.name for path in package.iterdir()) == [f"{name}.py", "main.troy", "pyproject.toml"]
    stranger = Stranger(tmp_path / "venv", package)
    port = free_port()
    flow = package / "main.troy"
    flow.write_text(flow.read_text().replace("65535", str(port)))
    checked = stranger.walflow("check", "main.troy", workdir=package)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with stranger.running(package) as daemon:
        daemon.wait_for("listening")
        client = Client(port)
        client.send(sent)
        wait_until(lambda: (package / "out.log").exists() and (package / "out.log").read_text() == wanted)
        client.close()
        assert daemon.terminate() == 0, daemon.raw
    wrong = (
        flow.read_text().replace('label = "web"', "odd = 1")
        if template == "operator"
        else flow.read_text().replace(f'"{name}"', f'{{"name": "{name}", "config": {{"odd": 1}}}}')
    )
    (package / "wrong.troy").write_text(wrong)
    refused = stranger.walflow("check", "wrong.troy", workdir=package)
    assert refused.returncode == 78
    assert re.search(f"{name} has no key odd|unknown key `odd`.* {name}", refused.stdout)


def _numbers(*files: Path) -> list[int]:
    return sorted(json.loads(line)["n"] for path in files for line in _lines(path))


@pytest.mark.parametrize(
    "module", ["connector/spool.py", "codec/pairs.py", "framing/hexed.py", "operator/labelled.py"]
)
def test_a_template_comes_by_the_door(module: str) -> None:
    """The how-tos show these files: `make pages`."""
    source = (TEMPLATE / module).read_text()
    assert "from walflow import" in source
    assert "from walflow." not in source
