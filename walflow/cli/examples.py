"""A connector as it is where nothing but what must be given is, to ask it what it guarantees."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from walflow.contract import Connector, Guarantee


def guarantees(connector: type[Connector]) -> Iterator[tuple[str, Guarantee]]:
    """One for each choice that must be made (`mode = "read"`), behind a log. Where more is needed than can be guessed,
    `examples` of a field say it; nothing for a connector that needs more and has none."""
    fields = connector.model_fields.items()
    required = {name: _values(name, field) for name, field in fields if field.is_required() or field.examples}
    for values in product(*required.values()):
        config = dict(zip(required, values, strict=True))
        chosen = ", ".join(f'{name} = "{value}"' for name, value in config.items() if len(required[name]) > 1)
        try:
            yield chosen, connector.model_validate(config).guarantee(behind_log=True)
        except (ValidationError, NotImplementedError):
            continue


def _values(name: str, field: FieldInfo) -> list[Any]:
    if field.examples:
        return field.examples[:1]
    if get_origin(field.annotation) is Literal:
        return list(get_args(field.annotation))
    if field.annotation is int:
        return [1_000_000_000]
    return ["127.0.0.1:1" if name == "url" else f"<{name}>"]
