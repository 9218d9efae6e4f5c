"""std::url."""

from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, bounded, function
from walflow_kernel.std.string import encoded


def encode(text: str) -> str:
    """Encodes all characters but letters and digits, as in tremor:
    also `-`, `_`, `.` and `~`, which `quote` leaves."""
    plain = quote(encoded(text), safe="")
    return bounded(plain.replace("-", "%2D").replace("_", "%5F").replace(".", "%2E").replace("~", "%7E"))


def decode(text: str) -> str:
    try:
        return unquote_to_bytes(encoded(text)).decode()
    except UnicodeDecodeError:
        raise CannotApply("what is encoded is not UTF-8") from None


FUNCTIONS: Mapping[str, Function] = {"encode": function(encode), "decode": function(decode)}
