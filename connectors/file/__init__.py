"""A file that is read once, or written."""

import os
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from connectors.file.appending import Appending
from connectors.file.output import Output
from connectors.file.overwriting import FilePlace, Overwriting
from connectors.file.reading import read
from connectors.file.writing import FileWriter
from walflow import Claim, Connector, Guarantee, Inlet, Outlet, Ports
from walflow.disk import RealDisk

__all__ = ["File"]

Mode = Literal["read", "write", "truncate", "overwrite", "append"]


class File(Connector):
    """Reads a file from beginning to end, or writes one.

    To rotate a file that walflow writes: rename it within its directory, then send SIGHUP, as `logrotate` does with
    `delaycompress` ([an example](../howto/run-as-a-service.md#rotate-files)). Until SIGHUP, events go to the renamed file.
    Without SIGHUP, walflow goes on in the new file as soon as another program has made one; if none has after one second,
    walflow makes it.

    Other programs may append whole lines, each with one write (`O_APPEND`, as `>>` in a shell does). All modes but
    `overwrite` write at the end of the file only, so no program writes over another. In mode `overwrite` no other program
    should write to the file.

    `sed -i`, most editors and `mv new out.log` replace the file. walflow logs a warning and goes on in the new file; a
    batch that is not acked yet is written again there. Events that walflow wrote after the editor had read the file are
    not in the new file: they are lost.

    `copytruncate`, `truncate` and `> out.log` cut the file. walflow logs a warning and goes on at the new end, without a
    hole and without a torn line. Events written between the copy and the cut are lost; after a crash, events of the copy
    may come again.

    In mode `append`, a start looks for the file that walflow wrote to last, by its inode, in the directory of `path`. If
    that file was renamed, walflow finishes it there, and no event comes twice. If it is not in the directory (`olddir`,
    `compress` without `delaycompress`, removed), a warning says how many events may come again.
    """

    ports: ClassVar[Ports] = Ports()

    path: str = Field(min_length=1, description="The file. A relative path is relative to the working directory.")
    mode: Mode = Field(
        description="`read` it once, from its beginning; `truncate` (or `write`): empty it at every start, then "
        "write; `overwrite`: write over what is in it, from its beginning at every start, and leave what is behind; "
        "`append`: write behind what is in it, and remember in `.NAME.walflow` beside it what that was."
    )
    chunk_size: int = Field(
        default=8192, ge=1, description="Accepted for tremor's sake; reads are of 256 KiB, in bytes."
    )
    sync: Literal["always", "never"] | None = Field(
        default=None,
        description="Whether an ack waits until the disk has the events (fdatasync). Default: `always` where a log "
        "is upstream, which forgets what is acked; else `never`.",
    )

    exit: bool = Field(
        default=False,
        description="For `read`: whether the daemon drains and stops once the file is read, with exit code 0.",
    )

    # both outlive a run: a restart of the connector alone keeps what is in the file
    _emptied: bool = PrivateAttr(default=False)
    _place: FilePlace | None = PrivateAttr(default=None)

    @field_validator("path")
    @classmethod
    def _possible_path(cls, path: str) -> str:
        if "\0" in path:
            raise ValueError("a path has no zero byte")
        return path

    @model_validator(mode="after")
    def _sync_is_for_writing(self) -> Self:
        if self.mode == "read" and self.sync is not None:
            raise ValueError('sync is for files that are written, and mode is "read"')
        if self.mode != "read" and self.exit:
            raise ValueError(f'exit is for files that are read, and mode is "{self.mode}"')
        return self

    def ports_used(self) -> Ports:
        if self.mode == "read":
            return Ports(inputs=(), outputs=("out", "err"))
        return Ports(inputs=("in",), outputs=("err",))

    def claims(self) -> Sequence[Claim]:
        return () if self.mode == "read" else (Claim("file to write", os.path.abspath(self.path)),)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        if self.mode == "read":
            return Guarantee(
                source=f"{self.path} is read from its beginning at every start: what was read before a restart comes "
                "again, and an event that a sink fails comes again only then"
            )
        synced = self._syncs(behind_log)
        ack = "an event is acked after it was written"
        ack += (
            " and fdatasync returned: it survives a power cut"
            if synced
            else " to the operating system: it survives a crash of walflow, not a power cut"
        )
        others = "another process cuts, replaces or removes"
        if self.mode == "append":
            return Guarantee(
                sink=f"{ack}, until {others} the file; {_after_a_crash(behind_log, synced)}", once=behind_log
            )
        if self.mode == "overwrite":
            torn = "after kill -9 the last line may be torn, and go on as what the file held before"
            over = f"every start writes over {self.path} from its beginning, also after a crash, and leaves what is "
            over += 'behind its last event; mode = "append" keeps what was acked'
            return Guarantee(
                sink=f"{ack}, until the next start writes over it, or {others} it; {torn}", warnings=(over,)
            )
        return Guarantee(
            sink=f"{ack}, until the next start empties the file, or {others} it",
            warnings=(f'every start empties {self.path}, also after a crash; mode = "append" keeps what was acked',),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if self.mode == "read":
            if out.linked:
                await read(self.path, out)
            if self.exit:
                inlet.stop(graceful=True)
            return
        output = self._output(sync=self._syncs(inlet.behind_log))
        writer = FileWriter(inlet, output)
        writer.start()
        try:
            await writer.ended.wait()
        finally:
            await writer.close()
            self._emptied = self._emptied or output.emptied
            if isinstance(output, Overwriting):
                self._place = output.place
        if writer.failure is not None:
            raise writer.failure

    def _output(self, *, sync: bool) -> Output:
        disk = RealDisk()
        if self.mode == "append":
            return Appending(self.path, disk, sync=sync)
        if self.mode == "overwrite":
            return Overwriting(self.path, disk, sync=sync, place=self._place)
        return Output(self.path, disk, sync=sync, empty=not self._emptied)

    def _syncs(self, behind_log: bool) -> bool:
        return behind_log if self.sync is None else self.sync == "always"


def _after_a_crash(behind_log: bool, synced: bool) -> str:
    torn = "after kill -9 no line is torn"
    if not behind_log:
        power = "after a power cut neither" if synced else "after a power cut the last lines may be"
        return f"{torn}, {power}"
    once = "and none comes twice where the events have one way from the log and come whole, also where the file was "
    once += (
        "renamed in its directory; where it was moved elsewhere, cut, replaced or compressed just before, its last "
    )
    once += "lines may come twice"
    if synced:
        return f"{torn} {once}; after a power cut none is torn or lost, and the last may come twice"
    return f"{torn} {once}; after a power cut the last lines may be torn or lost, or come twice"
