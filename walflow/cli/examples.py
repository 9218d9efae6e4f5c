"""A connector as it is where nothing but what must be given is, to ask it what it guarantees."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from walflow.contract import Connector, Guarantee


def guarantees(connector: type[Connector]) -> Iterator[tuple[str, Guarantee]]:
    """One for each choice that must be made (`mode = "read"`), behind a log. Where more is needed than can be
    guessed, `examples` of a field say it, also where another value than the default makes another guarantee. Nothing
    for a connector that needs more and has none."""
    fields = connector.model_fields
    tried = {name: _values(name, field) for name, field in fields.items() if field.is_required() or field.examples}
    for values in product(*tried.values()):
        config = dict(zip(tried, values, strict=True))
        choices = {name: value for name, value in config.items() if len(tried[name]) > 1}
        chosen = ", ".join(
            f"{name} = {json.dumps(value)}" for name, value in choices.items() if value != fields[name].default
        )
        try:
            yield chosen, connector.model_validate(config).guarantee(behind_log=True)
        except (ValidationError, NotImplementedError):
            continue


def _values(name: str, field: FieldInfo) -> list[Any]:
    if field.examples:
        return field.examples
    if get_origin(field.annotation) is Literal:
        return list(get_args(field.annotation))
    if field.annotation is int:
        return [1_000_000_000]
    return ["127.0.0.1:1" if name == "url" else f"<{name}>"]
