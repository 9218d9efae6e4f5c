"""A YAML file, where ruamel.yaml (the extra `[legacy]`) is installed.
It is imported with the first file: few flows need it."""

from walflow.compile.constant import Constant
from walflow.diagnostics import Report, Source, Span, error
from walflow.extras import lacks


def read(source: Source, report: Report) -> Constant | None:
    """None for a file without content, and for one that cannot be read: then the reason was reported."""
    try:
        from walflow.lang.legacy import yaml
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "ruamel":
            raise
        report(error(lacks("this file", "legacy"), Span(source, 0, 0)))
        return None
    return yaml.read(source, report)
