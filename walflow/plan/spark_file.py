"""`--spark-config FILE`: the keys of `#!config spark` for all pipelines on Spark, in a file.
YAML is read, and so JSON."""

from pathlib import Path

from walflow.compile.constant import Constant, ConstantPart
from walflow.diagnostics import Diagnostic, Report, Span, error
from walflow.lang.files import read
from walflow.lang.legacy import document
from walflow_kernel.values import kind_of


def read_spark_file(file: Path, order: int, report: Report) -> Constant | None:
    """None: what is wrong was reported. `order`: behind the flow files, in messages."""
    source = read(file, order)
    if isinstance(source, Diagnostic):
        report(source)
        return None
    start = Span(source, 0, 0)
    if file.suffix == ".toml":
        report(error(f"{file}: TOML is not read here", hint="write it as YAML or JSON: `partitions: 4`"))
        return None
    found: list[Diagnostic] = []
    settings = document.read(source, found.append)
    for diagnostic in found:
        report(diagnostic)
    if found:
        return None
    if settings is None:
        return Constant({}, start)
    if not settings.is_record:
        hint = "write a key and its value in each line, as in `partitions: 4`"
        report(error(f"a file of Spark's settings is a record, not {kind_of(settings.value)}", settings.span, hint))
        return None
    return settings


def merged(own: Constant | None, file: Constant | None) -> Constant | None:
    """What the pipeline says itself counts, key by key; in `conf` as well. Each part keeps its place."""
    if own is None or file is None or not own.is_record:
        return file if own is None else own
    parts: dict[str | int, ConstantPart] = {**file.parts, **own.parts}
    if "conf" in own.parts and "conf" in file.parts:
        conf = own.parts["conf"]
        inner = merged(conf.constant, file.parts["conf"].constant)
        parts["conf"] = ConstantPart(conf.key, inner or conf.constant)
    return Constant({key: part.constant.value for key, part in parts.items()}, own.span, parts)
