"""How long to wait before the next attempt to connect: tremor's keys, with an upper end to the growth."""

import random
from collections.abc import Callable
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

LONGEST_MS: Final = 10_000


class Retry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    interval_ms: int = Field(
        default=100, ge=1, description="Milliseconds to wait before the first attempt after a failure."
    )
    growth_rate: float = Field(
        default=1.5, ge=1, description="Each wait is longer than the one before by this factor, up to 10 s."
    )
    max_retries: int | None = Field(
        default=None,
        ge=0,
        description="Number of failures in a row after which the connector gives up. Default: never.",
    )
    randomized: bool = Field(
        default=True, description="Whether each wait is a random time between the previous wait and the full one."
    )


class Reconnect(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    retry: Retry = Retry()


class Backoff:
    def __init__(self, retry: Retry, draw: Callable[[float, float], float] = random.uniform) -> None:
        self._retry = retry
        self._draw = draw
        self._longest = max(LONGEST_MS, retry.interval_ms)
        self.reset()

    def reset(self) -> None:
        self.failures = 0
        self._full = float(self._retry.interval_ms)
        self._before = 0.0

    def next(self) -> float | None:
        """Seconds to wait after one more failure; None: it was one too many."""
        retry = self._retry
        self.failures += 1
        if retry.max_retries is not None and self.failures > retry.max_retries:
            return None
        wait = self._draw(self._before, self._full) if retry.randomized and self._before else self._full
        self._before = self._full
        self._full = min(self._longest, self._full * retry.growth_rate)
        return wait / 1000
