"""`walflow check --environment`: each thing that a start needs, tried, and nothing changed."""

import json
import os
import socket
from datetime import datetime
from pathlib import Path

import pytest
import trustme
from typer.testing import CliRunner, Result

from tests.flows.builder import NULL, TICKS, flow_of, plain
from walflow.cli import app
from walflow.needs import NotAvailable, Room, fit

FILE = '{"path": "%s", "mode": "append"}'
ANY_PORT = '{"url": "127.0.0.1:0"}'


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(source: str, at: str, sink: str, to: str) -> str:
    into = f'{source} with codec = "json", preprocessors = ["separate"], config = {at} end'
    out = f'{sink} with codec = "json", postprocessors = ["separate"], config = {to} end'
    return flow_of("incoming -> out", incoming=into, out=out)


def checked(
    *options: str, source: str = "tcp_server", at: str = ANY_PORT, sink: str = "file", to: str = FILE % "out.jsonl"
) -> Result:
    text = written(source, at, sink, to)
    Path("main.troy").write_text(text, encoding="utf-8")
    return CliRunner().invoke(app(), ["check", "--environment", *options, "main.troy"])


def said(result: Result) -> list[str]:
    lines = result.stdout.splitlines()
    return lines[lines.index("ok") + 1 :]


def test_all_can_be_had_and_nothing_is_made() -> None:
    result = checked()
    assert result.exit_code == 0
    assert said(result) == [
        "main::incoming: listen on 127.0.0.1:0: ok",
        "main::out: write the file out.jsonl: ok",
        "the environment is ok",
    ]
    assert os.listdir() == ["main.troy"]


def test_a_sink_s_directory_that_is_missing() -> None:
    result = checked(to=FILE % "gone/out.jsonl")
    assert result.exit_code == 69
    assert said(result)[1:] == [
        f"main::out: write the file gone/out.jsonl: there is no directory {os.getcwd()}/gone",
        "1 of 2 cannot be had",
    ]


@pytest.mark.parametrize("made", [False, True])
def test_a_missing_directory_is_noted_without_a_trial(made: bool) -> None:
    text = written(source="tcp_server", at=ANY_PORT, sink="file", to=FILE % "gone/out.jsonl")
    Path("main.troy").write_text(text, encoding="utf-8")
    if made:
        Path("gone").mkdir()
    result = CliRunner().invoke(app(), ["check", "--strict", "main.troy"])
    assert result.exit_code == 0
    notes = [line for line in result.stdout.splitlines() if "directory" in line]
    note = f"note: main::out: there is no directory {os.getcwd()}/gone on this machine, and a start makes none"
    assert notes == ([] if made else [note])


def test_a_port_that_another_process_has() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = checked(at=f'{{"url": "127.0.0.1:{port}"}}')
    assert result.exit_code == 69
    line = f"main::incoming: listen on 127.0.0.1:{port}: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert said(result)[0] == line


def test_a_peer() -> None:
    with socket.socket() as peer:
        peer.bind(("127.0.0.1", 0))
        peer.listen()
        port = peer.getsockname()[1]
        assert checked(sink="tcp_client", to=f'{{"url": "127.0.0.1:{port}"}}').exit_code == 0
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        port = closed.getsockname()[1]
        result = checked(sink="tcp_client", to=f'{{"url": "127.0.0.1:{port}"}}')
    assert result.exit_code == 69
    assert said(result)[1] == f"main::out: connect to 127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize(
    ("sink", "to", "what"),
    [
        (
            "kafka_producer",
            '{"brokers": ["127.0.0.1:1", "127.0.0.1:PORT"], "topic": "t"}',
            "127.0.0.1:1 or 127.0.0.1:PORT",
        ),
        ("mqtt_publisher", '{"url": "mqtt://127.0.0.1:PORT", "topic": "t"}', "127.0.0.1:PORT"),
    ],
)
def test_a_broker(sink: str, to: str, what: str) -> None:
    with socket.socket() as broker:
        broker.bind(("127.0.0.1", 0))
        port = str(broker.getsockname()[1])
        to, what = to.replace("PORT", port), what.replace("PORT", port)
        refused = broker_of(sink, to)
        assert refused.exit_code == 69
        (line,) = [line for line in refused.stdout.splitlines() if line.startswith("main::out: connect to")]
        assert line.startswith(f"main::out: connect to {what}: ")
        assert line.endswith("Connection refused")
        broker.listen()
        assert f"main::out: connect to {what}: ok" in broker_of(sink, to).stdout.splitlines()


