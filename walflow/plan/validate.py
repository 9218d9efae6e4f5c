"""A `config` record -> Connector, the settings of an operator -> Operator, or diagnostics at the place of each
mistake.

Pydantic checks. Its messages are for programmers, and its places are paths of keys. Both are translated here.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from walflow.compile.constant import Constant
from walflow.diagnostics import HIDDEN, Diagnostic, Span, did_you_mean, error, one_of, secrets_in
from walflow_kernel.values import kind_of

_EXPECTED = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "an array",
    "tuple": "an array",
    "set": "an array",
    "frozen_set": "an array",
    "dict": "a record",
    "mapping": "a record",
    "model": "a record",
    "model_attributes": "a record",
    "dataclass": "a record",
    "bytes": "a string",
    "path": "a string",
    "url": "a URL",
    "decimal": "a number",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


_BESIDE = {"codec", "preprocessors", "postprocessors"}

M = TypeVar("M", bound=BaseModel)


def configure(
    kind: str, of: type[M], config: Constant | None, defined: Span, *, bare: bool = False
) -> tuple[M | None, list[Diagnostic]]:
    """`defined`: the place of the definition, for keys that are missing. `bare`: the keys stand directly after
    `with`, not in a record `config`."""
    if config is not None and not config.is_record:
        return None, [error(f"`config` takes a record, not {kind_of(config.value)}", config.span)]
    # as JSON: numbers are checked strictly, and a list may still become a tuple, a string a path
    try:
        text = json.dumps(config.value if config else {})
    except TypeError:
        return None, [error("a configuration holds no binary data", config.span if config else defined)]
    try:
        hidden = set(secrets_in(config.value)) if config else set[str]()
        return of.model_validate_json(text, strict=True, context={HIDDEN: hidden}), []
    except ValidationError as invalid:
        place = config or Constant({}, defined)
        return None, list(_translated(invalid, kind, of, place, defined, bare=bare))


def _translated(
    invalid: ValidationError, kind: str, of: type[BaseModel], config: Constant, defined: Span, *, bare: bool
) -> Iterator[Diagnostic]:
    known = field_names(of)
    meant = {did_you_mean(str(detail["loc"][-1]), known) for detail in invalid.errors() if _is_unknown(detail)}
    for detail in invalid.errors(include_url=False):
        path = _path(detail["loc"], config)
        match detail["type"]:
            case "extra_forbidden":
                siblings = known if len(path) == 1 else []
                yield _unknown(str(detail["loc"][-1]), kind, config.key_span(path), siblings)
            case "missing" if len(path) == 1 and f"did you mean `{path[0]}`?" in meant:
                pass  # it is misspelt, which is said
            case "missing":
                choices = _choices(of, str(detail["loc"][-1])) if len(path) == 1 else []
                yield _missing(detail, kind, config, path, choices, defined, bare=bare)
            case "literal_error":
                choices = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected")))
                yield error(
                    _sentence(detail, path, kind), config.find(path).span, did_you_mean(str(detail["input"]), choices)
                )
            case _:
                yield error(_sentence(detail, path, kind), config.find(path).span)


def _is_unknown(detail: ErrorDetails) -> bool:
    return detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1


def field_names(of: type[BaseModel]) -> list[str]:
    """The keys that `config` takes, as a user writes them."""
    return [name for field, info in of.model_fields.items() for name in _aliases(field, info.validation_alias)]


def _aliases(field: str, alias: object) -> list[str]:
    if isinstance(alias, str):
        return [alias]
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [field]


def _path(loc: Sequence[str | int], config: Constant) -> list[str | int]:
    """The path of pydantic without the parts that the user did not write,
    for example the name of a member of a union."""
    path: list[str | int] = []
    for at, key in enumerate(loc):
        if key in config.find(path).parts or at == len(loc) - 1:
            path.append(key)
    return path


def _unknown(key: str, kind: str, span: Span, known: Sequence[str]) -> Diagnostic:
    if key in known:
        return error(f"`{key}` is another name of a key that is given too", span)
    if key in _BESIDE and key not in known:
        return error(
            f"unknown key `{key}` in the config of {kind}", span, f"`{key}` stands beside `config`, not in it"
        )
    takes = f"it takes {', '.join(f'`{name}`' for name in known)}" if known else None
    return error(f"unknown key `{key}` in the config of {kind}", span, did_you_mean(key, known) or takes)


def _choices(of: type[BaseModel], key: str) -> list[str]:
    """The strings that a key takes, [] if it takes others too."""
    for field, info in of.model_fields.items():
        if key in {field, *_aliases(field, info.validation_alias)} and get_origin(info.annotation) is Literal:
            return [str(one) for one in get_args(info.annotation)]
    return []


def _missing(
    detail: ErrorDetails,
    kind: str,
    config: Constant,
    path: Sequence[str | int],
    choices: Sequence[str],
    defined: Span,
    *,
    bare: bool,
) -> Diagnostic:
    key = detail["loc"][-1]
    if len(path) > 1:
        return error(f"missing key `{key}`", config.find(path[:-1]).span)
    takes = f"; `{key}` is one of {one_of(choices)}" if choices else ""
    if bare:
        return error(f"{kind} needs the key `{key}`", defined, f"add `with {key} = … end`{takes}")
    hint = (f'add `"{key}": …` to its `config`' if config.parts else f'add `config = {{ "{key}": … }}`') + takes
    return error(f"{kind} needs the key `{key}` in its config", defined, hint)


def _written(value: object) -> str:
    """As it would stand in the file: `true`, not `True`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _sentence(detail: ErrorDetails, path: Sequence[str | int], kind: str) -> str:
    key = next((part for part in reversed(path) if isinstance(part, str)), None)
    subject = f"`{key}`" if key else f"the config of {kind}"
    # Any: the context of an error depends on its type
    context: Mapping[str, Any] = detail.get("ctx", {})
    what = detail["type"]
    if what in _BOUNDS:
        name, words = _BOUNDS[what]
        return f"{subject} must be {words} {context[name]}, not {detail['input']}"
    if what in {"literal_error", "enum"}:
        return (
            f"{subject} is one of {str(context['expected']).replace(chr(39), '`')}, not `{_written(detail['input'])}`"
        )
    stem = what.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    if stem in _EXPECTED:
        return f"{subject} takes {_EXPECTED[stem]}, not {kind_of(detail['input'])}"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{subject}: {message[:1].lower()}{message[1:]}" if key else message
