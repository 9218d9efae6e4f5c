"""Where what a cursor stands on is defined: in this file, or in one that it uses."""

from walflow.cli.lsp.edited import EditedText
from walflow.cli.lsp.pointed import Pointed, pointed_at
from walflow.diagnostics import Span
from walflow.lang.files import find, search_path


def definition(text: EditedText, offset: int) -> Span | None:
    found = pointed_at(text, offset)
    if found is None or found.role in {"type", "key", "value", "setting"}:
        return None
    if found.role == "module":
        return _module(text, found.path)
    if found.role == "node" and (created := text.find_created(found.kinds, found.path[-1], offset)) is not None:
        return _defined(text, found._replace(path=created.of), offset) or created.span
    return _defined(text, found, offset)


def _module(text: EditedText, path: tuple[str, ...]) -> Span | None:
    module = text.module(path)
    return Span(module.source, 0, 0) if module is not None else None


def _defined(text: EditedText, found: Pointed, offset: int) -> Span | None:
    if len(found.path) == 1:
        created = text.find_created(found.kinds, found.path[0], offset)
        if created is not None and created.of != found.path:
            return _defined(text, found._replace(path=created.of), offset) or created.span
        known = text.find(found.kinds, found.path[0], offset)
        if known is not None:
            return known.span
        path = text.module_path(found.path)
        return (_module(text, path) if path != found.path else None) or (created.span if created else None)
    return _elsewhere(text, found, text.module_path(found.path))


def _elsewhere(text: EditedText, found: Pointed, path: tuple[str, ...]) -> Span | None:
    """`path`: of the definition, or of a module: a cursor may be on either part of `string::len`."""
    module = text.module(path[:-1])
    known = module.find(found.kinds, path[-1], 0) if module is not None else None
    if known is not None:
        return known.span
    return _module(text, path) if find(path, search_path(text.path.parent)) is not None else None
