"""One YAML document with the values of JSON: YAML 1.2's core schema, so `yes` and `on` are text.

libyaml parses, through PyYAML; what its events mean is decided here. It builds no objects, and aliases are refused:
ten lines of them can be a billion values. It takes time with the square of the depth of `[[[[`, so the depth is
limited while it parses.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from walflow.codecs.parts import number_of, text_of
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode, WalflowError
from walflow.extras import lacks
from walflow.plugins import known_keys
from walflow_kernel.values import LEAST, MOST, kind_of

try:
    import yaml
except ImportError as missing:
    raise WalflowError(lacks("the codec yaml", "yaml")) from missing

DEEPEST: Final = 100  # levels
DIRECTIVES: Final = 16  # lines; libyaml compares each with each
_TAG: Final = "tag:yaml.org,2002:"
_CONSTANTS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_based = re.compile(r"0o[0-7]{1,22}|0x[0-9a-fA-F]{1,16}").fullmatch
_not_finite = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)").fullmatch
_perhaps_number = re.compile(r"[-+]?\.?\d[\d.eE+-]*|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_yaml: Any = yaml  # what it has in C has no types


class _Dumper(_yaml.CSafeDumper):  # type: ignore[misc]
    """Quotes every text that YAML 1.2 would take for something else, too."""

    def ignore_aliases(self, data: object) -> bool:
        return True


# to the end of the text: PyYAML looks at its beginning alone, and `6bffadf5-54b3` is no number
_Dumper.add_implicit_resolver(f"{_TAG}float", re.compile(rf"(?:{_perhaps_number.pattern})\Z"), list("-+.0123456789"))


class Yaml(EventCodec):
    name = "yaml"

    def decode(self, payload: bytes) -> object:
        text = text_of(payload)
        if text.count("\n%") > DIRECTIVES:
            raise CannotDecode(f"not yaml that is supported: more than {DIRECTIVES} directives")
        events: Iterator[Any] = _yaml.parse(text, Loader=_yaml.CSafeLoader)
        try:
            return _document(events)
        except _yaml.YAMLError as error:
            raise CannotDecode(f"not yaml: {_words(error)}") from error

    def encode(self, value: object) -> bytes:
        _check(value, 0)
        try:
            text = _yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1 << 30)
            return cast(str, text).encode()
        except (_yaml.YAMLError, UnicodeEncodeError) as error:
            raise CannotEncode(f"not yaml: {_words(error)}") from error


def _document(events: Iterator[Any]) -> object:
    """The value of the only one."""
    values: list[object] = []
    levels: list[Level] = []
    for event in events:
        match type(event).__name__:
            case "ScalarEvent":
                done = _scalar(event)
            case "SequenceStartEvent" | "MappingStartEvent" as kind:
                if len(levels) >= DEEPEST:
                    raise CannotDecode(f"not yaml that is supported: nested deeper than {DEEPEST}")
                _check_tag(event, "seq" if kind == "SequenceStartEvent" else "map")
                levels.append(Level([] if kind == "SequenceStartEvent" else {}))
                continue
            case "SequenceEndEvent" | "MappingEndEvent":
                done = levels.pop().container
            case "AliasEvent":
                raise CannotDecode("not yaml that is supported: an alias")
            case _:
                continue
        if levels:
            levels[-1].add(done)
        else:
            values.append(done)
    if len(values) != 1:
        raise CannotDecode(f"not yaml: {len(values)} documents, and not one")
    return values[0]


class Level:
    """An array or a record that is being read."""

    def __init__(self, container: list[object] | dict[str, object]) -> None:
        self.container = container
        self._key: str | None = None

    def add(self, value: object) -> None:
        if isinstance(self.container, list):
            self.container.append(value)
        elif self._key is not None:
            self.container[self._key] = value
            self._key = None
        elif not isinstance(value, str):
            raise CannotDecode("not yaml that is supported: a key that is no string")
        elif value in self.container:
            raise CannotDecode(f"not yaml: the key {value[:40]!r} twice")
        else:
            self._key = value


def _scalar(event: Any) -> object:
    text: str = event.value
    if event.tag not in (None, "!"):
        kind = str(event.tag)
        if kind != f"{_TAG}str":
            raise CannotDecode(f"not yaml that is supported: the tag {kind[:60]}")
        return text
    return _plain(text) if event.implicit[0] else text


def _plain(text: str) -> object:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not _perhaps_number.fullmatch(text):
        return text
    if _not_finite(text):
        raise CannotDecode("not yaml that is supported: infinity or NaN")
    if _based(text):
        value = int(text, 0)
        if value <= MOST:
            return value
    number = number_of(text)
    return text if number is None else number


def _check_tag(event: Any, kind: str) -> None:
    if event.tag not in (None, "!", f"{_TAG}{kind}"):
        raise CannotDecode(f"not yaml that is supported: the tag {str(event.tag)[:60]}")


def _check(value: object, depth: int) -> None:
    if depth > DEEPEST:
        raise CannotEncode(f"not yaml that is supported: nested deeper than {DEEPEST}")
    if isinstance(value, dict):
        for one in cast(Mapping[str, object], value).values():
            _check(one, depth + 1)
    elif isinstance(value, list):
        for one in cast(list[object], value):
            _check(one, depth + 1)
    elif not isinstance(value, str | bool | None) and not _is_number(value):
        raise CannotEncode(f"not yaml: {kind_of(value)}")


def _is_number(value: object) -> bool:
    return (isinstance(value, float) and math.isfinite(value)) or (isinstance(value, int) and LEAST <= value <= MOST)


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


YAML: Final = Yaml()


def yaml_codec(config: Mapping[str, object]) -> Yaml:
    """One YAML document. Needs the extra `yaml`."""
    known_keys("codec yaml", config)
    return YAML
