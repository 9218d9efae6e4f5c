"""What is known when the file is read, and needs locals: a function of the file, `match`, `for`. It is compiled as
for events, and run once.
"""

from itertools import count
from typing import Any

from walflow.compile.bodies import Body
from walflow.compile.constant import Constant, derived
from walflow.compile.effects import Effects
from walflow.compile.expressions import Base, Here
from walflow.compile.folding import attempt, concealed, plain
from walflow.compile.listing import Listing, Table
from walflow.compile.lowering import term_of
from walflow.compile.nodes import Expr
from walflow.compile.program import Term
from walflow.compile.scope import LoadScope
from walflow.diagnostics import hides
from walflow_kernel.generated import define
from walflow_kernel.moment import Moment


def evaluated(node: Expr, scope: LoadScope) -> Constant | None:
    """None: it has no value, and the reason was reported."""
    body = Body(scope, "constant")
    term = term_of(node, body)
    if term is None:
        return None
    moment = scope.moment()
    return attempt(lambda: derived(_run(term, body.unsure, moment), node.span), node.span, scope)


def _run(term: Term, unsure: list[int], moment: Moment) -> object:
    table, helpers = Table(), list[Listing]()
    make = Effects(table, helpers)
    inner = make.listing = Listing(1)
    for slot in unsure:
        inner.put(f"{make.slot(slot)} = ABSENT")
    inner.put(f"return {make.atom(term, Here(Base(None), Base(None)))}")
    whole = Listing()
    with whole.block("def run(now):"):
        for helper in helpers:
            whole.add(helper)
    whole.lines += inner.lines
    names: dict[str, Any] = {name: plain(value) for name, value in table.names.items()}
    run = define(f"<walflow constant {next(_numbers)}>", "\n".join(whole.lines) + "\n", names)
    return concealed(run(moment), *(value for value in table.names.values() if hides(value)))


_numbers = count(1)