def broker_of(sink: str, to: str) -> Result:
    text = written(source="tcp_server", at=ANY_PORT, sink=sink, to=to)
    Path("main.troy").write_text(text.replace('postprocessors = ["separate"],', ""), encoding="utf-8")
    return CliRunner().invoke(app(), ["check", "--environment", "main.troy"])


def test_files_and_passwords_for_a_broker() -> None:
    tls = '"tls": {"cafile": "gone.pem"}, "sasl": {"username": "u", "password": {"file": "gone"}}'
    lines = broker_of("kafka_producer", f'{{"brokers": ["127.0.0.1:1"], "topic": "t", {tls}}}').stdout.splitlines()
    assert "main::out: read the file gone.pem: No such file or directory" in lines
    assert any(line.startswith("main::out: read the password: ") and "gone" in line for line in lines)


def test_unix_sockets() -> None:
    result = checked(
        source="unix_socket_server", at='{"path": "gone/s"}', sink="unix_socket_client", to='{"path": "s"}'
    )
    assert said(result) == [
        f"main::incoming: listen on gone/s: there is no directory {os.getcwd()}/gone",
        "main::out: connect to s: No such file or directory",
        "2 of 2 cannot be had",
    ]


def test_certificates() -> None:
    authority = trustme.CA()
    pair = authority.issue_cert("localhost")
    pair.private_key_and_cert_chain_pem.write_to_path("server.pem")
    tls = '{"url": "127.0.0.1:0", "tls": {"cert": "server.pem", "key": "KEY"}}'
    assert (
        said(checked(at=tls.replace("KEY", "server.pem")))[0]
        == "main::incoming: read the certificates (server.pem): ok"
    )
    result = checked(at=tls.replace("KEY", "gone.pem"))
    assert result.exit_code == 69
    assert "gone.pem" in said(result)[0]
    long_ago = datetime(2020, 1, 1)  # as trustme takes it
    authority.issue_cert("localhost", not_after=long_ago).private_key_and_cert_chain_pem.write_to_path("server.pem")
    result = checked(at=tls.replace("KEY", "server.pem"))
    assert result.exit_code == 69
    assert said(result)[0] == (
        "main::incoming: read the certificates (server.pem): it has expired on 2020-01-01 00:00 UTC"
    )


def test_a_file_that_is_read_and_a_secret() -> None:
    secret = '{"url": "http://127.0.0.1:1/", "token": secret("gone")}'
    text = written(source="file", at='{"path": "in.jsonl", "mode": "read"}', sink="http_client", to=secret)
    Path("main.troy").write_text(text.replace(', postprocessors = ["separate"]', ""), encoding="utf-8")
    result = CliRunner().invoke(app(), ["check", "--environment", "main.troy"])
    assert result.exit_code == 69
    assert "main::incoming: read the file in.jsonl: No such file or directory" in result.stdout.splitlines()
    assert "secret: read the file gone: No such file or directory" in result.stdout.splitlines()


def log(path: str) -> Result:
    text = flow_of("ticks -> out -> nothing", ticks=TICKS, out=plain("wal", path=path), nothing=NULL)
    Path("main.troy").write_text(text, encoding="utf-8")
    return CliRunner().invoke(app(), ["check", "--environment", "main.troy"])


