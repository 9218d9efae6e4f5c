"""Reasons why an expression has no value for an event. The text leaves by `err`."""


class CannotEvaluate(Exception):
    """An expression has no value. The text says why."""


class CannotApply(CannotEvaluate):
    """The operator or function does not exist for these operands."""


class Missing(CannotEvaluate):
    """A path leads to no value."""


class NotJson(Exception):
    """A text is not JSON, or a value has no form in JSON. The text says why."""
