"""Certificates whose names are of another kind than what is asked for; and named pipes, directories and devices in
the place of certificates, keys and secrets: reading a pipe that no process writes to would hold up the whole
daemon."""

import os
import signal
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from tests.system.certificates import Authority
from tests.system.daemon import running
from tests.system.test_tls import TlsClient, server_flow
from walflow.net import ClientTls, NoSecret, Secret, ServerTls
from walflow.net.tls import check_name


class Issued:
    """A CA's files, and those of one certificate."""

    def __init__(self, directory: Path, *identities: str, common_name: str | None = None) -> None:
        ca = trustme.CA()
        leaf = ca.issue_cert(*identities, common_name=common_name)
        self.ca, self.cert, self.key = (str(directory / name) for name in ("ca.pem", "leaf.cert", "leaf.key"))
        ca.cert_pem.write_to_path(self.ca)
        leaf.cert_chain_pems[0].write_to_path(self.cert)
        leaf.private_key_pem.write_to_path(self.key)


def shake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Both ends of a handshake in memory; the server's end. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (asking, serving):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return serving


def test_a_common_name_is_no_name(tmp_path: Path) -> None:
    issued = Issued(tmp_path, "someone@example.org", common_name="collector.example")
    server = ServerTls(cert=issued.cert, key=issued.key).context()
    client = ClientTls(cafile=issued.ca).context()
    with pytest.raises(ssl.SSLCertVerificationError, match=r"collector\.example"):
        shake(client, server, "collector.example")


@pytest.mark.parametrize(
    ("identity", "allowed", "may"),
    [
        ("edge-1.example", "edge-1.example", True),
        ("edge-1.example", "EDGE-1.example", True),
        ("edge-1.example", "DNS:edge-1.example", True),
        ("edge-1.example", "URI:edge-1.example", False),
        ("edge@example.org", "edge@example.org", False),
        ("edge@example.org", "email:edge@example.org", True),
        ("10.0.0.7", "10.0.0.7", False),
        ("10.0.0.7", "IP:10.0.0.7", True),
        ("::1", "IP:::1", True),
        ("::1", "IP:0:0::1", True),
    ],
)
def test_a_name_of_one_type_is_none_of_another(tmp_path: Path, identity: str, allowed: str, may: bool) -> None:
    own = Issued(tmp_path, identity)
    (tmp_path / "server").mkdir()
    server_side = Issued(tmp_path / "server", "localhost")
    server = ServerTls(cert=server_side.cert, key=server_side.key, client_ca=own.ca).context()
    client = ClientTls(cafile=server_side.ca, cert=own.cert, key=own.key).context()
    refusal = check_name(shake(client, server, "localhost"), (allowed,))
    assert (refusal is None) == may, refusal


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("place", [pipe, directory, device])
@pytest.mark.parametrize("which", ["cert", "key", "client_ca", "key_password"])
def test_what_is_no_plain_file_changes_nothing_at_sighup(
    tmp_path: Path, which: str, place: Callable[[Path], None]
) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "password").write_text("secret")
    tls: dict[str, object] = {**authority.issue("localhost", password="secret")}
    tls |= {"client_ca": authority.file, "key_password": {"file": str(tmp_path / "password")}}
    own = authority.issue("edge")
    with running(server_flow(tmp_path, **tls), tmp_path) as daemon:
        port = daemon.port()
        context = authority.client_context(own)
        spoiled = tmp_path / "password" if which == "key_password" else Path(str(tls[which]))
        spoiled.unlink()
        place(spoiled)
        os.kill(daemon.pid, signal.SIGHUP)
        said = str(daemon.wait_for("certificates not reloaded")["error"])
        assert str(spoiled) in said
        assert "must be a plain file" in said
        client = TlsClient(port, context)
        client.send(b"1\n")
        assert client.lines(1) == [b"1"]
        client.close()
        assert daemon.terminate() == 0


def test_a_key_that_everybody_may_read_is_warned_of(tmp_path: Path) -> None:
    tls = Authority(tmp_path).issue("localhost")
    key = Path(tls["key"])
    key.chmod(0o644)
    with running(server_flow(tmp_path, **tls), tmp_path) as daemon:
        warned = daemon.wait_for("private key open to others")
        assert (warned["file"], warned["mode"], warned["advice"]) == (str(key), "0644", f"chmod 640 {key}")
        daemon.wait_for("listening")
        key.chmod(0o640)
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for("certificates reloaded")
        assert [line["event"] for line in daemon.lines].count("private key open to others") == 1
        assert daemon.terminate() == 0


def test_a_secret_that_is_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    with pytest.raises(NoSecret, match="it is a named pipe, and must be a plain file"):
        Secret(file=str(tmp_path / "token")).read()
