"""The wait before the next attempt to connect, with tremor's keys and a limit for its growth."""

from collections.abc import Callable
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from walflow.backoff import Backoff
from walflow.world import dice

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

    def backoff(self, draw: Callable[[float, float], float] | None = None) -> Backoff:
        longest = max(LONGEST_MS, self.interval_ms)
        return Backoff(
            self.interval_ms / 1000,
            longest / 1000,
            self.growth_rate,
            draw=(draw or dice().uniform) if self.randomized else None,
            most=self.max_retries,
        )


class Reconnect(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    retry: Retry = Retry()
