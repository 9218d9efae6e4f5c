"""Asks a running daemon's admin interface, for the commands that show it."""

import http.client
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from walflow.admin.text import printable
from walflow.exit_codes import EX_UNAVAILABLE, EX_USAGE

if TYPE_CHECKING:
    from walflow.admin.endpoint import Endpoint

T = TypeVar("T")

STRANGER: Final = "the program that answers is no walflow of this version"

PATIENCE: Final = 5.0  # seconds: a loop that does not answer in them does not turn

AdminOption = Annotated[
    str, typer.Option(envvar="WALFLOW_ADMIN", help="The daemon's own --admin: host:port or unix:/path.")
]
TokenOption = Annotated[
    Path | None, typer.Option(envvar="WALFLOW_ADMIN_TOKEN_FILE", help="The daemon's own --admin-token-file.")
]


class NoAnswer(Exception):
    """No walflow answers at this address. The text is the line for the operator. `refused`: no process
    listens there."""

    refused = False


class TapRefused(NoAnswer):
    """walflow answers that it does not do this. The text may have several lines."""


class AdminClient:
    """Raises typer.Exit if the address or the token cannot be used, and NoAnswer later."""

    def __init__(self, admin: str, token_file: Path | None) -> None:
        from walflow.admin.endpoint import parse_endpoint  # here, because `walflow --help` needs nothing of it

        try:
            endpoint = parse_endpoint(admin)
        except ValueError as error:
            raise end(f"--admin {error}", EX_USAGE) from None
        if endpoint is None:
            raise end("--admin off: a daemon without this interface cannot be asked", EX_USAGE)
        self.endpoint: Endpoint = endpoint
        self._headers = _authorization(token_file)

    @property
    def may_change(self) -> bool:
        """Whether the daemon can know that who asks may change something."""
        from walflow.admin.endpoint import UnixPath

        return bool(self._headers) or isinstance(self.endpoint, UnixPath)

    def ask(self, path: str) -> bytes:
        """The body of an answer 200."""
        code, body = self.get(path)
        if code == 200:
            return body
        said = body.decode(errors="replace").splitlines()
        raise NoAnswer(f"{self.endpoint} answers {code}: {said[0] if said else 'nothing'}")

    def post(self, path: str, body: bytes) -> bytes:
        """The body of an answer 202."""
        with self._request("POST", path, body) as response:
            said = response.read()
            if response.status == 202:
                return said
            raise NoAnswer(f"{self.endpoint} answers {response.status}: {said.decode(errors='replace').strip()}")

    def get(self, path: str) -> tuple[int, bytes]:
        """The status and the body."""
        with self._request("GET", path) as response:
            return response.status, response.read()

    @contextmanager
    def follow(self, path: str) -> "Generator[http.client.HTTPResponse]":
        """An answer that goes on, to be read line by line. Raises TapRefused with what the daemon says."""
        with self._request("GET", path) as response:
            if response.status != 200:
                raise TapRefused(response.read().decode(errors="replace").rstrip() or f"answers {response.status}")
            yield response

    @contextmanager
    def _request(self, method: str, path: str, body: bytes | None = None) -> "Generator[http.client.HTTPResponse]":
        from walflow.admin.endpoint import UnixPath

        endpoint = self.endpoint
        connection = (
            _UnixConnection(endpoint.path)
            if isinstance(endpoint, UnixPath)
            else http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=PATIENCE)
        )
        try:
            connection.request(method, path, body, self._headers)
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            why = (
                error.strerror
                if isinstance(error, OSError) and error.strerror
                else str(error) or type(error).__name__
            )
            elsewhere = "name a daemon's own --admin, or set WALFLOW_ADMIN"
            nothing = NoAnswer(f"no daemon answers at {endpoint}: {why}; {elsewhere}")
            nothing.refused = isinstance(error, ConnectionRefusedError | FileNotFoundError)
            raise nothing from None
        finally:
            connection.close()


def understood(body: bytes, of: type[T]) -> T:
    """What was answered. Raises NoAnswer where it is nothing of that kind: another version, or another program."""
    import msgspec

    try:
        return msgspec.json.decode(body, type=of)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NoAnswer(f"{STRANGER}: {error}") from None


@contextmanager
def answered() -> "Generator[None]":
    """Ends the command with one line, or the lines of a refusal, if there is no answer."""
    try:
        yield
    except NoAnswer as error:
        raise end(str(error), EX_UNAVAILABLE) from None


def end(text: str, code: int) -> typer.Exit:
    typer.echo("\n".join(printable(line) for line in f"walflow: {text}".splitlines()), err=True)
    return typer.Exit(code)


def _authorization(file: Path | None) -> Mapping[str, str]:
    if file is None:
        return {}
    from walflow.net.secrets import NoSecret, Secret

    try:
        token = Secret.model_validate({"file": str(file)}).read()
    except NoSecret as error:
        raise end(f"--admin-token-file: {error}", EX_USAGE) from None
    return {"Authorization": f"Bearer {token.get_secret_value()}"}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
