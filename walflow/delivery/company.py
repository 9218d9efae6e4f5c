"""Which of several events that fail for one reason may be to blame."""

from collections.abc import Collection
from typing import Final, Generic, TypeVar

from walflow.delivery.in_flight import InFlight
from walflow.errors import OneOfMany

S = TypeVar("S")

REMEMBERED: Final = 8  # errors that fail several events at once


class Company(Generic[S]):
    """Of each such error: the part whose failure counts, as it will be sent again. None: none does any more."""

    def __init__(self) -> None:
        self._of: dict[OneOfMany, InFlight[S] | None] = {}

    def __repr__(self) -> str:
        return f"<Company of {len(self._of)} errors>"

    def is_alone(self, part: InFlight[S], causes: Collection[BaseException]) -> bool:
        """Whether it is the only one that had failed before of those that fail with this very error, or has another
        error too. If there was another part, that is not to blame any more."""
        if not part.failures:
            return True
        shared = [cause for cause in causes if isinstance(cause, OneOfMany)]
        alone = True
        for cause in shared:
            if cause in self._of:
                alone = False
                self._take_back(cause)
            else:
                self._of[cause] = None
        while len(self._of) > REMEMBERED:
            del self._of[next(iter(self._of))]
        return alone or len(shared) < len(causes)

    def counted(self, again: InFlight[S], causes: Collection[BaseException]) -> None:
        """Its failure counts, unless another part fails with the only error that it has."""
        if all(isinstance(cause, OneOfMany) for cause in causes):
            self._of.update((cause, again) for cause in causes if isinstance(cause, OneOfMany))

    def _take_back(self, cause: OneOfMany) -> None:
        other = self._of[cause]
        if other is not None and other.blame.counted:
            other.blame = other.blame._replace(counted=other.blame.counted - 1)
        self._of[cause] = None
