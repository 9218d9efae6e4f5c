"""All families of metrics: walflow's own, and those that connectors and operators declare where they count."""

from collections.abc import Mapping

from walflow.families import Families
from walflow.metrics import CORE
from walflow.operators import registered
from walflow.plan import Assembly
from walflow.registry import connectors


def of_assembly(assembly: Assembly) -> Mapping[str, Families]:
    """By the label `type`."""
    operators = {one.kind: one.operator.families for plan in assembly.pipelines for one in plan.operators}
    return operators | {plan.kind: plan.connector.families for plan in assembly.connectors}


def help_of(name: str, type: str, families: Mapping[str, Families]) -> str:
    """`type`: whose metric it is. A connector need not declare what it counts."""
    known = CORE.get(name) or families.get(type, {}).get(name)
    return known.help if known is not None else f"Of connector type {type}."


def of_operators(distribution: str) -> Mapping[str, Families]:
    types = registered().of(distribution)
    return {kind: types[kind].families for kind in sorted(types)}


def of_connectors(distribution: str) -> Mapping[str, Families]:
    """By type, of one distribution."""
    types = connectors().of(distribution)
    return {kind: types[kind].families for kind in sorted(types)}
