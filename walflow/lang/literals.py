"""The value of a number, a string or a name, from its characters."""

import re

from walflow_kernel.values import MOST

_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN = {'"': '"', "\\": "\\", "/": "/", "#": "#", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_BEHIND_BACKSLASH = re.compile(r"\\([\\|])")
_CONTINUED = re.compile(r"\\\r?\n")
_TOO_LONG = "this number has too many digits"
_BASES = {"0x": 16, "0b": 2}


class BadLiteral(Exception):
    """The text is the message. `at`: where the mistake begins in the literal. `width`: how long it is."""

    def __init__(self, message: str, at: int = 0, width: int | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.width = width


def integer(digits: str) -> int:
    digits = digits.replace("_", "")
    try:
        value = int(digits[2:], _BASES[digits[:2]]) if digits[:2] in _BASES else int(digits)
    except ValueError:  # `0x` alone, or more digits than Python converts
        raise BadLiteral("this is no number" if len(digits) < 100 else _TOO_LONG) from None
    if value > MOST:
        raise BadLiteral("this number is out of range: whole numbers reach from -2^63 to 2^64-1")
    return value


def number(digits: str) -> float:
    value = float(digits.replace("_", ""))
    if value == float("inf"):
        raise BadLiteral("this number is out of range")
    return value


def unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    body = match.group(1)
    if body in _PLAIN:
        return _PLAIN[body]
    code = int(body.strip("u{}"), 16) if body[0] == "u" and len(body) > 1 else -1
    # half of a surrogate pair is no character, and cannot be encoded
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise BadLiteral(f"`{match.group()}` is no escape sequence", match.start(), len(match.group()))
    return chr(code)


def extractor(written: str) -> str:
    r"""`\|` and `\\` stand for a bar and a backslash, and every other backslash for itself, as in `\d`. A backslash
    at the end of a line goes on in the next one, without the indentation that all lines share."""
    lines = [_BEHIND_BACKSLASH.sub(r"\1", line) for line in _CONTINUED.split(written)]
    shared = min((len(line) - len(line.lstrip()) for line in lines if line), default=0) if len(lines) > 1 else 0
    return "".join(line[shared:] for line in lines)


def name(written: str) -> str:
    return written.strip("`")
