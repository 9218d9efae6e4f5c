"""The token that permits a client to read and commit: the flow's, or one that is made at the first start."""

import secrets
from typing import NamedTuple

from walflow import Half, Unusable
from walflow.files import replace
from walflow.net import Secret, warn_if_open
from walflow.wal import Log

FILE = "token"


class Token(NamedTuple):
    """`file`: the file with the token, empty if it is elsewhere."""

    text: str
    file: str


def find_token(configured: Secret | None, log: Log, half: Half) -> Token:
    """Raises NoSecret or Unusable."""
    if configured is not None:
        token = configured.read().get_secret_value()
        if not token:
            raise Unusable("the configured token is empty; name a file, env or credential that has one")
        if configured.file is not None:
            warn_if_open(configured.file, "token", half.log)
        return Token(token, configured.file or "")
    directory = log.directory
    path = directory.file(FILE)
    if FILE not in directory.disk.names(directory.path):
        replace(directory, FILE, [secrets.token_urlsafe(32).encode() + b"\n"])
        half.log.info("token made", file=path)
    return Token(_read(path, half), path)


def _read(path: str, half: Half) -> str:
    token = Secret(file=path).read().get_secret_value()
    if not token:
        raise Unusable(f"{path}: is empty; remove it, and a new token is made")
    warn_if_open(path, "token", half.log)
    return token
