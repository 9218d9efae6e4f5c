from collections.abc import Mapping
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from walflow.operators.operator import Operator, StandIn

MIB: Final = 1 << 20
LARGEST_FILE: Final = 64 * MIB
LEAST: Final = 16 << 10  # bytes: below them a log has hardly room for an event


class QosWal(Operator):
    """Ends one ack domain and begins the next: what comes is acked upstream once it is stored, and sent on, again after
    a failure, until every sink behind it has acked it. With `dir` it is stored on disk, by the same engine as the
    connector `wal`, and survives a crash; without, in memory, and is gone with walflow. What it has no room for stops
    the sources; nothing is dropped."""

    example: ClassVar[str] = """\
define operator on_disk from qos::wal with dir = "store", read_count = 20, max_elements = 1000 end;
create operator on_disk;
select event from in into on_disk;
select event from on_disk into out;
"""

    dir: str | None = Field(
        default=None,
        min_length=1,
        description="Directory of the log. Default: none, events are kept in memory alone.",
    )
    read_count: int | None = Field(
        default=None,
        ge=1,
        description="How many events may be with the sinks and not acked. Default: as many as the window has room for.",
    )
    max_elements: int | None = Field(
        default=None, ge=1, description="How many events it holds until every sink has acked them."
    )
    max_bytes: int | None = Field(
        default=None,
        ge=1,
        le=1 << 60,
        description="How many bytes it takes: on disk, files and headers included; in memory, of the events. At least one "
        "of the two bounds must be given; on disk 1 GiB is the bound where none in bytes is.",
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
            return StandIn("memory", {**shared, "max_bytes": self.max_bytes})
        return StandIn("wal", {**shared, "path": self.dir, **self._chunks()})

    def _chunks(self) -> Mapping[str, int]:
        """Files of 1 MiB and more, as far as there may be two of them, and of 64 MiB at most: each has its place on disk
        from its beginning on."""
        if self.max_bytes is None:
            return {}
        chunks = max(min(16, max(2, self.max_bytes // MIB)), -(-self.max_bytes // LARGEST_FILE))
        return {"chunk_size": self.max_bytes // chunks, "max_chunks": chunks}
