"""`event.line ~= re|(?P<level>[A-Z]+)|`: what stands before the bars is an extractor, what stands between them its argument.

`extractor` makes one when a file is loaded, one module a kind. Each takes a string and gives what it found in it: a
record, a number, a string or true. Anything but a string, and a string that does not fit, is NO_MATCH and no error, for
a `match` goes on with its next case. All take time and memory in proportion to the string, whatever stands in it.
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
    """Raises BadExtractor, with a sentence for whoever wrote the file. What it gives raises CannotApply, an error of the
    event, only where what it would extract is too large."""
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
