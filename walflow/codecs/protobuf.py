"""A message of Protocol Buffers, whose type is in a descriptor file:
`protoc --include_imports -o types.pb types.proto`.

A message is a record with its fields' names. A field that cannot be absent (no `optional`, no message, no `oneof`) is
always there, with its default. Integers stay integers and bytes stay bytes, unlike in Protobuf's own JSON. An enum is
its name, or its number where that has no name; the keys of a map are strings.

A log keeps a codec's configuration beside its events, so the descriptors stand in it whole: the file may change, or
go.
"""

import base64
import binascii
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode, WalflowError
from walflow.extras import lacks
from walflow.plugins import known_keys
from walflow_kernel.values import kind_of

try:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass
except ImportError as missing:
    raise WalflowError(lacks("the codec protobuf", "protobuf")) from missing

_Field: Any = FieldDescriptor  # protobuf has no types of its own
_MESSAGES: Final = (_Field.CPPTYPE_MESSAGE,)
_KEYS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class Protobuf(EventCodec):
    name = "protobuf"

    def __init__(self, descriptors: bytes, message: str) -> None:
        """Raises WalflowError."""
        self.config = {"descriptors": base64.b64encode(descriptors).decode(), "message": message}
        self._message: Any = _message_class(descriptors, message)

    def __repr__(self) -> str:
        return f"<Protobuf {self.config['message']}>"

    def decode(self, payload: bytes) -> object:
        made: Any = self._message()
        try:
            made.ParseFromString(payload)
        except DecodeError as error:
            raise CannotDecode(f"not protobuf of this message: {_words(error)}") from error
        return _record(made)

    def encode(self, value: object) -> bytes:
        made: Any = self._message()
        _fill(made, value, str(self.config["message"]))
        try:
            return bytes(made.SerializeToString(deterministic=True))
        except Exception as error:  # a required field is missing, a text is no UTF-8
            raise CannotEncode(f"not protobuf of this message: {_words(error)}") from error


def _record(message: Any) -> dict[str, object]:
    record: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            of = field.message_type.fields_by_name["value"]
            record[field.name] = {_key(key): _value(of, value[key]) for key in value}
        elif _is_repeated(field):
            record[field.name] = [_value(field, one) for one in value]
        else:
            record[field.name] = _value(field, value)
    return record


def _value(field: Any, value: Any) -> object:
    if field.cpp_type in _MESSAGES:
        return _record(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    if isinstance(value, float) and not math.isfinite(value):
        raise CannotDecode("not protobuf that is supported: infinity or NaN")
    return cast(object, value)


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _fill(message: Any, value: object, place: str) -> None:
    """Raises CannotEncode."""
    if not isinstance(value, dict):
        raise CannotEncode(f"{place} is {kind_of(value)}, and no record")
    for name, member in cast(Mapping[str, object], value).items():
        # names are ASCII; half of a surrogate pair is a SystemError of protobuf's
        field = message.DESCRIPTOR.fields_by_name.get(name) if name.isascii() else None
        here = f"{place}.{name}"
        if field is None:
            raise CannotEncode(f"{here} is no field of the message")
        if member is None:
            continue
        try:
            _set(message, field, member, here)
        except CannotEncode:
            raise
        except Exception as error:  # TypeError, ValueError, UnicodeError: whatever protobuf finds wrong
            raise CannotEncode(f"{here} is {kind_of(member)}: {_words(error)}") from error


def _set(message: Any, field: Any, member: object, here: str) -> None:
    if _is_map(field):
        target = getattr(message, field.name)
        of = field.message_type.fields_by_name["value"]
        key_type = field.message_type.fields_by_name["key"].cpp_type
        for key, one in _members(member, here).items():
            if of.cpp_type in _MESSAGES:
                _fill(target[_map_key(key, key_type)], one, f"{here}.{key}")
            else:
                target[_map_key(key, key_type)] = _plain(of, one, here)
    elif _is_repeated(field):
        target = getattr(message, field.name)
        for one in _items(member, here):
            if field.cpp_type in _MESSAGES:
                _fill(target.add(), one, here)
            else:
                target.append(_plain(field, one, here))
    elif field.cpp_type in _MESSAGES:
        target = getattr(message, field.name)
        target.SetInParent()
        _fill(target, member, here)
    else:
        setattr(message, field.name, _plain(field, member, here))


def _plain(field: Any, value: object, here: str) -> object:
    if field.enum_type is not None and isinstance(value, str):
        if not value.isascii() or value not in field.enum_type.values_by_name:
            raise CannotEncode(f"{here} is {value[:40]!r}, which is no name of {field.enum_type.name}")
        return field.enum_type.values_by_name[value].number
    if isinstance(value, bool) is not (field.cpp_type == _Field.CPPTYPE_BOOL):
        raise CannotEncode(f"{here} is {kind_of(value)}, which the field does not take")
    if field.type == _Field.TYPE_BYTES and isinstance(value, str):
        return value.encode()
    return value


def _map_key(key: str, cpp_type: int) -> object:
    if cpp_type == _Field.CPPTYPE_STRING:
        return key
    return _KEYS[key] if cpp_type == _Field.CPPTYPE_BOOL else int(key)


def _members(value: object, here: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise CannotEncode(f"{here} is {kind_of(value)}, and no record")
    return cast(Mapping[str, object], value)


def _items(value: object, here: str) -> Iterable[object]:
    if not isinstance(value, list):
        raise CannotEncode(f"{here} is {kind_of(value)}, and no array")
    return cast(list[object], value)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _message_class(descriptors: bytes, message: str) -> object:
    try:
        files = FileDescriptorSet.FromString(descriptors)
        pool: Any = DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName(message))
    except KeyError as error:
        raise WalflowError(f"the descriptors have no message {message!r} (with --include_imports?)") from error
    except Exception as error:
        raise WalflowError(f"these are no descriptors of protobuf: {_words(error)}") from error


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def protobuf_codec(config: Mapping[str, object]) -> Protobuf:
    """A `message` of Protocol Buffers, by its full name, as `descriptor_file` describes it (made by
    `protoc --include_imports -o FILE`). Needs the extra `protobuf`.

    Raises WalflowError.
    """
    known_keys("codec protobuf", config, ("descriptor_file", "descriptors", "message"))
    message = config.get("message")
    if not isinstance(message, str):
        raise WalflowError("protobuf wants the full name of a message")
    if ("descriptors" in config) is ("descriptor_file" in config):
        raise WalflowError("protobuf wants either a descriptor_file or descriptors (base64)")
    return Protobuf(_descriptors(config), message)


def _descriptors(config: Mapping[str, object]) -> bytes:
    path = config.get("descriptor_file")
    try:
        if path is None:
            return base64.b64decode(str(config["descriptors"]), validate=True)
        return Path(cast(str, path)).read_bytes()
    except binascii.Error as error:
        raise WalflowError(f"protobuf: descriptors are no base64: {error}") from error
    except OSError as error:
        raise WalflowError(f"protobuf cannot read {path}: {error.strerror}") from error
    except TypeError as error:
        raise WalflowError(f"protobuf wants the path of a file as descriptor_file, not {path!r}") from error
