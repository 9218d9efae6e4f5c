"""`event.line ~= re|(?P<level>[A-Z]+)|`: the name before the bars is the extractor, the text between them is its
argument.

`extractor` makes one when a file is loaded. There is one module for each type. Each extractor takes a string and
returns what it found in it: a record, a number, a string or true. A value that is no string, and a string that does
not match, give NO_MATCH. That is no error, because a `match` then tries its next case. Time and memory are in
proportion to the length of the string, with any content.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Final, cast

from walflow_kernel.extractors.contract import NO_MATCH as NO_MATCH, BadExtractor as BadExtractor, Extract as Extract

NAMES: Final = ("base64", "cidr", "datetime", "dissect", "glob", "grok", "influx", "json", "kv", "re", "rerg")
NEEDS: Final = {
    "glob": ("google-re2",),
    "grok": ("google-re2",),
    "influx": ("line-protocol-parser",),
    "re": ("google-re2",),
    "rerg": ("google-re2",),
}
"""Extractor -> the distributions that its module imports beside Python's own library."""


def extractor(name: str, argument: str) -> Extract:
    """Raises BadExtractor, with a sentence for the author of the file. The extractor itself raises CannotApply, an
    error of the event, only if its result would be too large."""
    if name not in NAMES:
        near = get_close_matches(name, NAMES, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(f'`{known}`' for known in NAMES)}"
        raise BadExtractor(f"there is no extractor `{name}`; {hint}")
    try:
        module = import_module(f"walflow_kernel.extractors.{name}")
    except ModuleNotFoundError as missing:
        raise BadExtractor(f"the extractor `{name}` needs {_needed(name)}, which is not installed here") from missing
    make = cast("Callable[[str], Extract]", module.extractor)
    try:
        return make(argument)
    except BadExtractor as bad:
        raise BadExtractor(f"`{name}`: {bad}") from None


def _needed(name: str) -> str:
    return " and ".join(f"the package {distribution}" for distribution in NEEDS.get(name, ())) or "a package"
