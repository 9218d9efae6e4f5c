"""The Python function behind an `intrinsic fn`, and what its annotations say about the arguments.

The types of parameters are plain (`str`, `int`, `bool`, `list`, `dict`, `bytes`, unions of them, `object` for
anything) and are matched exactly: `true` is no number. `float` is any number, as in Python's type hints.
`Annotated[T, Read(read)]` is a string that is converted to a T first, at load if it does not depend on the event. A
function that needs more than its arguments gets a Moment before them. A function raises CannotApply if it cannot use
a value. Its result must be a value, see `values`.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import LONGEST, kind_of

When = Literal["load", "time", "chance", "event", "window"]
"""What it depends on but its arguments: nothing; when it is asked; chance; the event; a window. Only with an event,
or a window, the last two have a value."""

_WORDS: dict[type, tuple[str, str]] = {  # names in messages and in the reference
    bool: ("true or false", "bool"),
    int: ("a whole number", "integer"),
    float: ("a decimal number", "float"),
    str: ("a string", "string"),
    bytes: ("binary data", "binary"),
    list: ("an array", "array"),
    dict: ("a record", "record"),
    NoneType: ("null", "null"),
}


class Read(NamedTuple):
    """`read` raises CannotApply."""

    read: Callable[[str], object]


class Kind(NamedTuple):
    """`types` is empty if any value is allowed."""

    types: tuple[type, ...]
    read: Callable[[Any], object] | None = None

    @property
    def words(self) -> str:
        if set(self.types) == {int, float}:
            return "a number"
        return " or ".join(_WORDS[one][0] for one in self.types)

    @property
    def name(self) -> str:
        """The name in the reference."""
        if set(self.types) == {int, float}:
            return "number"
        return " or ".join(_WORDS[one][1] for one in self.types) or "any"


class Parameter(NamedTuple):
    """`subject`: the name of the parameter in a message; `it` if there is only one."""

    name: str
    kind: Kind
    subject: str

    def take(self, value: object) -> object:
        """The value that the function gets for this argument."""
        kind = self.kind
        if kind.types and type(value) not in kind.types:
            raise CannotApply(f"{self.subject} takes {kind.words}, not {kind_of(value)}")
        return kind.read(value) if kind.read else value


@dataclass(frozen=True, slots=True)
class Function:
    """It takes `least` to `most` arguments (None: any number).
    `rest` is the type of arguments after its parameters."""

    apply: Callable[..., object]
    parameters: Sequence[Parameter]
    least: int
    most: int | None
    rest: Parameter | None
    gives: str
    when: When
    grows: bool  # its result may be longer than all its arguments together

    def parameter(self, at: int) -> Parameter:
        if at < len(self.parameters):
            return self.parameters[at]
        assert self.rest is not None
        return self.rest

    def takes(self, given: int) -> bool:
        return given >= self.least and (self.most is None or given <= self.most)

    @property
    def arity(self) -> str:
        """`2 arguments`"""
        if self.most is None:
            return f"at least {_arguments(self.least)}"
        return _arguments(self.most) if self.least == self.most else f"{self.least} to {_arguments(self.most)}"


def function(
    apply: Callable[..., object], when: When = "load", most: int | None = None, *, grows: bool = False
) -> Function:
    """`most`: for a function with `*` among its parameters. `grows`: its result may be longer than all its arguments
    together."""
    hints = get_type_hints(apply, include_extras=True)
    declared = list(inspect.signature(apply).parameters.values())[int(when != "load") :]  # what follows the Moment
    alone = len(declared) == 1
    names = {p.name: p.name.rstrip("_") for p in declared}  # `from_`: a word of Python has a `_` at its end
    subjects = {name: "it" if alone else f"`{shown}`" for name, shown in names.items()}
    named = [(p, Parameter(names[p.name], _kind(hints[p.name]), subjects[p.name])) for p in declared]
    parameters = [parameter for p, parameter in named if p.kind is not p.VAR_POSITIONAL]
    rest = next((parameter for p, parameter in named if p.kind is p.VAR_POSITIONAL), None)
    most = most if rest else len(parameters)
    return Function(apply, parameters, len(parameters), most, rest, _kind(hints["return"]).name, when, grows)


def bounded(text: str) -> str:
    if len(text) > LONGEST:
        raise too_long()
    return text


def too_long() -> CannotApply:
    return CannotApply(f"it would make something longer than {LONGEST}")


def _kind(hint: Any) -> Kind:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Read):
            return Kind((str,), extra.read)
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    types: list[type] = [get_origin(member) or member for member in members]
    if float in types:
        types = [int, *(one for one in types if one is not int)]
    return Kind(() if object in types else tuple(types))


def _arguments(count: int) -> str:
    return f"{count} argument" if count == 1 else f"{count} arguments"
