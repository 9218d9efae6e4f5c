"""A flow file's text as an assembly, for tests that build its nodes without a daemon."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connectors.file import File
from connectors.memory import Memory
from connectors.null import Null
from connectors.wal import Wal
from walflow.contract import Connector
from walflow.diagnostics import render_all
from walflow.plan import Assembly, load

KNOWN: Final[dict[str, type[Connector]]] = {"wal": Wal, "file": File, "null": Null, "memory": Memory}


@cache
def assembled(text: str) -> Assembly:
    with TemporaryDirectory() as directory:
        file = Path(directory, "main.troy")
        file.write_text(text, encoding="utf-8")
        assembly, diagnostics = load([str(file)], KNOWN)
    assert assembly is not None, render_all(diagnostics)
    return assembly
