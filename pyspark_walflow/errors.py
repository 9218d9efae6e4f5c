"""What goes wrong, in one line that the user sees first."""

from typing import Final


class _Line(Exception):
    """Never raised, and so without a traceback: only shown."""


class WalflowError(Exception):
    """Spark shows the text that Python makes of an exception, and that text begins with its cause. So the cause of
    this one is its own line, and forty lines of traceback come behind it."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self._line: Final = _Line(line)

    @property
    def __cause__(self) -> BaseException:
        return self._line

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Spark's workers take it away before they print."""


for _shown in (_Line, WalflowError):
    _shown.__module__ = "walflow"
_Line.__qualname__ = "error"
