"""What a read gave: events on their way, a file that was cut or compressed, or trouble."""

from collections.abc import Sequence

from connectors.file.follow.finding import shown
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.following import FollowedFiles, Following
from connectors.file.follow.inflating import InflatedFile
from connectors.file.follow.jobs import FileRead
from connectors.file.follow.keeping import MarkKeeper
from connectors.file.follow.recognising import NOTHING_READ, Guess, guesses, left
from connectors.file.follow.settling import FileOutcomes
from walflow import Outlet


class FileReads:
    def __init__(
        self, config: Following, out: Outlet, files: FollowedFiles, keeper: MarkKeeper, outcomes: FileOutcomes
    ) -> None:
        self._config = config
        self._out = out
        self._scheduler = out.scheduler
        self._log = out.log
        self._files = files
        self._keeper = keeper
        self._outcomes = outcomes
        self._cut = out.counter("truncated_files_total")
        self._damaged = out.counter("damaged_files_total")

    def __repr__(self) -> str:
        return f"<FileReads of {self._files!r}>"

    def took(self, read: FileRead) -> None:
        each = read.file
        if each.file is not None:
            self._files.open.pop(each.identity, None)
            self._files.open[each.identity] = each
        if not self._files.follows(each):
            return
        if read.parts and each.compressed:
            each.untried = []
        if read.parts and each.failed is None:  # otherwise it is read again, this too
            self._take(each, read.parts)
        if read.rewritten and each.untried:
            self._guess(each, left(each.untried, read.ends_at))
        elif read.rewritten:
            self._rewritten(each)
        elif read.trouble:
            self._unreadable(each, read.trouble)
        elif isinstance(each.file, InflatedFile) and each.untried is None:
            self._recognise(each, each.file)
        else:
            self._readable(each, read)

    def _take(self, each: FollowedFile, parts: Sequence[bytes]) -> None:
        if each.stream is None:
            each.stream = self._out.stream(
                {"file": {"path": shown(each.path)}}, marks=True, place=None if each.compressed else each
            )
        self._keeper.reading(each)
        for part in parts:
            if each.failed is None:
                each.take(part, self._outcomes.progress)

    def _recognise(self, each: FollowedFile, file: InflatedFile) -> None:
        """It may be one that was followed, compressed. That one is read first, as long as it can be."""
        known = [*self._keeper.known]
        alike = guesses(file.first, known)
        offsets = {guess.offset for guess in alike}
        busy = [self._files.known.get(mark.identity) for mark in known if mark.offset in offsets]
        if any(one is not None and one.gone_since is not None for one in busy):
            each.not_before = self._scheduler.time() + self._config.rotate_wait
            self._files.close(each)
            return
        self._guess(each, [*alike, NOTHING_READ])

    def _guess(self, each: FollowedFile, untried: list[Guess]) -> None:
        each.begin_behind(untried[0])
        each.untried = untried[1:]
        self._files.open.pop(each.identity, None)

    def _readable(self, each: FollowedFile, read: FileRead) -> None:
        if each.failed is not None:
            return
        if each.trouble:
            self._log.info(f"{shown(each.path)} can be read again")
            each.trouble = ""
        each.after = None
        each.changed = False
        self._files.unread.pop(each.identity, None)
        if read.ended:
            each.size = each.position
            if each.compressed and not each.ended:
                self._inflated(each, read.damage)
        else:
            each.size = max(each.size, each.position + 1)  # more may be there; it has another turn
            self._files.unread[each.identity] = each

    def _inflated(self, each: FollowedFile, damage: str) -> None:
        """All that is in it."""
        if damage:
            self._damaged.value += 1
            reason = f"{shown(each.path)} is damaged: {damage}"
            self._log.error(f"{reason}; what follows byte {each.position} of what is in it is not read")
            if each.stream is None:
                each.stream = self._out.stream({"file": {"path": shown(each.path)}}, marks=True)
            each.damage(reason, self._outcomes.progress)
            if each.finished:
                self._files.due[each.identity] = each
        else:
            self._outcomes.end(each)

    def _unreadable(self, each: FollowedFile, trouble: str) -> None:
        each.not_before = self._scheduler.time() + each.backoff.next()
        if trouble == "gone":  # the next look says where it is
            return
        if trouble != each.trouble:
            self._log.warning(f"cannot read {shown(each.path)}: {trouble}; the other files go on")
            each.trouble = trouble

    def _rewritten(self, each: FollowedFile) -> None:
        self._cut.value += 1
        lost = (
            ""
            if each.acked == each.position
            else f" Of what was sent, {each.position - each.acked} bytes are not acked."
        )
        self._log.warning(
            f"{shown(each.path)} was cut, or written anew: it is read from its beginning. What was in it behind byte "
            f"{each.position} is not read.{lost}"
        )
        if each.stream is not None:
            each.stream.close()
            each.stream = None
        self._files.close(each)
        self._keeper.drop(each)
        self._keeper.remember(each)
        self._files.unread.pop(each.identity, None)
        fresh = FollowedFile(each.path, each.identity, each.size)
        fresh.slot = each.slot
        fresh.packed = each.packed
        fresh.gone_since, fresh.searched, fresh.quiet_since = each.gone_since, each.searched, self._scheduler.time()
        self._files.add(fresh, self._keeper)
        self._keeper.save_soon()
