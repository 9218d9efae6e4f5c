"""The files of a flow, as they were read and as they are now."""

from collections.abc import Sequence
from pathlib import Path

from walflow.diagnostics import Source
from walflow.lang.files import read


def changed_files(sources: Sequence[Source]) -> list[str]:
    """Also those that are gone, or cannot be read any more."""
    return [source.name for source in sources if _text(source.name) != source.text]


def _text(name: str) -> str | None:
    found = read(Path(name), 0)
    return found.text if isinstance(found, Source) else None
