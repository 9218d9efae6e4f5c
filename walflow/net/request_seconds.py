"""How long a sink's requests take, by what became of them."""

from typing import Final, Literal

from walflow.contract import Half

RequestOutcome = Literal["taken", "refused", "failed"]
OUTCOMES: Final[tuple[RequestOutcome, ...]] = ("taken", "refused", "failed")
BOUNDS: Final = (1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class RequestSeconds:
    """`refused`: for good; `failed`: it is tried again."""

    def __init__(self, half: Half) -> None:
        self._by = {outcome: half.histogram("request_seconds", BOUNDS, outcome=outcome) for outcome in OUTCOMES}

    def observe(self, outcome: RequestOutcome, seconds: float) -> None:
        self._by[outcome].observe(seconds)
