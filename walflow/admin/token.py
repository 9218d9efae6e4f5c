"""The token of the admin interface, in a file that may change while the daemon runs."""

import os
from pathlib import Path

import structlog
from pydantic import SecretStr

from walflow.net import NoSecret, Secret
from walflow.net.files import warn_if_open

log = structlog.get_logger(component="admin")


class TokenFile:
    """Raises NoSecret. `current` is what was read last: if the file cannot be used later, it stays."""

    def __init__(self, path: Path) -> None:
        self.path = os.path.abspath(path)  # the daemon changes its directory
        self.current = self._read()

    def renew(self) -> None:
        """Reads the file again, and logs the result."""
        try:
            self.current = self._read()
        except NoSecret as error:
            log.error("admin token not reloaded", error=str(error))
        else:
            log.info("admin token reloaded", file=self.path)
            self.warn()

    def warn(self) -> None:
        """Warns if users other than the owner may read the file."""
        warn_if_open(self.path, "token", log)

    def _read(self) -> SecretStr:
        token = Secret.model_validate({"file": self.path}).read()
        text = token.get_secret_value()
        if not (text and text.isascii() and text.isprintable() and " " not in text):
            raise NoSecret(f"{self.path} contains no token: a token is ASCII text without white space")
        return token
