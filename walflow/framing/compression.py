"""Compressed data by format: how to recognise it, decompress it in limited steps, and compress.

A few bytes of it can become a thousand times as many, or thirty thousand (zstd). So no function here returns more
than it was asked for, and the memory that a format needs is limited too.
"""

import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, cast

import lz4.frame  # pyright: ignore[reportMissingTypeStubs]

from walflow.errors import WalflowError
from walflow.framing import brotli, snappy

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WINDOW_BITS: Final = 24  # of what came before, 16 MiB may be referred to: xz up to -7, zstd up to -19
FILE_WINDOW_BITS: Final = 27  # 128 MiB: for a file, of which there are few
SLICE: Final = 256 << 10  # bytes asked for at a time


class Corrupt(WalflowError):
    """The data is damaged. The text names the format."""


class Inflator(Protocol):
    """One member, from its first byte on."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None:
        """The bytes after its end; only valid after the end."""
        ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Zlib:
    """zlib's decompressor, with the interface of the others."""

    def __init__(self, window_bits: int) -> None:
        self._inner = zlib.decompressobj(window_bits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        # a full `out` may leave some inside that no input is left for
        self.needs_input = not self._inner.unconsumed_tail and len(out) < max_length
        return out


class NotCompressed:
    """Not compressed."""

    eof = False
    needs_input = True
    may_end = True
    unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return data


class Format(NamedTuple):
    """`magics`: the first bytes of its data, none if it cannot be recognised. `levels`: lowest and highest.
    `compress`: a payload at a level."""

    magics: tuple[bytes, ...]
    inflator: Callable[[int], Inflator]
    compress: Callable[[bytes, int], bytes]
    levels: tuple[int, int]
    level: int


def _gzip_inflator(window_bits: int) -> Inflator:
    return _Zlib(31)


def _zlib_inflator(window_bits: int) -> Inflator:
    return _Zlib(15)


def _gzip(data: bytes, level: int) -> bytes:
    return gzip.compress(data, level, mtime=0)


def _xz(data: bytes, level: int) -> bytes:
    return lzma.compress(data, preset=level)


def _xz_inflator(window_bits: int) -> Inflator:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=(1 << window_bits) + (2 << 20))


def _zstd(data: bytes, level: int) -> bytes:
    return zstd.compress(data, level)


def _zstd_inflator(window_bits: int) -> Inflator:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_bits})


_lz4 = cast(Any, lz4.frame)  # it has no types


def _lz4_compress(data: bytes, level: int) -> bytes:
    return bytes(_lz4.compress(data, compression_level=level))


def _lz4_inflator(window_bits: int) -> Inflator:
    return cast(Inflator, _lz4.LZ4FrameDecompressor())


def _snappy_inflator(window_bits: int) -> Inflator:
    return snappy.SnappyInflator()


def _brotli_inflator(window_bits: int) -> Inflator:
    return brotli.BrotliInflator()


FORMATS: Final[Mapping[str, Format]] = {
    "gzip": Format((b"\x1f\x8b",), _gzip_inflator, _gzip, (0, 9), 6),
    "zlib": Format((b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"), _zlib_inflator, zlib.compress, (0, 9), 6),
    "xz": Format((b"\xfd7zXZ\0",), _xz_inflator, _xz, (0, 9), 6),
    "lz4": Format((b"\x04\x22\x4d\x18",), _lz4_inflator, _lz4_compress, (0, 16), 4),
    "zstd": Format((b"\x28\xb5\x2f\xfd",), _zstd_inflator, _zstd, (-7, 22), 3),
    "snappy": Format((snappy.MAGIC,), _snappy_inflator, snappy.compress, (0, 0), 0),
    "br": Format((), _brotli_inflator, brotli.compress, (0, 11), 5),
}
ALIASES: Final = {"xz2": "xz"}  # tremor's
NEEDS: Final = {"snappy": snappy.check, "br": brotli.check}  # those of an extra

_FAULTS = (zlib.error, lzma.LZMAError, zstd.ZstdError, RuntimeError, ValueError, EOFError, MemoryError)


def format_named(name: object, step: str) -> str:
    """Raises WalflowError."""
    known = ALIASES.get(name, name) if isinstance(name, str) else name
    if isinstance(known, str) and known in FORMATS:
        if known in NEEDS:
            NEEDS[known]()
        return known
    raise WalflowError(f"{step} has the algorithms {', '.join(FORMATS)}, not {name!r}")


def recognised(beginning: bytes) -> str | None:
    """The format of data that begins with these bytes; "" if there is none, None if more bytes are needed to know."""
    for name, made in FORMATS.items():
        if beginning.startswith(made.magics):
            return name
    if any(magic.startswith(beginning) for made in FORMATS.values() for magic in made.magics):
        return None
    return ""


class Members:
    """Compressed members one after the other, decompressed as they come. `algorithm`: the format of each; None:
    recognised by the first bytes, and data of no known format is passed on. Zeros between members are padding, as in
    gzip and xz."""

    def __init__(self, algorithm: str | None, window_bits: int = WINDOW_BITS) -> None:
        self._algorithm = algorithm
        self._window_bits = window_bits
        self._member: Inflator | None = None
        self._name = algorithm or ""
        self._beginning = b""  # of a member, too short to tell
        self._rest = b""
        self._any = False

    @property
    def may_end(self) -> bool:
        """The data may end here, though its member has no end of its own."""
        return isinstance(self._member, NotCompressed | snappy.SnappyInflator) and self._member.may_end

    @property
    def plain(self) -> bool:
        """The data is not compressed and is passed on."""
        return isinstance(self._member, NotCompressed)

    def feed(self, data: bytes) -> None:
        """Call it only after `read` has returned all of the data before."""
        self._rest = data

    def read(self) -> tuple[bytes, bool] | None:
        """The next bytes, at most SLICE, and whether a member ends with them; None: more data is needed. Raises
        Corrupt."""
        while self._member is None:
            if not self._begin():
                return None
        member = self._member
        if not self._rest and member.needs_input:
            return None
        data, self._rest = self._rest, b""
        try:
            out = member.decompress(data, SLICE)
            ended = member.eof
        except _FAULTS as error:
            raise Corrupt(f"not {self._name}: {_words(error)}") from error
        if ended:
            self._rest = member.unused_data or b""
            self._member = None
        return out, ended

    def end(self) -> bytes:
        """No more data will come. Data that was too short to recognise is passed on unchanged. Raises Corrupt inside
        a member."""
        if self._member is not None and not self.may_end:
            raise Corrupt(f"the {self._name} data ended too early")
        beginning, self._beginning = self._beginning, b""
        if beginning and self._any:
            raise Corrupt(f"what follows the {self._name} data is none")
        return beginning

    def _begin(self) -> bool:
        data, self._rest = self._beginning + self._rest, b""
        self._beginning = b""
        if self._any:
            data = data.lstrip(b"\0")
        if not data:
            return False
        name = self._algorithm or recognised(data)
        if name is None:
            self._beginning = data
            return False
        if not name:
            if self._any:
                raise Corrupt(f"what follows the {self._name} data is none")
            self._member = NotCompressed()
        else:
            self._any = True
            self._name = name
            self._member = FORMATS[name].inflator(self._window_bits)
        self._rest = data
        return True


def _words(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
