"""Functions as a flow file calls them."""

import pytest

from tests.compile.world import expression, read
from walflow_kernel.errors import CannotEvaluate


def gives(text: str, event: object = None) -> object:
    return expression(text).evaluate(event, {})


def refuses(text: str, event: object = None) -> str:
    """Why the event is refused."""
    with pytest.raises(CannotEvaluate) as refused:
        expression(text).evaluate(event, {})
    return str(refused.value)


def mistakes(text: str) -> list[str]:
    """What is said of it at load."""
    found, said = read(text)
    assert found is None
    return said
