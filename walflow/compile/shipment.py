"""A compiled region -> plain data for Spark's executors. `walflow_kernel.shipped` runs it there."""

import io
import pickle
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, cast

import walflow_kernel.std
from walflow.compile.compiled import Compiled
from walflow.errors import WalflowError
from walflow_kernel.functions import Function
from walflow_kernel.shipped import NEEDS, Shipped

KERNEL = "walflow_kernel"


class NotShippable(WalflowError):
    """A part of a region is neither in the kernel nor in Python's library. The text names it."""


def ship(compiled: Compiled) -> Shipped:
    """Raises NotShippable."""
    reader = compiled.reader
    made = {name for name in compiled.names if name[0] == "R"}
    names = {name: value for name, value in compiled.names.items() if name not in made}
    written = io.BytesIO()
    pickler = _Table(written)
    pickler.dump(names)
    return Shipped(
        compiled.name,
        compiled.source,
        written.getvalue(),
        tuple(compiled.exits),
        tuple(None if span is None else str(span) for span in compiled.spans),
        tuple(sorted({need for module in pickler.modules for need in NEEDS.get(module, ())})),
        compiled.reads_meta,
        compiled.asks,
        compiled.draws,
        not reader.nothing,
        reader.wanted,
        compiled.made,
        compiled.repeated,
        tuple(compiled.ticking),
        None if compiled.weighs else ship(compiled.weighing),
    )


def is_ours(function: Function) -> bool:
    """Whether it is in the kernel, which executors get."""
    return id(function.apply) in _ours()


class _Table(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.modules: set[str] = set()

    def persistent_id(self, obj: Any) -> tuple[str, str, str] | None:
        found = _ours().get(id(obj)) if callable(obj) else None
        if found is not None:
            self.modules.add(found[0])
        return found

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) or callable(obj):
            module = getattr(obj, "__module__", None) or ""
            root = module.partition(".")[0]
            if root != KERNEL and root not in sys.stdlib_module_names:
                raise NotShippable(f"{getattr(obj, '__qualname__', obj)} of {module}")
            self.modules.add(module)
        return NotImplemented


@cache
def _ours() -> Mapping[int, tuple[str, str, str]]:
    """By the identity of the Python function: where it is found."""
    return {id(function.apply): place for place, function in _functions()}


def _functions() -> Iterator[tuple[tuple[str, str, str], Function]]:
    for module in pkgutil.iter_modules(walflow_kernel.std.__path__, f"{walflow_kernel.std.__name__}."):
        for attribute, value in vars(import_module(module.name)).items():
            if not attribute.isupper() or not isinstance(value, Mapping):
                continue
            for name, function in cast("Mapping[str, object]", value).items():
                if isinstance(function, Function):
                    yield (module.name, attribute, name), function
