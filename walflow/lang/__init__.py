"""Flow files -> FlowConfig. The runtime knows no syntax. Mistakes become diagnostics and are never raised."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from walflow.diagnostics import Diagnostic, Source, error, has_errors, in_order
from walflow.lang.allow import allowances
from walflow.lang.ast import DefineFlow
from walflow.lang.config import FlowConfig
from walflow.lang.deploy import Deployment
from walflow.lang.environment import Environment
from walflow.lang.files import ALL_SAVED, Unsaved, read
from walflow.lang.legacy import Legacy
from walflow.lang.modules import Library, ModuleBlock
from walflow.lang.outside import OutsideArgs

__all__ = ["load"]


def load(
    paths: Sequence[str | Path],
    args: Sequence[str] = (),
    *,
    reads_secrets: bool = False,
    unsaved: Unsaved = ALL_SAVED,
) -> tuple[FlowConfig, list[Diagnostic]]:
    """All files of one `run`, together. The FlowConfig contains what could be read, also if there are errors. `args`:
    NAME=VALUE, from the command line. `reads_secrets`: the files of `secret(…)` are read.
    `unsaved`: texts of an editor."""
    found: list[Diagnostic] = []
    outside = OutsideArgs(found.append)
    outside.read(args)
    environment = Environment(reads_secrets)
    deployment = Deployment(found.append, outside)
    legacy = Legacy(found.append)
    files: list[ModuleBlock] = []
    sources: list[Source] = []
    read_files: list[Source] = []
    for order, path in enumerate(paths):
        source = read(Path(path), order, unsaved)
        if isinstance(source, Diagnostic):
            found.append(source)
            continue
        read_files.append(source)
        if Legacy.reads(Path(path)):
            legacy.read(source, Path(path))
            continue
        sources.append(source)
        library = Library(Path(path).parent, found.append, environment, unsaved)
        file = library.file(source)
        deployment.add(file, library)
        files.append(file)
        read_files += library.sources
    config = FlowConfig((*deployment.config().flows, *legacy.flows()))
    if not has_errors(found):  # otherwise an error may have hidden a `deploy`
        left_out = [diagnostic for file in files for diagnostic in deployment.left_out(file)]
        found += left_out if config.flows else [_nothing_deployed(files, legacy.given)]
        found += outside.unused()
        found += deployment.unread()
    environment.look_for(_configured(config))
    sound = not has_errors(found)
    config = replace(config, sound=sound, allowances=allowances(sources), environment=environment)
    return replace(config, sources=tuple(read_files)), in_order(found)


def _configured(config: FlowConfig) -> Iterator[object]:
    for flow in config.flows:
        written = [connector.settings for connector in flow.connectors]
        written += [operator.settings for pipeline in flow.pipelines for operator in pipeline.operators]
        yield from (part.constant.value for settings in written for part in settings.values())


def _nothing_deployed(files: Sequence[ModuleBlock], legacy: bool) -> Diagnostic:
    if legacy and not files:
        hint = 'what a binding links is made by a `mapping`: `/binding/id/01: {instance: "01"}`'
        return error("nothing is deployed", hint=hint)
    flows = [s.name.text for file in files for s in file.statements if isinstance(s, DefineFlow)]
    return error("nothing is deployed", hint=f"end the file with `deploy flow {flows[0] if flows else '…'};`")
