"""What may be told of an error: never what an event held.

Spark quotes values in every message about data (SQLSTATE 22, and P0001, which a query raises itself), and what user
code raises in a task may quote them too. Of such an error a log line has the class or the type; the text is for
debugging. The daemon, which reads what Spark prints, uses this module as well.
"""

import re
from typing import Final

TRACEBACK: Final = "Traceback (most recent call last):"
LEFT_OUT: Final = "the text may hold an event and is left out"

OURS: Final = re.compile(r"^(?:walflow|pyspark_walflow)\.\w+(?:\.\w+)*: ")  # the name of an exception before its line
_DATA: Final = re.compile(r"\bSQLSTATE: (?:22|P0)\w*")
_CLASS: Final = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_FRAME: Final = re.compile(r'^\s*File "([^"]+)", line (\d+)')
_MISSING: Final = re.compile(r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError|MemoryError)\b")  # names, and no data
_JAVAS: Final = re.compile(r"\b((?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)): (.*)", re.DOTALL)
_OF_THE_SYSTEM: Final = (
    "java.io.",
    "java.net.",
    "java.nio.",
    "org.apache.hadoop.",
)  # disks and networks, and no data
_BARE: Final = re.compile(
    r"\b(\w*(?:NumberFormat|DateTime|Arithmetic|JsonP|MalformedInput)\w*Exception): .*", re.DOTALL
)


def of_spark(text: str, line: str) -> str:
    """`line`, which is what `text` comes to, without data."""
    if _DATA.search(text):
        return f"{_class(line)}an event does not fit the query; {LEFT_OUT}"
    return _BARE.sub(rf"\1; {LEFT_OUT}", line)


def of_python(raised: str, place: str = "") -> str:
    """`raised`: the last line of a traceback. `place`: where it was raised."""
    if OURS.match(raised) or _MISSING.match(raised) or ": " not in raised:
        return raised
    return f"{raised.partition(': ')[0]}{f' at {place}' if place else ''}; {LEFT_OUT}"


def of_record(text: str) -> str:
    """A line of Spark's own log."""
    found = _JAVAS.search(text)
    if found and not found[1].startswith(_OF_THE_SYSTEM):
        return f"{text[: found.end(1)]}: {_class(found[2])}{LEFT_OUT}"
    return of_spark(text, text)


def place_of(line: str) -> str:
    """`job.py:3`, of a line of a traceback that names one."""
    found = _FRAME.match(line)
    return f"{found[1]}:{found[2]}" if found else ""


def _class(text: str) -> str:
    found = _CLASS.search(text)
    return f"[{found[1]}] " if found else ""
