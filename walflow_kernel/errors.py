"""Why an expression has no value for an event. The text is the reason that leaves by `err`."""


class CannotEvaluate(Exception):
    """An expression has no value. Its text says why."""


class CannotApply(CannotEvaluate):
    """These operands have no such operation."""


class Missing(CannotEvaluate):
    """A path leads to nothing."""


class NotJson(Exception):
    """A text is no JSON, or a value has no form in JSON. Its text says why."""
