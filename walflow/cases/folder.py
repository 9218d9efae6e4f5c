"""The files of a case: docs/reference/test-folders.md says what each of them is."""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from walflow.cases.values import Json, value_of
from walflow.codecs import JSON
from walflow.diagnostics import did_you_mean, one_of
from walflow.errors import WalflowError
from walflow.framing import LINES

SubjectKind = Literal["pipeline.trickle", "script.tremor", "flow.troy"]
SUBJECTS: Final[tuple[SubjectKind, ...]] = ("pipeline.trickle", "script.tremor", "flow.troy")
START_NS: Final = 1_700_000_000_000_000_000  # 2023-11-14, 22:13:20 UTC

SETTINGS: Final = "case.toml"
_REFUSED: Final = "error.txt"
_WARNED: Final = "warning.txt"
_INPUT: Final = "in"
_FULL: Final = ".events.jsonl"
_BARE: Final = ".jsonl"


class BadCase(WalflowError):
    """A file of a case is not what it must be. The text names the file, and the place in it."""


class Given(NamedTuple):
    """An event of the input. `payload` is None where only time passes, until `ingest_ns`."""

    payload: bytes | None
    meta: Mapping[str, object]
    ingest_ns: int
    port: str
    stream: int


class Expected(NamedTuple):
    """`members`: of `value`, `meta`, `ingest_ns` and `stream` those that are compared. `line`: of its file."""

    members: Mapping[str, Json]
    line: int


class ExpectedPort(NamedTuple):
    file: Path
    full: bool  # a line is a record of `value`, `meta` and so on, not the value alone
    events: Sequence[Expected]


