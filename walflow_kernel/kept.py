"""A state as bytes, and back: what of a pipeline survives between two batches of Spark's.

It is a pickle of plain values: None, booleans, numbers, strings, bytes, lists, tuples and records. Both ways refuse
everything else, so no class and no function is ever named in it, and to read one runs no code.
"""

import io
import pickle
from typing import Any, Final, NoReturn

HEAD: Final = b"walflow state 1\n"  # of another version: the number is another


class NotPlain(TypeError):
    """A value that no state may hold. The text names its type."""


class NotAState(ValueError):
    """These bytes are no state of this version."""


def pack(value: object) -> bytes:
    """Raises NotPlain."""
    written = io.BytesIO()
    written.write(HEAD)
    _Packer(written, protocol=5).dump(value)
    return written.getvalue()


def unpack(data: bytes) -> Any:
    """Raises NotAState."""
    if not data.startswith(HEAD):
        begin = data[: len(HEAD)]
        raise NotAState(f"it begins with {begin!r}, and a state of this version with {HEAD!r}")
    try:
        return _Unpacker(io.BytesIO(memoryview(data)[len(HEAD) :])).load()
    except (pickle.UnpicklingError, EOFError, IndexError) as error:
        raise NotAState(f"it is damaged: {error}") from None


class _Packer(pickle.Pickler):
    def reducer_override(self, obj: Any) -> NoReturn:
        """Called for all that is not plain."""
        raise NotPlain(f"{type(obj).__qualname__} is no plain value")


class _Unpacker(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise NotAState(f"it names {module}.{name}, and a state names nothing")
