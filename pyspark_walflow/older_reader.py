"""A stream for Spark 4.0 and 4.1, which ask for the latest offset, and say neither where the query is nor how much it
wants. What they tell of it, and in which order:

    a new checkpoint             latestOffset, initialOffset, partitions(initial, latest)
    a start that goes on         partitions(last, last), for the last offset that Spark has written down; latestOffset
    a batch is done again        partitions(end, end), for its end; partitions(start, end), if the sink has not got it
    availableNow                 the same, but one batch: latestOffset once, or not at all if a batch is done again
    availableNow, WRAPPER true   latestOffset before all else: the end of the run

So the first answer of a start is the end of the log: it may be all that an `availableNow` asks for, which would end
early without a word. Option firstBatch says that it need not be. From then on a batch is bounded behind the highest
offset that was answered or planned, and no answer is below it.

The first answer for a new checkpoint needs a scan, the name of that checkpoint, before it is known to be new. It
takes the one that the daemon has; that of another checkpoint is refused as soon as Spark asks for a beginning. Where
the daemon has none, nothing was committed. Then one is drawn, and stands for the one that the checkpoint may have.
"""

import secrets
from typing import Final

from pyspark_walflow.fetch import Range, tell
from pyspark_walflow.older_spark import ReadAllAvailable, ReadLimit
from pyspark_walflow.options import Options
from pyspark_walflow.planner import Planner
from pyspark_walflow.quiet import Quiet
from pyspark_walflow.reader import Offset, StreamReader, place_of

WRAPPER: Final = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"  # MicroBatchExecution's, false by default
END: Final = "next"  # in an offset: the end of the log when it was answered, for the progress


class OlderStreamReader(StreamReader):
    """`_highest`: the offset that was answered or planned last. `_bounds`: not before the first answer. `_drawn`: the
    scan of a first answer for which the daemon had none."""

    def __init__(self, options: Options, quiet: Quiet | None = None) -> None:
        super().__init__(options, quiet)
        self._highest: Offset | None = None
        self._bounds = options.first_bounded
        self._drawn: str | None = None

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        if self._bounds:
            highest = self._highest or self.initialOffset()
            self._highest = super().latestOffset(highest, self.getDefaultReadLimit())
        elif self._highest is None:
            self._highest = self._end_of_log()
        else:  # not as one that has nothing new where its daemon is away: a nightly job would have read nothing
            self._highest = self._latest(self._at(self._highest)[0], self._highest, ReadAllAvailable())
        self._bounds = True
        return self._highest

    def partitions(self, start: Offset, end: Offset) -> list[Range]:
        first, last = place_of(start).position, place_of(end).position
        if first < last and not self._bounds:
            tell(
                f"Spark does a batch of consumer {self._options.consumer!r} again, positions {first} to {last - 1}. "
                f"A run of availableNow ends behind it, unless {WRAPPER} is true"
            )
        if self._highest is None or place_of(self._highest).position < last:
            self._highest = end
        return super().partitions(start, end)

    def _end_of_log(self) -> Offset:
        planner = self._planning(None)
        scan = "" if self._options.new_checkpoint else planner.scan()
        if not scan:
            scan = self._drawn = secrets.token_hex(8)
        return self._offset(planner.head().next) | {"scan": scan}

    def _begin(self, planner: Planner, scan: str) -> None:
        super()._begin(planner, self._drawn or scan)

    def _newest(self) -> int:
        """Events that came between the first answer and the question for a beginning are not left out."""
        newest = super()._newest()
        return newest if self._highest is None else min(newest, place_of(self._highest).position)

    def _offset(self, position: int) -> Offset:
        offset = super()._offset(position)
        head = self._planning(None).last_head
        return offset if head is None else offset | {END: max(head.next, position)}
