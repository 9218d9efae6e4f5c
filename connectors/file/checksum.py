"""CRC32C, with the type that google_crc32c does not declare."""

from collections.abc import Callable
from typing import Final

from google_crc32c import value  # pyright: ignore[reportUnknownVariableType]

crc32c: Final[Callable[[bytes], int]] = value  # pyright: ignore[reportUnknownVariableType]
