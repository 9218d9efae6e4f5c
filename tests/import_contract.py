"""A contract of import-linter that is an allow-list: what some modules may import of others, and nothing else.

source_modules   packages, whose modules are held
of               packages that they may not import from,
allowed          but for these modules, each meant alone: its submodules are not allowed with it
"""

from typing import Any

import grimp
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application import contract_utils


class AllowedImports(Contract):
    type_name = "allowed"

    source_modules = fields.ListField(subfield=fields.StringField())
    of = fields.ListField(subfield=fields.StringField())
    allowed = fields.ListField(subfield=fields.StringField())
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        held: Any = self
        removed = contract_utils.remove_ignored_imports_and_report(
            graph=graph, ignore_imports=held.ignore_imports, unmatched_alerting=contract_utils.AlertLevel.ERROR
        )
        importers = {one for source in held.source_modules for one in _with_descendants(graph, source)}
        closed = {one for package in held.of for one in _with_descendants(graph, package)} - set(held.allowed)
        found = [
            (importer, imported, graph.get_import_details(importer=importer, imported=imported)[0]["line_number"])
            for importer in sorted(importers)
            for imported in sorted(graph.find_modules_directly_imported_by(importer) & (closed - importers))
        ]
        unused = sorted(
            module for module in held.allowed if not graph.find_modules_that_directly_import(module) & importers
        )
        return ContractCheck(
            kept=not found and not unused,
            warnings=list(removed.warnings),
            ignored_import_count=removed.ignored_import_count,
            metadata={"found": found, "unused": unused},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported, line in check.metadata["found"]:
            output.print_error(f"{importer} imports {imported} (l.{line}), which is not in `allowed`", bold=False)
        for module in check.metadata["unused"]:
            output.print_error(f"{module} is allowed and nothing imports it", bold=False)


def _with_descendants(graph: grimp.ImportGraph, module: str) -> set[str]:
    return {module, *graph.find_descendants(module)}