class CaseSettings(BaseModel):
    """`case.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tags: list[str] = Field(default_factory=list[str])
    args: dict[str, Any] = Field(default_factory=dict[str, Any])  # Any: all that TOML can express
    start_ns: int = Field(default=START_NS, ge=0)
    step_ns: int = Field(default=0, ge=0)


class _GivenRecord(msgspec.Struct, forbid_unknown_fields=True):
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    meta: dict[str, object] = {}
    ingest_ns: int | None = None
    port: str = "in"
    stream: int = 0


@dataclass(frozen=True)
class Case:
    """A folder with one subject. `name`: its path below the folder that was asked for. Errors in its files are raised
    as a BadCase when the file is read."""

    folder: Path
    name: str

    @cached_property
    def files(self) -> Sequence[str]:
        return sorted(entry.name for entry in os.scandir(self.folder) if entry.is_file())

    @property
    def subject(self) -> SubjectKind:
        found: list[SubjectKind] = [name for name in SUBJECTS if name in self.files]
        if len(found) > 1:
            raise BadCase(
                f"{self.folder}: {one_of(found).replace(' or ', ' and ')} stand here: a case has one of them"
            )
        if not found:
            raise BadCase(f"{self.folder}: a case has a file {one_of(SUBJECTS)}")
        return found[0]

    @property
    def tags(self) -> Sequence[str]:
        return self.settings.tags

    @cached_property
    def settings(self) -> CaseSettings:
        if SETTINGS not in self.files:
            return CaseSettings()
        path = self.folder / SETTINGS
        try:
            return CaseSettings.model_validate(tomllib.loads(_text(path)))
        except tomllib.TOMLDecodeError as error:
            raise BadCase(f"{path}: {error}") from None
        except ValidationError as invalid:
            first = invalid.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            if first["type"] != "extra_forbidden":
                raise BadCase(
                    f"{path}: `{key}`: {'a table, `[args]`' if key == 'args' else first['msg'].lower()}"
                ) from None
            known = f"it takes {one_of(CaseSettings.model_fields)}; an arg of the subject stands below `[args]`"
            raise BadCase(
                f"{path}: unknown key `{key}`; {did_you_mean(key, CaseSettings.model_fields) or known}"
            ) from None

    def given(self) -> Sequence[Given]:
        """The input in its order, time included."""
        files = [name for name in self.files if name.split(".")[0] == _INPUT and name.endswith(_BARE)]
        if not files:
            raise BadCase(f"{self.folder}: a case has an input, `in.jsonl` say, or `error.txt` if it is refused")
        if len({_input_port(name) for name in files}) < len(files):
            raise BadCase(f"{self.folder}: of {one_of(files).replace(' or ', ' and ')} two are for the same port")
        found: list[Given] = []
        now = self.settings.start_ns
        for name in files:
            for number, line in _lines(self.folder / name):
                given = self._given(name, number, line, now)
                if given.ingest_ns < now and found:
                    raise BadCase(f"{self.folder / name}:{number}: `ingest_ns` goes back, to {given.ingest_ns}")
                found.append(given)
                now = given.ingest_ns + self.settings.step_ns
        return found

    def _given(self, name: str, number: int, line: bytes, now: int) -> Given:
        path = self.folder / name
        port = _input_port(name)
        _read(path, number, line)
        if not name.endswith(_FULL):
            return Given(_sound(path, number, line), {}, now, port, 0)
        try:
            record = msgspec.json.decode(line, type=_GivenRecord)
        except msgspec.MsgspecError as error:
            raise BadCase(f"{path}:{number}:1: {error}") from None
        if name != f"{_INPUT}{_FULL}" and record.port != "in":
            raise BadCase(f"{path}:{number}:1: the file's name says the port already, `{port}`")
        payload = None if record.value is msgspec.UNSET else _sound(path, number, bytes(record.value))
        at = now if record.ingest_ns is None else record.ingest_ns
        return Given(payload, record.meta, at, record.port if port == "in" else port, record.stream)

    def expected(self) -> Mapping[str, ExpectedPort]:
        """By port. A port without a file is not in it: nothing may leave there."""
        found: dict[str, ExpectedPort] = {}
        for name in self.files:
            if not name.endswith(_BARE) or name.split(".")[0] == _INPUT:
                continue
            full = name.endswith(_FULL)
            port = name.removesuffix(_FULL if full else _BARE)
            if port in found:
                raise BadCase(f"{self.folder}: `{found[port].file.name}` and `{name}` are both about port `{port}`")
            path = self.folder / name
            found[port] = ExpectedPort(
                path, full, [_expected(path, number, line, full) for number, line in _lines(path)]
            )
        return found

    @property
    def refused(self) -> Sequence[str] | None:
        """What is said of the subject as an error, a line each; None where it is to run."""
        if _REFUSED not in self.files:
            return None
        outputs = [name for name in self.files if name.endswith(_BARE) and name.split(".")[0] != _INPUT]
        if outputs:
            raise BadCase(f"{self.folder}: what `{_REFUSED}` says is refused never runs: take out {one_of(outputs)}")
        return _text(self.folder / _REFUSED).splitlines()

    @property
    def warned(self) -> Sequence[str] | None:
        """None where warnings are of no interest."""
        return _text(self.folder / _WARNED).splitlines() if _WARNED in self.files else None

    @property
    def refused_file(self) -> Path:
        return self.folder / _REFUSED

    @property
    def warned_file(self) -> Path:
        return self.folder / _WARNED


class CasesFound(NamedTuple):
    """`bad`: folders that look like a case and cannot be one, by their names."""

    cases: Sequence[Case]
    bad: Mapping[str, BadCase]


def find(folders: Sequence[Path]) -> CasesFound:
    """All cases in and below these folders, by their names."""
    cases: dict[Path, Case] = {}
    bad: dict[str, BadCase] = {}
    for top in folders:
        if not top.is_dir():
            bad[str(top)] = BadCase(f"{top}: {'this is no folder' if top.exists() else 'no such folder'}")
            continue
        for folder, files in walk(top):
            name = str(folder.relative_to(top)) if folder != top else folder.resolve().name
            if any(subject in files for subject in SUBJECTS):
                cases.setdefault(folder.resolve(), Case(folder, name))
            elif stray := [file for file in files if _is_of_a_case(file)]:
                message = f"{folder}: {one_of(stray).replace(' or ', ' and ')} without a file {one_of(SUBJECTS)}"
                bad[name] = BadCase(message)
    return CasesFound(sorted(cases.values(), key=lambda case: case.name), bad)


def walk(top: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield Path(folder), sorted(files)


def _is_of_a_case(file: str) -> bool:
    return file in {SETTINGS, _REFUSED, _WARNED} or file.endswith(_BARE)


def _input_port(name: str) -> str:
    """`in.jsonl` is for `in`, `in.late.jsonl` for `late`."""
    stem = name.removesuffix(_FULL) if name.endswith(_FULL) else name.removesuffix(_BARE)
    return stem.removeprefix(f"{_INPUT}.") if stem != _INPUT else _INPUT


def _expected(path: Path, number: int, line: bytes, full: bool) -> Expected:
    value = _read(path, number, line)
    if not full:
        return Expected({"value": value}, number)
    if not isinstance(value, dict) or not value.keys() <= {"value", "meta", "ingest_ns", "stream"}:
        raise BadCase(f"{path}:{number}:1: a line here is a record of `value`, `meta`, `ingest_ns` and `stream`")
    return Expected(value, number)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(_bytes(path).split(b"\n"), 1):
        if line.strip():
            yield number, line.removesuffix(b"\r")


def _read(path: Path, number: int, line: bytes) -> Json:
    try:
        return value_of(line)
    except UnicodeDecodeError as error:
        raise BadCase(f"{path}:{number}:{error.start + 1}: this is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadCase(f"{path}:{number}:{error.colno}: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise BadCase(f"{path}:{number}:1: this nests too deep") from None
    except ValueError as error:
        raise BadCase(f"{path}:{number}:1: {error}") from None


def _sound(path: Path, number: int, payload: bytes) -> bytes:
    """As a source would have it, which looks closer than a decoder."""
    verdict = JSON.validate(payload + b"\n", LINES)
    if verdict.bad:
        raise BadCase(f"{path}:{number}:1: {verdict.bad[0][1]}")
    return payload


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadCase(f"{path}:{line}: this is not UTF-8") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadCase(f"{path}: {error.strerror}") from None
