from collections.abc import Mapping
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from walflow.operators.operator import Operator, StandIn
from walflow.size import Size

MIB: Final = 1 << 20
LARGEST_FILE: Final = 64 * MIB
LEAST: Final = 16 << 10  # bytes: below them a log has hardly room for an event


class QosWal(Operator):
    """A log within a pipeline: one ack domain ends here and the next begins. An event is acked upstream once it is
    stored. Then it is sent, and again after a failure, until every sink downstream has acked it. With `dir`, events
    are stored on disk, by the same engine as the connector `wal`, and survive a crash. Without `dir`, they are in
    memory and are lost with walflow. When it is full, the sources stop; no event is dropped."""

    example: ClassVar[str] = """\
define operator on_disk from qos::wal with dir = "store", read_count = 20, max_elements = 1000 end;
create operator on_disk;
select event from in into on_disk;
select event from on_disk into out;
"""

    dir: str | None = Field(
        default=None,
        min_length=1,
        description="Directory of the log. Default: none, events are only in memory.",
    )
    read_count: int | None = Field(
        default=None,
        ge=1,
        description="The most events that may be sent to the sinks and not yet acked. Default: no limit but the "
        "window in bytes.",
    )
    max_elements: int | None = Field(
        default=None, ge=1, description="The most events it holds. An event counts until every sink has acked it."
    )
    max_bytes: Size | None = Field(
        default=None,
        ge=1,
        le=1 << 60,
        description="The most bytes it takes: on disk, of files and headers; in memory, of events. At least one of "
        "`max_elements` and `max_bytes` must be given. On disk, `max_bytes` is 1 GiB by default.",
    )

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        if self.max_elements is None and self.max_bytes is None:
            raise ValueError("give max_elements, max_bytes or both: it would grow without end")
        if self.dir is not None and self.max_bytes is not None and self.max_bytes < LEAST:
            raise ValueError(f"max_bytes of a log on disk is {LEAST:,} at least, not {self.max_bytes:,}")
        return self

    def stands_for(self) -> StandIn:
        shared = {"read_count": self.read_count, "max_elements": self.max_elements}
        if self.dir is None:
            return StandIn("buffer", {**shared, "max_bytes": self.max_bytes})
        return StandIn("log", {**shared, "path": self.dir, **self._chunks()})

    def _chunks(self) -> Mapping[str, int]:
        """Sizes of the files: 1 MiB or more if two of them fit, and at most 64 MiB. Each file takes its place on disk
        when it is made."""
        if self.max_bytes is None:
            return {}
        chunks = max(min(16, max(2, self.max_bytes // MIB)), -(-self.max_bytes // LARGEST_FILE))
        return {"chunk_size": self.max_bytes // chunks, "max_chunks": chunks}
