"""The events of the load: each can be told from all others, and it can be seen whether it was altered."""

import json
import re
from typing import Final

PAD: Final = "abcdefghijklmnopqrstuvwxyz0123456789" * 4
FOUND: Final = re.compile(rb'\{"n":(\d+),[^\n]*\}')


def event(number: int) -> bytes:
    """Of 190 bytes, without a newline."""
    return json.dumps({"n": number, "sum": number * 2654435761 % 2**32, "pad": PAD}, separators=(",", ":")).encode()


def numbers(data: bytes) -> list[tuple[int, bool]]:
    """Of the events in it, each with whether it is what was sent. A header of syslog may stand before each."""
    return [(number, one[0] == event(number)) for one in FOUND.finditer(data) for number in [int(one[1])]]
