"""Values from outside that a flow file names: `env.NAME`, `env("NAME", default)` and `secret("FILE")`.

Each is a value of an expression, and no text of the file: quotes or newlines in it cannot change the flow. They have
a value only in the keys of a `config` and in args.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from walflow.compile.constant import ConstantPart, derived
from walflow.diagnostics import Diagnostic, Hidden, Span, secrets_in
from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function
from walflow_kernel.values import kind_of

ENV: Final = "env"
SECRET: Final = "secret"
WORDS: Final = (ENV, SECRET)
ONLY_IN_CONFIG: Final = "it has a value in the keys of connectors and in args: declare an arg, and give it there"

UNREAD: Final = Hidden("********")  # in the place of a secret, where none is read
LONGEST: Final = 64 << 10  # bytes of a secret
SHORTEST: Final = 4  # characters of a secret that is looked for in messages: `a` is in each of them
_IS_SECRET: Final = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL", re.IGNORECASE)  # a variable that is one itself


@dataclass(eq=False)
class Environment:
    """`reads_secrets`: `run` needs them; `check` judges a file without them. `used` and `files`: the variables and
    the files of secrets that the flows name."""

    reads_secrets: bool = False
    used: dict[str, str] = field(default_factory=dict[str, str])
    files: list[str] = field(default_factory=list[str])
    _secrets: list[str] = field(default_factory=list[str])

    def variables(self, at: Span) -> Mapping[str | int, ConstantPart]:
        return _Variables(self, at)

    def variable(self, name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise CannotApply(f'the environment variable `{name}` is not set; `{ENV}("{name}", …)` gives a default')
        return self._known(name, value)

    def function(self, name: str) -> Function:
        return replace(function(self._env), least=1) if name == ENV else function(self._secret)

    def _env(self, name: str, default: object = None) -> object:
        value = os.environ.get(name)
        if value is None:
            if default is None:
                return self.variable(name)
            self.used[name] = "not set, so its default"
            return default
        value = self._known(name, value)
        return value if default is None or isinstance(default, str) else _like(name, value, default)

    def _known(self, name: str, value: str) -> str:
        self.used[name] = "set"
        if not _IS_SECRET.search(name):
            return value
        self._secrets.append(value)
        return Hidden(value)

    def _secret(self, file: str) -> str:
        if file not in self.files:
            self.files.append(file)
        if not self.reads_secrets:
            return UNREAD
        secret = Hidden(_read(file))
        self._secrets.append(secret)
        return secret

    def look_for(self, values: Iterable[object]) -> None:
        """Also for what functions have made of secrets: it stands in what is configured."""
        self._secrets += {secret for value in values for secret in secrets_in(value)} - {UNREAD, *self._secrets}

    def notes(self) -> Iterator[str]:
        """What the flows take from outside, without the values."""
        if self.used:
            yield "from the environment: " + ", ".join(f"{name} ({how})" for name, how in sorted(self.used.items()))
        if self.files:
            yield f"secrets, which only `walflow run` reads: {', '.join(self.files)}"

    def hidden(self, found: Sequence[Diagnostic]) -> list[Diagnostic]:
        """No message quotes a secret."""
        return [
            one._replace(message=self._without(one.message), hint=self._without(one.hint) if one.hint else None)
            for one in found
        ]

    def _without(self, text: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, UNREAD) if len(secret) >= SHORTEST else text
        return text


class _Variables(Mapping[str | int, ConstantPart]):
    """The parts of `env`. A variable is looked up when it is named."""

    def __init__(self, environment: Environment, at: Span) -> None:
        self._environment = environment
        self._at = at

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __getitem__(self, name: str | int) -> ConstantPart:
        return ConstantPart(self._at, derived(self._environment.variable(str(name)), self._at))

    def __iter__(self) -> Iterator[str | int]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _like(name: str, value: str, default: object) -> object:
    """A variable is text. If the default is a number, for example, the value is read as one."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        found = value
    if kind_of(found) != kind_of(default):
        raise CannotApply(
            f"the environment variable `{name}` is {kind_of(found)}, and its default {kind_of(default)}"
        )
    return found


def _read(path: str) -> str:
    try:
        # a FIFO without a writer would block
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CannotApply(f"`{path}` is no plain file")
            data = file.read(LONGEST + 1)
    except (OSError, ValueError) as failed:
        reason = failed.strerror if isinstance(failed, OSError) else "this is no file name"
        raise CannotApply(f"cannot read the secret in `{path}`: {reason}") from None
    if len(data) > LONGEST:
        raise CannotApply(f"`{path}` is too large for a secret")
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise CannotApply(f"`{path}` holds no text") from None
