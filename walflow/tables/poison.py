"""An event whose row fails each time for a reason that may pass, as when a trigger of it kills the server's process.
It is found without passing it: in transactions that are rolled back."""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from pydantic import Field

from walflow.contract import Connector
from walflow.tables.store import CannotUse, RowEnds, RowRefusal, TableStore

TRIES: Final = 3  # failed ones, at least
MOST: Final = 16  # that one search finds
POISON: Final = "poison"  # the code of such a refusal
OTHERS: Final = 8  # events behind it of which one must pass, if none stands before it

R = TypeVar("R")


class PoisonKey(Connector):
    """The key of a connector with a table."""

    poison_after: int | None = Field(
        default=300_000_000_000,
        ge=1,
        description="How long, in nanoseconds, an event may fail for a reason that may pass (not a constraint or a "
        "type). Then walflow tries it alone, and others without it, and takes all of it back. If the others pass and "
        "it does not, it leaves by err. `null`: it is tried for ever.",
    )

    @property
    def poison_seconds(self) -> float | None:
        return None if self.poison_after is None else self.poison_after / 1e9

    @property
    def poison_note(self) -> str:
        """For `Guarantee.notes`."""
        if self.poison_after is None:
            return "an event that fails each time for a reason that may pass is tried for ever, and holds up others"
        return "an event that fails each time while others would pass leaves by err after `poison_after`"


class PoisonSearch(Generic[R]):
    """`after`: seconds from the first failed try; None: there is no search."""

    def __init__(self, store: TableStore[R], after: float | None) -> None:
        self._store = store
        self._after = after

    def is_due(self, tries: int, seconds: float) -> bool:
        """`seconds`: since the first of the `tries`."""
        return self._after is not None and tries >= TRIES and seconds >= self._after

    def find(self, rows: Sequence[R | None], known: Mapping[int, RowRefusal], tries: int) -> dict[int, RowRefusal]:
        """Rows that fail although others pass, by number, each with why. There may be more. `known`: of earlier
        searches. Raises CannotUse: the table cannot be asked now."""
        left = [number for number, row in enumerate(rows) if row is not None and number not in known]
        found: dict[int, RowRefusal] = {}
        for _ in range(MOST):
            one = self._first(rows, left)
            if one is None:
                break
            number, why = one
            left.remove(number)
            found[number] = RowRefusal(f"failed {tries} times, and others pass: {why}", POISON)
        return found

    def _first(self, rows: Sequence[R | None], left: Sequence[int]) -> tuple[int, str] | None:
        passing, failing = 0, len(left)  # of the first ones: so many pass, and so many do not
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if self._why_not([rows[number] for number in left[:middle]]):
                failing = middle
            else:
                passing = middle
        if not left:
            return None
        number = left[failing - 1]
        why = self._why_not([rows[number]])
        if why and (passing or any(not self._why_not([rows[other]]) for other in left[1 : OTHERS + 1])):
            return number, why
        return None

    def _why_not(self, rows: Sequence[R | None]) -> str:
        """ "": they can be stored, or are refused for a reason of their own."""
        begun = False
        try:
            with self._store.transaction() as undo:
                begun = True
                self._store.insert(rows, apart=False)
                undo()
        except RowEnds:
            return ""
        except CannotUse as error:
            if not begun:
                raise
            return str(error)
        return ""
