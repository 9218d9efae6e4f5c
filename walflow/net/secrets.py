"""Passwords and tokens. The flow file names where each is stored. No log line or error shows one."""

import hmac
import os
from pathlib import Path
from typing import Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    model_validator,
)

from walflow.diagnostics import HIDDEN
from walflow.errors import WalflowError
from walflow.net.files import read_plain

CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"  # where systemd puts what LoadCredential= names
LONGEST: Final = 64 << 10


class NoSecret(WalflowError):
    """The file, variable or credential of a secret is missing. The message names it, never the secret."""


class Secret(BaseModel):
    """`{"file": …}`, `{"env": …}` or `{"credential": …}`, or the text itself.

    It is read when it is needed. So a file may change while the daemon runs, and `check` needs no secrets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    file: str | None = Field(
        default=None, min_length=1, description="A file that holds the secret. A newline at its end is ignored."
    )
    env: str | None = Field(default=None, min_length=1, description="An environment variable that holds the secret.")
    credential: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.:@-]+$",
        description="The name of a file in $CREDENTIALS_DIRECTORY, where systemd puts credentials.",
    )
    text: SecretStr | None = Field(
        default=None, description="The secret itself. Everyone who can read the flow file can read it."
    )

    _outside: bool = PrivateAttr(default=False)  # the text comes from `secret("FILE")`

    @model_validator(mode="wrap")
    @classmethod
    def _plain_text(cls, given: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        # `given` is any value of the flow file
        context: Any = info.context or {}
        secret = validate({"text": str(given)} if isinstance(given, str) else given)
        secret._outside = isinstance(given, str) and given in context.get(HIDDEN, ())
        return secret

    @model_validator(mode="after")
    def _from_one_place(self) -> Self:
        if sum(place is not None for place in (self.file, self.env, self.credential, self.text)) != 1:
            raise ValueError("a secret comes from one place: `file`, `env` or `credential`")
        return self

    @property
    def inline(self) -> bool:
        return self.text is not None and not self._outside

    def read(self) -> SecretStr:
        """Raises NoSecret."""
        if self.text is not None:
            return self.text
        if self.env is not None:
            value = os.environ.get(self.env)
            if value is None:
                raise NoSecret(f"the environment variable {self.env} is not set")
            return SecretStr(value)
        return _from_file(self._path())

    def _path(self) -> Path:
        if self.file is not None:
            return Path(self.file)
        directory = os.environ.get(CREDENTIALS)
        if not directory:
            raise NoSecret(f"credential {self.credential}: ${CREDENTIALS} is not set; LoadCredential= sets it")
        return Path(directory, str(self.credential))


def _from_file(path: Path) -> SecretStr:
    try:
        data = read_plain(str(path), LONGEST + 1)
    except OSError as error:
        raise NoSecret(f"cannot read the secret in {path}: {error.strerror}") from None
    if len(data) > LONGEST:
        raise NoSecret(f"{path} is too large for a secret")
    try:
        return SecretStr(data.decode().removesuffix("\n").removesuffix("\r"))
    except UnicodeDecodeError:
        raise NoSecret(f"{path} holds no text") from None


def bearer(token: str) -> str:
    return f"Bearer {token}"


def same_token(given: str | None, wanted: str) -> bool:
    """In the same time wherever they differ."""
    # headers may hold any byte, and come as surrogates
    return hmac.compare_digest((given or "").encode(errors="surrogateescape"), bearer(wanted).encode())
