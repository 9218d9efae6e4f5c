"""Sends again what a log has, acked or not. It reads beside the process that uses the log, and changes nothing of it.

It begins anew with each start of walflow: which events were delivered is known in this process only.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

from pydantic import Field, PrivateAttr, model_validator

from connectors.replay.replay_run import FAMILIES, ReplayRun
from walflow import (
    CodecUse,
    Families,
    Guarantee,
    Inlet,
    LogPlace,
    LogReplayer,
    Need,
    Outlet,
    Ports,
    ReplayProgress,
    Traits,
)
from walflow.files import directory


class Replay(LogReplayer):
    """A source of the events that a log has: its backlog, and what it keeps of acked events (`retain`). Each has the
    codec, the metadata and the time of arrival that it had, and besides that `$replay`, with `log` (the log's id) and
    `position`. A log or a frontier sink does not take it for the event that it has already."""

    ports: ClassVar[Ports] = Ports(inputs=(), outputs=("out", "err"))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, transactional=True)
    families: ClassVar[Families] = FAMILIES

    path: str = Field(min_length=1, description="Directory of the log, as the `path` of its `wal`.")
    begin: LogPlace | None = Field(
        default=None,
        alias="from",
        description="Where it begins: a position, a time, or how long ago. Default: the oldest event that is there.",
    )
    end: LogPlace | None = Field(
        default=None,
        alias="to",
        description="Where it ends: the last position, a time that is not reached, or how long ago. Default: the "
        "newest event that is there when it begins.",
    )
    follow: bool = Field(default=False, description="Goes on with what comes into the log. It looks once a second.")
    speed: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="How fast, by the events' times of arrival. 1: as they came; 10: ten times as fast. Default: as "
        "fast as the sinks take them.",
    )
    max_attempts: int | None = Field(
        default=None,
        ge=1,
        description="How often a single event may fail before it leaves by `err`. A failure counts only if the sink "
        "has taken another event since. Default: no limit.",
    )
    stop: bool = Field(
        default=False, description="Stops the daemon, with exit code 0, once each event is acked or rejected."
    )

    _progress: ReplayProgress = PrivateAttr(default_factory=ReplayProgress)  # of all runs

    @model_validator(mode="after")
    def _ends_or_follows(self) -> Self:
        if self.follow and (self.end is not None or self.stop):
            raise ValueError(
                f"a replay that follows has no end: leave out {'`to`' if self.end is not None else '`stop`'}"
            )
        if isinstance(self.begin, int) and isinstance(self.end, int) and self.end < self.begin:
            raise ValueError(f"it ends at position {self.end}, before it begins, at {self.begin}")
        return self

    def needs(self) -> Sequence[Need]:
        return (directory(self.path),)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="every event is sent to every sink that the pipelines choose for it, and again after a failure, "
            "until that sink has acked or rejected it. It begins anew with each start of walflow, so a sink gets "
            "events twice then",
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if out.linked:
            await ReplayRun(self, out).run()

    @classmethod
    def replaying(cls, path: str, begin: str | None, end: str | None, speed: float | None) -> Self:
        return cls.model_validate({"path": path, "from": begin, "to": end, "speed": speed, "stop": True})

    @property
    def progress(self) -> ReplayProgress:
        return self._progress
