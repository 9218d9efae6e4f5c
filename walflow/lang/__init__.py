"""Flow files -> FlowConfig. The runtime knows no syntax; what is wrong is said in diagnostics, never raised."""

from collections.abc import Sequence
from pathlib import Path

from walflow.diagnostics import Diagnostic, error, in_order
from walflow.flow.config import FlowConfig
from walflow.lang.ast import DefineFlow, Deploy
from walflow.lang.deploy import Deployment
from walflow.lang.files import read
from walflow.lang.modules import Block, Library

__all__ = ["load"]


def load(paths: Sequence[str | Path]) -> tuple[FlowConfig, list[Diagnostic]]:
    """All files together, as one `run` starts them. The FlowConfig holds what could be read, errors or not."""
    found: list[Diagnostic] = []
    deployment = Deployment(found.append)
    files: list[Block] = []
    for order, path in enumerate(paths):
        source = read(Path(path), order)
        if isinstance(source, Diagnostic):
            found.append(source)
            continue
        library = Library(Path(path).parent, found.append)
        file = library.file(source)
        deployment.add(file, library)
        files.append(file)
    if len(files) == len(paths) and all(file.whole for file in files):
        found += _nothing_deployed(files)
    return deployment.config(), in_order(found)


def _nothing_deployed(files: Sequence[Block]) -> list[Diagnostic]:
    statements = [statement for file in files for statement in file.statements]
    if any(isinstance(statement, Deploy) for statement in statements):
        return []
    flows = [statement.name.text for statement in statements if isinstance(statement, DefineFlow)]
    hint = f"end the file with `deploy flow {flows[0] if flows else '…'};`"
    return [error("nothing is deployed", hint=hint)]
