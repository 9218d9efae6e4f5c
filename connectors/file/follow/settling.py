"""What the outcomes of a file's events mean: read it again, go on, or be done with it."""

from connectors.file.follow.disposing import dispose
from connectors.file.follow.finding import shown
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.following import FollowedFiles, Following
from connectors.file.follow.jobs import Jobs
from connectors.file.follow.keeping import MarkKeeper
from walflow import Outlet


class FileOutcomes:
    def __init__(
        self, config: Following, out: Outlet, files: FollowedFiles, keeper: MarkKeeper, in_thread: Jobs
    ) -> None:
        self._config = config
        self._scheduler = out.scheduler
        self._log = out.log
        self._files = files
        self._keeper = keeper
        self._in_thread = in_thread
        self._again = out.counter("reread_bytes_total")
        self._disposed = out.counter("disposed_files_total")

    def __repr__(self) -> str:
        return f"<FileOutcomes of {self._files!r}>"

    def progress(self, each: FollowedFile) -> None:
        """Its `acked` has moved, or it has failed. At any time: also while a job has it in use."""
        files = self._files
        if not files.follows(each):
            if each.failed is not None:
                self._log.error(
                    f"events of {shown(each.path)} failed, and are not in it any more", cause=str(each.failed)
                )
            elif each.settled:
                self._keeper.remember(each)  # compressed, it may come again
            return
        if each.failed is None:
            self._keeper.acked(each)
        if each.failed is not None or each.finished:
            files.due[each.identity] = each
            files.wake.set()
        elif files.crowded and each.settled:
            files.wake.set()

    def end(self, each: FollowedFile) -> None:
        """Marks the file as complete: it grows no more."""
        each.end(self.progress)
        if each.finished:
            self._files.due[each.identity] = each

    def see_to(self) -> None:
        """What is due. No job runs now, so files may be closed."""
        files = self._files
        due, files.due = files.due, {}
        for each in due.values():
            if not files.follows(each):
                continue
            if each.failed is not None:
                self._failed(each, each.failed)
            elif each.compressed and not self._config.dropped and each.gone_since is None:
                self._log.info(f"{shown(each.path)} is read to its end", bytes=each.position)
                files.close(each)
                self._keeper.acked(each)
            elif self._config.dropped and each.gone_since is None:
                files.close(each)
                files.done[each.identity] = each
            else:
                self._log.info(f"{shown(each.path)} is read to its end, and followed no more", bytes=each.position)
                files.forget(each, self._keeper)

    def _failed(self, each: FollowedFile, cause: BaseException) -> None:
        delay = each.backoff.next()
        self._again.value += each.position - each.acked
        self._log.warning(
            f"events of {shown(each.path)} failed: it is read again from byte {each.acked}", cause=str(cause),
            seconds=round(delay, 2),
        )  # fmt: skip
        each.begin_again()
        each.not_before = self._scheduler.time() + delay
        each.size = max(each.size, each.position + 1)
        self._files.unread[each.identity] = each
        self._scheduler.call_later(delay, self._files.wake.set)

    async def dispose(self) -> None:
        """Deletes or moves dropped files whose events are all acked."""
        files, now = self._files, self._scheduler.time()
        done = [each for each in files.done.values() if each.not_before <= now]
        if not done:
            return
        for result in await self._in_thread.run(lambda: dispose(done, self._config.move_to)):
            each = result.file
            if result.grown:
                del files.done[each.identity]
                each.begin_again()
                each.quiet_since = now
                files.unread[each.identity] = each
            elif result.rewritten:
                self._log.warning(
                    f"{shown(each.path)} is another file than the one that was read: it is read from its beginning"
                )
                files.begin_anew(each, self._keeper, now)
            elif result.trouble:
                if result.trouble != each.trouble:
                    verb = "delete" if self._config.move_to is None else "move"
                    self._log.warning(f"cannot {verb} {shown(each.path)}: {result.trouble}; it is read, and stays")
                each.trouble = result.trouble
                each.not_before = now + each.backoff.next()
            else:
                self._disposed.value += 1
                files.forget(each, self._keeper)
