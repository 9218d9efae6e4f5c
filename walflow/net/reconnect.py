"""How long to wait before the next attempt to connect: tremor's keys, with an upper end to the growth."""

import random
from collections.abc import Callable
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from walflow.backoff import Backoff

LONGEST_MS: Final = 10_000


class Retry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    interval_ms: int = Field(default=100, ge=1, description="Before the first attempt after a failure.")
    growth_rate: float = Field(
        default=1.5, ge=1, description="Each wait is so much longer than the one before, up to 10 s."
    )
    max_retries: int | None = Field(
        default=None, ge=0, description="Failures in a row before it gives up. Default: never."
    )
    randomized: bool = Field(default=True, description="Each wait is drawn between the one before and the full one.")

    def backoff(self, draw: Callable[[float, float], float] = random.uniform) -> Backoff:
        longest = max(LONGEST_MS, self.interval_ms)
        return Backoff(
            self.interval_ms / 1000,
            longest / 1000,
            self.growth_rate,
            draw=draw if self.randomized else None,
            most=self.max_retries,
        )


class Reconnect(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    retry: Retry = Retry()
