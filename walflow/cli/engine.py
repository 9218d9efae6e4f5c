"""`--engine`: where pipelines run."""

from enum import StrEnum
from typing import Literal


class Engine(StrEnum):
    DAEMON = "daemon"
    SPARK = "spark"

    @property
    def elsewhere(self) -> Literal["spark"] | None:
        return "spark" if self is Engine.SPARK else None
