"""`patch` and `merge` as they are written -> functions. What has a value at load is looked at there."""

from collections.abc import Callable

from walflow.diagnostics import error
from walflow.expr import patch
from walflow.expr.constant import kind_of
from walflow.expr.evaluate import Evaluate
from walflow.expr.moves import moves
from walflow.expr.nodes import Expr, Merge, Operation, Patch, Text
from walflow.expr.scope import Scope

Compile = Callable[[Expr, Scope], Evaluate | None]


def patching(node: Patch, scope: Scope, compile_: Compile) -> Evaluate | None:
    of = _record("patch", node.of, scope, compile_)
    operations = [_operation(operation, scope, compile_) for operation in node.operations]
    found = [operation for operation in operations if operation is not None]
    return None if of is None or len(found) < len(operations) else patch.patched(of, found)


def merging(node: Merge, scope: Scope, compile_: Compile) -> Evaluate | None:
    of, spec = (_record("merge", part, scope, compile_) for part in (node.of, node.spec))
    return None if of is None or spec is None else patch.merged(of, spec)


def _operation(node: Operation, scope: Scope, compile_: Compile) -> patch.Operation | None:
    key = None if node.key is None else _key(node.key, scope, compile_)
    value = _value(node, scope, compile_)
    if (node.key and key is None) or (node.value and value is None):
        return None
    return patch.operation(node.word, key, value)


def _key(node: Text, scope: Scope, compile_: Compile) -> Evaluate | str | None:
    key = compile_(node, scope)
    return key if key is None or moves(node, scope) else str(key(None, {}))


def _value(node: Operation, scope: Scope, compile_: Compile) -> Evaluate | None:
    if node.value is None:
        return None
    if node.word == "merge" or node.key is None:
        return _record(node.word, node.value, scope, compile_)
    return compile_(node.value, scope)


def _record(word: str, node: Expr, scope: Scope, compile_: Compile) -> Evaluate | None:
    found = compile_(node, scope)
    if found is None or moves(node, scope):
        return found
    value = found(None, {})
    if not isinstance(value, dict):
        scope.report(error(f"`{word}` takes a record, not {kind_of(value)}", node.span))
        return None
    return found
