"""The connector `file`: reads a file once, follows files as they grow, or writes one."""

import os
from collections.abc import Sequence
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from connectors.file.appended_file import AppendedFile
from connectors.file.families import FILE
from connectors.file.file_sink import file_sink
from connectors.file.file_source import read
from connectors.file.follow import Following, fixed_part, follow, leads_to, may_be_compressed
from connectors.file.output import Output
from connectors.file.overwritten_file import FilePlace, OverwrittenFile
from walflow import Claim, Connector, Families, Guarantee, Inlet, Lossless, Need, Outlet, Ports, Risk, Size, world
from walflow.files import directory, made_directory, readable_file, writable_file

__all__ = ["File"]

FOLLOWS: Final = (
    "read_from",
    "poll_interval",
    "rotate_wait",
    "max_open_files",
    "state",
    "delete",
    "move_to",
)  # keys of a file that is followed

Mode = Literal["read", "write", "truncate", "overwrite", "append"]


class File(Connector):
    """Reads a file from beginning to end, follows files as they grow, or writes one.

    With `follow`, `path` may be a pattern (`*`, `?`, `[…]`, `**` for any directories). walflow recognises a file by
    its inode and its bytes, not by its name. If a file is renamed (as by `logrotate`), walflow reads it to its end,
    then the file that has its name now. If a file is cut or overwritten, walflow reads it from its beginning. If it
    was copied before the cut (`copytruncate`) and the pattern matches the copy, walflow reads there what it had not
    read before the cut. A last line without a newline waits until it has one ([how to follow log
    files](../../howto/follow-log-files.md)). Compressed files (`.gz`, `.xz`, `.zst`, `.lz4`) are read once; one that
    was followed before it was compressed is not read again.

    If the file to read does not exist, walflow tries again after 0.1 s, later every 10 s, until it exists, also with
    `exit`. Meanwhile the daemon is not ready, and the log line `connector failed` and `walflow status` name the file.
    With `follow`, a file that does not exist is no error: it is read once it is there.

    To rotate a file that walflow writes: rename it within its directory, then send SIGHUP, as `logrotate` does with
    `delaycompress` ([an example](../../howto/run-as-a-service.md#rotate-files)). Until SIGHUP, events go to the
    renamed file. Without SIGHUP, walflow goes on in the new file as soon as another program has made one; if none has
    after one second, walflow makes it.

    Other programs may append whole lines, each with one write (`O_APPEND`, as `>>` in a shell does). All modes but
    `overwrite` write at the end of the file only, so no program writes over another. In mode `overwrite` no other
    program should write to the file.

    `sed -i`, most editors and `mv new out.log` replace the file. walflow logs a warning and goes on in the new file;
    a batch that is not acked yet is written again there. Events that walflow wrote after the editor had read the file
    are not in the new file: they are lost. An editor that reads while walflow writes may copy a part of a line;
    walflow ends that line, and goes on behind it.

    `copytruncate`, `truncate` and `> out.log` cut the file. walflow logs a warning and goes on at the new end,
    without a hole and without a torn line. Events written between the copy and the cut are lost; after a crash,
    events of the copy may come again.

    In mode `append`, a start looks for the file that walflow wrote to last, by its inode, in the directory of `path`.
    If that file was renamed, walflow finishes it there, and no event comes twice. If it is not in the directory
    (`olddir`, `compress` without `delaycompress`, removed), a warning says how many events may come again.
    """

    ports: ClassVar[Ports] = Ports()
    families: ClassVar[Families] = FILE

    path: str = Field(
        min_length=1,
        description="The file. A relative path is relative to the daemon's working directory. With `follow`, it may "
        "be a pattern; `[[]` matches `[`.",
    )
    mode: Mode = Field(
        description="`read`: reads the file once, from its beginning. `truncate` (or `write`): empties it at every "
        "start, then writes. `overwrite`: writes over its content from the beginning at every start, and keeps the "
        "content after that. `append`: writes after its content, "
        "and stores in `.NAME.walflow` beside it which events are in it."
    )
    chunk_size: Size = Field(
        default=8192,
        ge=1,
        description="A key of tremor's (bytes per read), accepted and not used: walflow reads up "
        "to 256 KiB at a time.",
    )
    sync: Literal["always", "never"] | None = Field(
        default=None,
        description="Whether an ack waits until the events are on disk (fdatasync). Default: `always` if a log is "
        "upstream, because a log deletes what is acked; otherwise `never`.",
    )

    exit: bool = Field(
        default=False,
        description="For `read`: whether the daemon drains and stops, with exit code 0, when the whole file is read.",
    )

    follow: bool = Field(
        default=False,
        examples=[False, True],
        description="For `read`: whether walflow goes on reading as the file grows, and after it is renamed. The "
        "only preprocessor may then be `separate` or `multiline`.",
    )
    read_from: Literal["beginning", "end"] = Field(
        default="beginning",
        description="For `follow`: where the very first start begins in the files that exist then. Files that are "
        "found later are read from their beginning. A restart continues where the last run ended.",
    )
    poll_interval: int = Field(
        default=250_000_000,
        ge=1_000_000,
        description="For `follow`: nanoseconds between two checks of which files exist and how long they are. "
        "walflow checks less often if a check takes longer than a fifth of this.",
    )
    rotate_wait: int = Field(
        default=10_000_000_000,
        ge=0,
        description="For `follow`: nanoseconds without growth after which a renamed or removed file is closed. A "
        "last line without a newline is then sent.",
    )
    max_open_files: int = Field(
        default=512,
        ge=1,
        description="For `follow`: the most files that are open at a time. Beyond it, the files that have not grown "
        "for longest are closed, and opened again when they grow.",
    )
    state: str = Field(
        default="followed",
        min_length=1,
        description=(
            "For `follow`: the directory of the checkpoint. The file in it is named after the flow and the connector."
        ),
    )

    delete: bool = Field(
        default=False,
        description="For `follow`: whether a file is deleted once it is read to its end, has not grown for "
        "`rotate_wait`, and all its events are acked or rejected. For a directory into which complete files are put.",
    )
    move_to: str | None = Field(
        default=None,
        min_length=1,
        description="For `follow`: a directory on the same file system, to which such a file is moved. If it has a "
        "file of that name, a number is added to the name.",
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
            raise ValueError('sync is only for files that are written, and mode is "read"')
        if self.mode != "read" and self.exit:
            raise ValueError(f'exit is for files that are read, and mode is "{self.mode}"')
        if self.mode != "read" and self.follow:
            raise ValueError(f'follow is for files that are read, and mode is "{self.mode}"')
        if self.follow and self.exit:
            raise ValueError("exit is for a file that is read once, and follow has no end")
        given = [key for key in FOLLOWS if key in self.model_fields_set]
        if given and not self.follow:
            raise ValueError(f"{given[0]} is for files that are followed: follow = true is missing")
        self._check_dropped()
        return self

    def _check_dropped(self) -> None:
        """Raises ValueError."""
        if self.delete and self.move_to is not None:
            raise ValueError("delete and move_to exclude each other")
        if (self.delete or self.move_to is not None) and self.read_from == "end":
            raise ValueError('with delete or move_to, a file is read from its beginning: leave out read_from = "end"')
        if self.move_to is not None and leads_to(self.path, self.move_to):
            raise ValueError(f"move_to: files in {self.move_to} match {self.path}, and would be read again")

    def ports_used(self) -> Ports:
        if self.mode == "read":
            return Ports(inputs=(), outputs=("out", "err"))
        return Ports(inputs=("in",), outputs=("err",))

    def how_to_use(self, port: str) -> str:
        return {
            "out": 'it reads with `"mode": "read"` in its `config`',
            "in": 'it writes with `"mode": "append"` in its `config`',
        }.get(port, "")

    def resends(self) -> bool:
        return self.follow

    def has_offsets(self) -> bool:
        return self.follow and not may_be_compressed(self.path)

    def why_no_offsets(self) -> str:
        if not self.follow or self.has_offsets():
            return ""
        ends = "the `*` at its end" if self.path.endswith("*") else "its end"
        return f"`{self.path}` may match compressed files, by {ends}, and these have none; `*.log` matches none"

    def claims(self) -> Sequence[Claim]:
        return () if self.mode == "read" else (Claim("file to write", os.path.abspath(self.path)),)

    def needs(self) -> Sequence[Need]:
        if self.mode != "read":
            return (writable_file(self.path),)
        if not self.follow:
            return (readable_file(self.path),)
        moved = () if self.move_to is None else (made_directory(self.move_to),)
        return (directory(fixed_part(self.path)), made_directory(self.state), *moved)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        if self.follow:
            return Guarantee(source=Lossless(_followed(self.path) + self._disposal()))
        if self.mode == "read":
            return Guarantee(
                source=f"{self.path} is read from its beginning at every start: events that were read before a "
                "restart come again. An event that a sink fails comes again only after a restart"
            )
        synced = self._syncs(behind_log)
        ack = "an event is acked after it was written"
        ack += (
            " and fdatasync returned. So it survives a power cut"
            if synced
            else " to the operating system: it survives a crash of walflow, not a power cut"
        )
        others = "another process cuts, replaces or removes"
        if self.mode == "append":
            promised = f"{ack}, until {others} the file. {_after_a_crash(behind_log, synced)}"
            return Guarantee(sink=Lossless(promised) if synced else promised, once=behind_log)
        if self.mode == "overwrite":
            torn = "After kill -9 the last line may be torn, with older content of the file after it"
            over = (
                f"every start overwrites {self.path} from its beginning, also after a crash, and keeps older content "
            )
            over += 'after its last event; mode = "append" keeps acked events'
            return Guarantee(
                sink=f"{ack}, until the next start writes over it, or {others} it. {torn}",
                warnings=(Risk("emptied", over),),
            )
        return Guarantee(
            sink=f"{ack}, until the next start empties the file, or {others} it",
            warnings=(
                Risk(
                    "emptied",
                    f'every start empties {self.path}, also after a crash; mode = "append" keeps acked events',
                ),
            ),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if self.mode == "read":
            if out.linked and self.follow:
                await follow(self._following(), out)
            elif out.linked:
                await read(self.path, out)
            if self.exit:
                inlet.stop(graceful=True)
            return
        output = self._output(sync=self._syncs(inlet.upstream.behind_log))
        try:
            await file_sink(inlet, output).run()
        finally:
            self._emptied = self._emptied or output.emptied
            if isinstance(output, OverwrittenFile):
                self._place = output.place

    def _disposal(self) -> str:
        if not self.delete and self.move_to is None:
            return ""
        done = "deleted" if self.move_to is None else f"moved to {self.move_to}"
        wait = f"{self.rotate_wait / 1e9:g} s"
        return (
            f". A file that has not grown for {wait} is {done} after its last ack; "
            "what is written to it later is not read"
        )

    def _following(self) -> Following:
        return Following(
            pattern=self.path,
            from_end=self.read_from == "end",
            poll_interval=self.poll_interval / 1e9,
            rotate_wait=self.rotate_wait / 1e9,
            max_open_files=self.max_open_files,
            state=self.state,
            dropped=self.delete or self.move_to is not None,
            move_to=self.move_to,
        )

    def _output(self, *, sync: bool) -> Output:
        disk = world.disk()
        if self.mode == "append":
            return AppendedFile(self.path, disk, sync=sync)
        if self.mode == "overwrite":
            return OverwrittenFile(self.path, disk, sync=sync, place=self._place)
        return Output(self.path, disk, sync=sync, empty=not self._emptied)

    def _syncs(self, behind_log: bool) -> bool:
        return behind_log if self.sync is None else self.sync == "always"


def _followed(path: str) -> str:
    return (
        f"each event of {path} is sent until every sink has acked or rejected it, also after a crash of walflow. "
        "After a crash, or after a sink failed events, at most the last 32 MiB that were read come again. Data that "
        "another process cuts off, or removes while walflow does not have the file open, "
        "is lost if it was not read before"
    )


def _after_a_crash(behind_log: bool, synced: bool) -> str:
    torn = "After kill -9 no line is torn"
    if not behind_log:
        return f"{torn}. After a power cut {'no line is torn' if synced else 'the last lines may be torn'}"
    once = (
        f"{torn}, and none comes twice if one path leads here from the log, and nothing on it takes events out, as a "
        "filter does; also if the file was renamed in its directory. If it was moved elsewhere, cut, replaced or "
        "compressed just before, its last lines may come twice, and the file that was moved may end in a torn line"
    )
    if synced:
        return f"{once}. After a power cut no line is torn or lost, and the last ones may come twice"
    return f"{once}. After a power cut the last lines may be torn or lost, or come twice"
