"""What a result row becomes: one line of JSON. docs/reference/spark.md has the table.

Column by column: each becomes a list of JSON texts, and only then rows are made of them. Nested values are flat
columns as well, cut up by their offsets.
"""

import base64
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise
from json.encoder import encode_basestring
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_walflow.errors import WalflowError

Column = Any  # an array; pyarrow's stubs know one by its type, which is what is found out here
Kind = Any  # its type

VALUE: Final = "value"
NULL: Final = "null"

_quote = encode_basestring
_types: Any = pa.types


def lines_of(batch: pa.RecordBatch) -> bytes:
    """Raises WalflowError for a row that has no JSON, or not in one line."""
    if not batch.num_rows:
        return b""
    schema: Any = batch.schema
    arrays: list[Column] = [batch.column(at) for at in range(batch.num_columns)]
    if [name.lower() for name in schema.names] == [VALUE] and _is_string(schema.field(0).type):
        texts = _values(arrays[0])
    else:
        columns = [_texts(column, name) for column, name in zip(arrays, schema.names, strict=True)]
        texts = _objects(_template(schema.names), columns, batch.num_rows)
    return ("\n".join(texts) + "\n").encode()


def _values(column: Column) -> list[str]:
    """As they are: they are JSON already, and the daemon has a look at it."""
    texts = [NULL if text is None else text for text in _strings(column, VALUE)]
    if not any("\n" in text for text in texts):
        return texts
    return [_one_line(text) if "\n" in text else text for text in texts]


def _one_line(text: str) -> str:
    """In sound JSON, a newline is white space between two tokens and never within one."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WalflowError(f"column value holds text of several lines that is not JSON: {error}") from None
    return text.replace("\r", " ").replace("\n", " ")


def _texts(column: Column, name: str) -> list[str]:
    """One JSON text a value. `name`: the column's, for people."""
    texts = _of_type(column, name)
    if not column.null_count:
        return texts
    return [text if valid else NULL for text, valid in zip(texts, column.is_valid().to_pylist(), strict=True)]


def _of_type(column: Column, name: str) -> list[str]:
    """What stands where the column has a null does not matter."""
    kind = column.type
    if _types.is_null(kind):
        return [NULL] * len(column)
    if _types.is_boolean(kind) or _types.is_integer(kind):
        texts: list[str] = column.cast(pa.string()).fill_null(NULL).to_pylist()
        return texts
    if _types.is_floating(kind):
        return _floats(column)
    if _types.is_decimal(kind):
        return [NULL if value is None else _decimal(value) for value in column.to_pylist()]
    if _is_string(kind):
        return [NULL if text is None else _quote(text) for text in _strings(column, name)]
    if _types.is_binary(kind) or _types.is_large_binary(kind) or _types.is_fixed_size_binary(kind):
        return [f'"{base64.b64encode(value or b"").decode()}"' for value in column.to_pylist()]
    if _types.is_date32(kind):
        return _instants(column.cast(pa.int32()), "datetime64[D]", "")
    if _types.is_timestamp(kind):
        microseconds = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return _instants(microseconds, "datetime64[us]", "Z" if kind.tz is not None else "")
    if _types.is_time(kind):
        return [NULL if value is None else f'"{value.isoformat()}"' for value in column.to_pylist()]
    if _types.is_duration(kind):
        return [_duration(value) for value in column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()]
    if _types.is_map(kind):
        return _maps(column, name)
    if _types.is_list(kind) or _types.is_large_list(kind):
        items = _texts(column.values, name)
        return [f"[{','.join(items[start:end])}]" for start, end in _spans(column)]
    if _types.is_struct(kind):
        return _variants(column) if _is_variant(kind) else _structs(column, name)
    raise WalflowError(f"column {name} has values of type {kind}, which have no JSON: cast them")


def _template(names: Sequence[str]) -> str:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise WalflowError(f"two columns are called {twice[0]}: a JSON object has one of each name")
    return "{" + ",".join(_quote(name).replace("%", "%%") + ":%s" for name in names) + "}"


def _objects(template: str, columns: Sequence[list[str]], count: int) -> list[str]:
    return [template % row for row in zip(*columns, strict=True)] if columns else ["{}"] * count


def _structs(column: Column, name: str) -> list[str]:
    names: list[str] = [field.name for field in column.type]
    parts = [_texts(part, f"{name}.{of}") for part, of in zip(column.flatten(), names, strict=True)]
    return _objects(_template(names), parts, len(column))


def _maps(column: Column, name: str) -> list[str]:
    keys, items = column.values.flatten()
    names = [text if text.startswith('"') else _quote(text) for text in _texts(keys, name)]
    pairs = [f"{key}:{item}" for key, item in zip(names, _texts(items, name), strict=True)]
    return ["{" + ",".join(pairs[start:end]) + "}" for start, end in _spans(column)]


def _spans(column: Column) -> Iterable[tuple[int, int]]:
    return pairwise(column.offsets.to_pylist())


def _variants(column: Column) -> list[str]:
    from pyspark.sql.types import VariantVal

    values, metadata = (column.flatten()[column.type.get_field_index(name)] for name in ("value", "metadata"))
    return [
        NULL if value is None else VariantVal(value, meta).toJson()
        for value, meta in zip(values.to_pylist(), metadata.to_pylist(), strict=True)
    ]


def _is_variant(kind: Kind) -> bool:
    """Whether Spark marks the column as a variant."""
    at = kind.get_field_index("metadata")
    metadata: dict[bytes, bytes] = (kind.field(at).metadata if at >= 0 else None) or {}
    return metadata.get(b"variant") == b"true"


def _floats(column: Column) -> list[str]:
    if column.type == pa.float64():
        return [NULL if value is None else _float(repr(value), value) for value in column.to_pylist()]
    # as short as their own precision allows: 0.1 and not 0.10000000149011612
    short = column.cast(pa.float32()).cast(pa.string()).to_pylist()
    return [
        NULL if text is None else _float(text if "." in text or "e" in text else f"{text}.0", value)
        for text, value in zip(short, column.to_pylist(), strict=True)
    ]


def _float(text: str, value: float) -> str:
    """JSON has no number for the three that are none; they are spelled as Spark's to_json spells them."""
    if math.isfinite(value):
        return text
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _duration(microseconds: int | None) -> str:
    if microseconds is None:
        return NULL
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f'"{"-" if microseconds < 0 else ""}PT{seconds}{fraction}S"'


def _instants(numbers: Column, unit: str, suffix: str) -> list[str]:
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    instants: npt.NDArray[np.datetime64] = filled.astype("i8").view(unit)
    texts: list[str] = np.datetime_as_string(instants).tolist()
    return [f'"{text}{suffix}"' for text in texts]


def _strings(column: Column, name: str) -> list[str | None]:
    try:
        texts: list[str | None] = column.to_pylist()
        return texts
    except UnicodeDecodeError as error:
        raise WalflowError(
            f"column {name} holds text that is not UTF-8 ({error.reason}): cast it to binary"
        ) from None


def _is_string(kind: Kind) -> bool:
    return bool(_types.is_string(kind) or _types.is_large_string(kind))