def test_a_log_s_directory() -> None:
    result = log("a/b/state")
    assert "main::out: write in the directory a/b/state: ok" in result.stdout.splitlines(), result.stdout
    assert not Path("a").exists()
    Path("a").touch()
    result = log("a/b/state")
    assert result.exit_code == 69
    assert (
        f"main::out: write in the directory a/b/state: {os.getcwd()}/a is no directory" in result.stdout.splitlines()
    )


def test_the_document() -> None:
    found = json.loads(checked("--json", to=FILE % "gone/out.jsonl").stdout)
    assert found["environment"] == [
        {"of": "main::incoming", "need": "listen on 127.0.0.1:0", "error": None},
        {
            "of": "main::out",
            "need": "write the file gone/out.jsonl",
            "error": f"there is no directory {os.getcwd()}/gone",
        },
    ]


def test_a_file_with_a_mistake_is_not_tried() -> None:
    result = checked(source="tcp_servr")
    assert result.exit_code == 78
    assert "listen on" not in result.stdout


@pytest.mark.parametrize(
    ("kind", "url", "noted"),
    [
        ("tcp_server", "127.0.0.1", "127.0.0.1:4242"),
        ("tcp_client", "tcp://[::1]", "[::1]:4242"),
        ("tcp_server", "127.0.0.1:4242", ""),
        ("tcp_client", "127.0.0.1:1", ""),
    ],
)
def test_a_url_without_a_port_is_noted(kind: str, url: str, noted: str) -> None:
    """tremor's default counts, so it is no mistake."""
    client = kind == "tcp_client"
    at, to = (ANY_PORT, f'{{"url": "{url}"}}') if client else (f'{{"url": "{url}"}}', FILE % "out.jsonl")
    text = written(source="tcp_server", at=at, sink=kind if client else "file", to=to)
    Path("main.troy").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app(), ["check", "--strict", "main.troy"])
    node = "out" if client else "incoming"
    note = f'note: main::{node}: `url` has no port, so it is 4242, tremor\'s default: write "{noted}" to say so'
    assert (note in result.stdout.splitlines()) == bool(noted), result.stdout
    assert ("has no port" in result.stdout) == bool(noted)


@pytest.mark.parametrize("url", ["127.0.0.1", "127.0.0.1:4242"])
def test_a_udp_server_without_a_port_is_noted(url: str) -> None:
    text = written(source="udp_server", at=f'{{"url": "{url}"}}', sink="file", to=FILE % "out.jsonl")
    Path("main.troy").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app(), ["check", "--strict", "main.troy"])
    note = "note: main::incoming: `url` has no port, so the kernel chooses one at each start"
    assert (note in result.stdout.splitlines()) == (url == "127.0.0.1"), result.stdout


@pytest.mark.parametrize(("of_free", "fits"), [(0.2, True), (0.8, False)])
def test_the_logs_of_one_file_system_fit_there_together(of_free: float, fits: bool) -> None:
    free = os.statvfs(".").f_bavail * os.statvfs(".").f_frsize
    chunk = int(free * of_free) // 1024
    one, two = (plain("wal", path=path, chunk_size=chunk, max_chunks=1024) for path in ("state/one", "two"))
    ticks = plain("metronome", interval=1_000_000_000)
    text = flow_of("ticks -> one -> two -> out", ticks=ticks, one=one, two=two, out="null")
    Path("main.troy").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app(), ["check", "--environment", "main.troy"])
    (line,) = [line for line in result.stdout.splitlines() if "bytes of disk" in line]
    head = f"main::one, main::two: {2 * 1024 * chunk:,} bytes of disk in state/one, two together: "
    assert line.startswith(head)
    assert line.endswith(" bytes free") != fits
    assert line.endswith(": ok") == fits
    assert result.exit_code == (0 if fits else 69)


def test_what_a_log_has_on_disk_already_is_room_for_it(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(1 << 20))
    fit([Room(str(tmp_path), 1 << 20)])
    with pytest.raises(NotAvailable, match=r" bytes free beside the 1,0\d\d,\d\d\d bytes that are there"):
        fit([Room(str(tmp_path), 1 << 60)])
