"""std::string: lengths and places are counted in characters, only `bytes` counts bytes."""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, Read, bounded, function, too_long
from walflow_kernel.text import spliced
from walflow_kernel.values import LONGEST

# Unicode's White_Space; str.strip() also removes four control characters
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


class FormatTemplate(NamedTuple):
    """`the {} is {}`: the texts before, between and after the placeholders."""

    texts: tuple[str, ...]


def template(text: str) -> FormatTemplate:
    texts = [""]
    characters = iter(text)
    for one in characters:
        if one not in "{}":
            texts[-1] += one
            continue
        following = next(characters, "")
        if one == following:
            texts[-1] += one
        elif one + following == "{}":
            texts.append("")
        else:
            raise CannotApply(f"a `{one}` of its own is written `{one}{one}`")
    return FormatTemplate(tuple(texts))


def formatted(format_: Annotated[FormatTemplate, Read(template)], *values: object) -> str:
    holes = len(format_.texts) - 1
    if len(values) != holes:
        raise CannotApply(f"it has {holes} `{{}}` for {len(values)} values")
    filled = [part for value, text in zip(values, format_.texts[1:], strict=True) for part in (spliced(value), text)]
    return bounded("".join([format_.texts[0], *filled]))


def is_empty(text: str) -> bool:
    return not text


def length(text: str) -> int:
    return len(text)


def in_bytes(text: str) -> int:
    return len(encoded(text))


def replace(text: str, from_: str, to: str) -> str:
    if len(text) + text.count(from_) * max(0, len(to) - len(from_)) > LONGEST:
        raise too_long()
    return text.replace(from_, to)


def trim(text: str) -> str:
    return text.strip(_SPACE)


def trim_start(text: str) -> str:
    return text.lstrip(_SPACE)


def trim_end(text: str) -> str:
    return text.rstrip(_SPACE)


def lowercase(text: str) -> str:
    return text.lower()


def uppercase(text: str) -> str:
    return text.upper()


def capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def substr(text: str, start: int, end: int) -> str:
    if not 0 <= start <= end:
        raise CannotApply(f"there is nothing from {start} to {end}")
    return text[start:end]


def split(text: str, separator: str) -> list[object]:
    return list(text.split(separator)) if separator else ["", *text, ""]


def contains(text: str, string: str) -> bool:
    return string in text


def from_utf8_lossy(bytes_: bytes) -> str:
    return bytes_.decode(errors="replace")


def into_binary(text: str) -> bytes:
    return encoded(text)


def reverse(text: str) -> str:
    return text[::-1]


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        raise CannotApply("a character that UTF-8 cannot hold") from None


FUNCTIONS: Mapping[str, Function] = {
    "format": function(formatted),
    "is_empty": function(is_empty),
    "len": function(length),
    "bytes": function(in_bytes),
    "replace": function(replace, grows=True),
    "trim": function(trim),
    "trim_start": function(trim_start),
    "trim_end": function(trim_end),
    "lowercase": function(lowercase),
    "uppercase": function(uppercase),
    "capitalize": function(capitalize),
    "substr": function(substr),
    "split": function(split),
    "contains": function(contains),
    "from_utf8_lossy": function(from_utf8_lossy),
    "into_binary": function(into_binary),
    "reverse": function(reverse),
}
