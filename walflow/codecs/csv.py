"""One record of comma-separated values (RFC 4180): an array of strings, as in tremor.

Unlike in tremor, what follows the first record is not dropped: an event with several records is refused.
"""

import csv
import io
from collections.abc import Mapping
from typing import Final, cast

from walflow.codecs.json import JSON
from walflow.codecs.parts import bytes_of, text_of
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.plugins import known_keys
from walflow_kernel.values import kind_of

csv.field_size_limit((1 << 31) - 1)  # of the process; `max_event_bytes` is ours


class Csv(EventCodec):
    name = "csv"

    def decode(self, payload: bytes) -> object:
        text = text_of(payload)
        try:
            # lines, as the reader itself would take a file's: a quoted value may hold newlines
            records = csv.reader(io.StringIO(text, newline="") if "\n" in text else (text,), strict=True)
            record = next(records, None)
            if not record:
                raise CannotDecode("not csv: no record")
            if next(records, None) is not None:
                raise CannotDecode("not csv of one record: others follow it")
        except csv.Error as error:
            raise CannotDecode(f"not csv: {error}") from error
        return record

    def encode(self, value: object) -> bytes:
        if not isinstance(value, list):
            raise CannotEncode(f"only an array can be written as csv, not {kind_of(value)}")
        written = io.StringIO(newline="")
        fields = [_field(field) for field in cast(list[object], value)]
        if not fields:
            raise CannotEncode("an empty array is no record of csv")
        try:
            csv.writer(written).writerow(fields)
        except csv.Error as error:
            raise CannotEncode(f"not csv: {error}") from error
        return bytes_of(written.getvalue().removesuffix("\r\n"))


def _field(value: object) -> str:
    return value if isinstance(value, str) else JSON.encode(value).decode()


CSV: Final = Csv()


def csv_codec(config: Mapping[str, object]) -> Csv:
    """One record of comma-separated values (RFC 4180), as an array of strings. Of other values in the array, the JSON
    is written."""
    known_keys("codec csv", config)
    return CSV
