"""Avro, by fastavro: one value in a container of its own, as tremor writes it, or a bare datum.

The schema is the flow file's alone. A container that names another one is refused, and so is one with compressed
blocks: bytes of a peer decide neither what is parsed nor how large it gets. Logical types are read as what is below
them, as in tremor: a timestamp is an integer, a decimal is bytes.

A log keeps a codec's configuration beside its events, so the schema stands in it whole: the file may change, or go.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from walflow.codecs.msgpack import is_finite
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode, WalflowError
from walflow.extras import lacks
from walflow.plugins import known_keys

try:
    import fastavro
    from fastavro.schema import to_parsing_canonical_form
    from fastavro.validation import ValidationError, validate
except ImportError as missing:
    raise WalflowError(lacks("the codec avro", "avro")) from missing

MAGIC: Final = b"Obj\x01"
SYNC: Final = 16  # bytes
FORMATS: Final = ("container", "datum")
_METADATA: Final = {"type": "map", "values": "bytes"}
_header: Any = fastavro.parse_schema(_METADATA)
_avro: Any = fastavro  # its types are partly unknown
_read: Callable[[io.BytesIO, Any], object] = _avro.schemaless_reader
_write: Callable[..., None] = _avro.schemaless_writer
_LONG: Final = "long"


class Avro(EventCodec):
    name = "avro"

    def __init__(self, schema: object, form: str) -> None:
        """Raises WalflowError for a schema that cannot be used."""
        self.config = {"schema": schema, "format": form}
        self._form = form
        self._schema: Any = _parsed(schema)
        self._canonical = to_parsing_canonical_form(self._schema)
        text = json.dumps(_without_logical_types(schema)).encode()
        self._sync = hashlib.sha256(text).digest()[:SYNC]  # tells nothing of the data, so it may be the same in each
        head = io.BytesIO()
        _write(head, _header, {"avro.schema": text, "avro.codec": b"null"})
        self._head = MAGIC + head.getvalue() + self._sync
        self._names_ours = lru_cache(maxsize=16)(self._is_ours)  # a sender names the same one each time

    def __repr__(self) -> str:
        return f"<Avro {self._form}>"

    def decode(self, payload: bytes) -> object:
        data = io.BytesIO(payload)
        try:
            value = self._contained(data) if self._form == "container" else _read(data, self._schema)
        except CannotDecode:
            raise
        except Exception as error:  # of damaged bytes it raises IndexError, EOFError, UnicodeDecodeError and others
            raise CannotDecode(f"not avro of this schema: {_words(error)}") from error
        if data.tell() != len(payload):
            raise CannotDecode(f"not avro of this schema: {len(payload) - data.tell()} bytes follow the value")
        if not is_finite(value):
            raise CannotDecode("not avro that is supported: infinity or NaN")
        return value

    def encode(self, value: object) -> bytes:
        written = io.BytesIO()
        try:
            validate(cast(Any, value), self._schema, raise_errors=True, strict=False)
            _write(written, self._schema, value, disable_tuple_notation=True)
        except ValidationError as error:
            raise CannotEncode(f"not of this avro schema: {_words(error)}") from error
        except Exception as error:  # as above
            raise CannotEncode(f"not of this avro schema: {_words(error)}") from error
        datum = written.getvalue()
        if self._form == "datum":
            return datum
        block = io.BytesIO()
        _write(block, _LONG, 1)
        _write(block, _LONG, len(datum))
        return b"".join((self._head, block.getvalue(), datum, self._sync))

    def whole(self, payload: bytes) -> bool:
        return True

    def _contained(self, data: io.BytesIO) -> object:
        if data.read(len(MAGIC)) != MAGIC:
            raise CannotDecode("not avro: no container; for bare values, set `format` to datum")
        metadata = cast(Mapping[str, bytes], _read(data, _header))
        codec = metadata.get("avro.codec", b"null")
        if codec != b"null":
            raise CannotDecode(f"not avro that is supported: compressed with {codec[:20]!r}")
        if not self._names_ours(metadata.get("avro.schema", b"")):
            raise CannotDecode("not avro of this schema: the container names another one")
        sync = data.read(SYNC)
        count, size = _read(data, _LONG), _read(data, _LONG)
        if count != 1:
            raise CannotDecode(f"not avro of one value: {count} are in the first block")
        begin = data.tell()
        value = _read(data, self._schema)
        if data.tell() - begin != size or data.read(SYNC) != sync:
            raise CannotDecode("not avro: the block is damaged")
        return value

    def _is_ours(self, text: bytes) -> bool:
        if len(text) > 2 * len(self._head) + 65536:
            return False
        try:
            return to_parsing_canonical_form(_parsed(json.loads(text))) == self._canonical
        except (WalflowError, ValueError, RecursionError):
            return False


def _parsed(schema: object) -> Any:
    """Raises WalflowError."""
    try:
        bare = _without_logical_types(schema)
        _check(bare)
        return fastavro.parse_schema(cast(Any, bare), _force=True)
    except WalflowError:
        raise
    except Exception as error:
        raise WalflowError(f"avro cannot use this schema: {_words(error)}") from error


def _without_logical_types(schema: object) -> object:
    if isinstance(schema, dict):
        members = cast(Mapping[str, object], schema).items()
        return {name: _without_logical_types(one) for name, one in members if name != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(one) for one in cast(list[object], schema)]
    return schema


def _check(schema: object) -> None:
    """Raises WalflowError. A recursive type would be read as deep as a peer likes, by C code, until the process dies
    of it (a megabyte does it); an array whose items take no bytes, as long as a peer likes."""
    named: dict[str, object] = {}
    _check_part(schema, (), named)


def _check_part(schema: object, within: tuple[str, ...], named: dict[str, object]) -> None:
    if isinstance(schema, list):
        for one in cast(list[object], schema):
            _check_part(one, within, named)
    elif isinstance(schema, str):
        if _last(schema) in within:
            raise WalflowError(f"avro cannot use this schema: {schema} contains itself")
    elif isinstance(schema, dict):
        made = cast(Mapping[str, object], schema)
        names = [_last(name) for name in (made.get("name"), *cast(list[object], made.get("aliases", [])))]
        for one in _parts(made):
            _check_part(one, (*within, *filter(None, names)), named)
        named.update(dict.fromkeys(filter(None, names), made))
        if made.get("type") == "array" and _may_be_empty(made.get("items"), named):
            raise WalflowError("avro cannot use this schema: an array's items may take no bytes")


def _last(name: object) -> str:
    """Without its namespace, which may be inherited: types of one name count as one."""
    return name.rpartition(".")[2] if isinstance(name, str) else ""


def _parts(schema: Mapping[str, object]) -> Iterator[object]:
    yield from (schema[key] for key in ("items", "values") if key in schema)
    if "fields" not in schema:
        yield schema.get("type")
    for field in cast(list[Mapping[str, object]], schema.get("fields", [])):
        yield field.get("type")


def _may_be_empty(schema: object, named: Mapping[str, object]) -> bool:
    """A union takes a byte at least, and so does what is not named here."""
    if isinstance(schema, str):
        return schema == "null" or (_last(schema) in named and _may_be_empty(named[_last(schema)], named))
    if not isinstance(schema, dict):
        return False
    made = cast(Mapping[str, object], schema)
    if "fields" in made:
        fields = cast(list[Mapping[str, object]], made["fields"])
        return all(_may_be_empty(field.get("type"), named) for field in fields)
    if made.get("type") == "fixed":
        return not made.get("size")
    return _may_be_empty(made.get("type"), named)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].removesuffix(": ")


def avro_codec(config: Mapping[str, object]) -> Avro:
    """A value of the Avro `schema` (a record), or of that in `schema_file`, in a container of its own; with `format`
    `"datum"`, without one. Needs the extra `avro`.

    Raises WalflowError.
    """
    known_keys("codec avro", config, ("schema", "schema_file", "format"))
    form = config.get("format", "container")
    if form not in FORMATS:
        raise WalflowError(f"avro has the formats {' and '.join(FORMATS)}, not {form!r}")
    if ("schema" in config) is ("schema_file" in config):
        raise WalflowError("avro wants either a schema or a schema_file")
    schema = config["schema"] if "schema" in config else _from_file(config["schema_file"])
    return Avro(schema, form)


def _from_file(path: object) -> object:
    if not isinstance(path, str):
        raise WalflowError(f"avro wants the path of a file as schema_file, not {path!r}")
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise WalflowError(f"avro cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise WalflowError(f"{path} is no schema of avro: {error}") from error
