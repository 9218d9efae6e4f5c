"""What a read gave: events on their way, a file that was cut or compressed, or trouble."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from connectors.file.follow.compressed_file import InflatedFile
from connectors.file.follow.copies import CutFile, find_copies, find_sent
from connectors.file.follow.files_found import shown
from connectors.file.follow.followed import FollowedFile
from connectors.file.follow.followed_files import FollowedFiles, Following
from connectors.file.follow.jobs import FileRead, Jobs
from connectors.file.follow.mark_keeper import MarkKeeper
from connectors.file.follow.outcomes import FileOutcomes
from connectors.file.follow.same_file import NOTHING_READ, Guess, guesses, left
from connectors.file.follow.sent import SentOffsets
from walflow import Outlet

TRIES: Final = 5  # at what cannot be read, in a start, before the other files are read


class FileReads:
    def __init__(
        self,
        config: Following,
        out: Outlet,
        files: FollowedFiles,
        keeper: MarkKeeper,
        offsets: SentOffsets,
        in_thread: Jobs,
        outcomes: FileOutcomes,
    ) -> None:
        self._config = config
        self._out = out
        self._scheduler = out.scheduler
        self._log = out.log
        self._files = files
        self._keeper = keeper
        self._offsets = offsets
        self._in_thread = in_thread
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
        if read.originals:
            self._wait(each, read)
        elif read.rewritten and each.untried:
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
        known = [] if self._config.dropped else [*self._keeper.known]
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
        self._tell_long(each)
        self._files.unread.pop(each.identity, None)
        if read.ended:
            each.size = each.position
            if each.compressed and not each.ended:
                self._inflated(each, read.damage)
        else:
            each.size = max(each.size, each.position + 1)  # more may be there; it has another turn
            self._files.unread[each.identity] = each

    def _tell_long(self, each: FollowedFile) -> None:
        """The error record comes with the end of the event, if it ever has one."""
        most = self._out.max_event_bytes
        if each.unended > most and each.told_long != each.acked:
            each.told_long = each.acked
            self._log.warning(
                f"an event of {shown(each.path)} at byte {each.acked} is longer than max_event_bytes, {most}, and "
                "goes on: it leaves by err at its end"
            )

    def _inflated(self, each: FollowedFile, damage: str) -> None:
        """The compressed file is read to its end, or to its damage."""
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
        if self._config.may_match_copies and not each.compressed and each.position:
            each.cut, each.cut_at = True, self._scheduler.time()
            self._files.unread.pop(each.identity, None)
            self._files.cut[each.identity] = each
            self._files.look_at_once = True
        else:
            self._begin_anew(each)

    def _begin_anew(self, each: FollowedFile) -> None:
        self._cut.value += 1
        self._tell_lost(each)
        self._files.begin_anew(each, self._keeper, self._scheduler.time())

    def _tell_lost(self, each: FollowedFile) -> None:
        lost = (
            ""
            if each.acked == each.position
            else f" Of what was sent, {each.position - each.acked} bytes are not acked."
        )
        self._log.warning(
            f"{shown(each.path)} was cut, or written anew: it is read from its beginning. What was in it behind byte "
            f"{each.position} is not read.{lost}"
        )

    def _wait(self, each: FollowedFile, read: FileRead) -> None:
        """It may be a copy of others. Once one of them is cut, `find_copies` says so."""
        now = self._scheduler.time()
        for one in read.originals:
            each.originals.setdefault(one, Guess(one.acked, one.tail))
        for one in read.cut:
            one.changed = True
            if one.unread:
                self._files.unread.setdefault(one.identity, one)
        each.not_before = now + self._config.poll_interval
        if not read.cut and now - each.quiet_since >= self._config.rotate_wait:
            names = ", ".join(sorted(shown(one.path) for one in read.originals))
            self._log.info(f"{shown(each.path)} begins as {names}, which is not cut: it is read from its beginning")
            each.untried, each.originals = [], {}
            each.not_before = now

    async def find_sent(self) -> None:
        """In a start, before anything is read."""
        files = self._files
        if new := files.new:
            undecided = [each for each in files.known.values() if each.slot >= 0]
            for tries_left in reversed(range(TRIES)):
                undecided = await self._in_thread.run(
                    partial(find_sent, undecided, new, self._offsets, patient=tries_left > 0)
                )
                if not undecided:
                    break
                await asyncio.sleep(self._config.poll_interval)
            files.open.update((each.identity, each) for each in new if each.file is not None)

    async def settle_cut(self, before: Sequence[FollowedFile]) -> None:
        """Of files that were cut before the last look: a copy was made before, and was found."""
        files, now = self._files, self._scheduler.time()
        wait = self._config.rotate_wait
        cut = [
            CutFile(each, files.in_place_of(each, now), patient=now - each.cut_at < wait)
            for each in before
            if files.cut.get(each.identity) is each
        ]
        if not cut:
            return
        new = files.new
        found = await self._in_thread.run(partial(find_copies, cut, new, self._offsets))
        files.open.update((each.identity, each) for each in new if each.file is not None)
        taken = [each.copy for each in found]
        settled = [each for each in found if not each.unsettled or each.anew in taken]
        for each in found:
            if each not in settled and each.anew.file is not None:
                each.anew.file.close()
        for each in settled:
            self._tell_cut(each)
        files.settle_cut(settled, self._keeper)

    def _tell_cut(self, cut: CutFile) -> None:
        self._cut.value += 1
        if cut.copy is None:
            self._tell_lost(cut.file)
            return
        path, copy = shown(cut.file.path), shown(cut.copy.path)
        place = "the copy has no more" if cut.ends_at else f"the copy is read on from byte {cut.file.position}"
        self._log.info(f"{path} was copied to {copy}, and cut: {place}, and {path} is read from its beginning")
