"""The syntax errors of one file, without the files that it uses."""

import os

from walflow.diagnostics import Diagnostic, Source
from walflow.lang.parser import parse, parse_query, parse_script


def syntax_errors(source: Source) -> list[Diagnostic]:
    """By the name's suffix it is a flow file or a module, a pipeline (`.trickle`) or a script (`.tremor`)."""
    suffix = os.path.splitext(source.name)[1]
    found = _errors(source, suffix)
    # a .tremor file is a script, or a module of functions
    return _errors(source, ".troy") and found if suffix == ".tremor" and found else found


def _errors(source: Source, suffix: str) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    if suffix == ".trickle":
        parse_query(source, "pipeline", found.append)
    elif suffix == ".tremor":
        parse_script(source, "script", (), found.append)
    else:
        parse(source, found.append)
    return [one for one in found if one.severity == "error"]
