"""The sink half: a job opens the file or writes a batch, one after the other."""

from collections import deque

from connectors.file.file_batches import FileBatches
from connectors.file.output import FileBatch, Output, explain
from walflow import Block, Inlet, JobEnd, JobSink, SinkWork


class FileWork(SinkWork[FileBatch]):
    """A job opens the file if it is not open, or since SIGHUP not again; then it writes its batch."""

    opens = True

    def __init__(self, inlet: Inlet, output: Output) -> None:
        self._inlet = inlet
        self._output = output
        self._batching = FileBatches(inlet, output, lambda part: self.sink.ack(part))
        self._wanted = 1  # how often it was to be opened
        self._opening = self._opened = 0  # of these: when the present job began; in the end

    def take(self, waiting: deque[Block]) -> FileBatch | None:
        if self._wanted != self._opened:
            return FileBatch()
        return self._batching.gather(waiting)

    def begins(self, job: FileBatch) -> None:
        self._opening = self._wanted

    def do(self, job: FileBatch) -> None:
        if self._opening != self._opened:
            self._output.reopen()
            self._opened = self._opening
        if job.blocks:
            self._output.write(job)

    def explain(self, error: BaseException) -> str:
        return explain(self._output.path, error) if isinstance(error, OSError) else super().explain(error)

    def outcomes(self, job: FileBatch, error: BaseException | None) -> JobEnd:
        self._tell()
        return super().outcomes(job, error)

    def _tell(self) -> None:
        notes, self._output.notes = self._output.notes, []
        for note in notes:
            self._inlet.log.warning(note)

    def reopen(self) -> None:
        self._wanted += 1

    def close(self) -> None:
        self._output.close()

    def closed(self, error: BaseException | None) -> None:
        self._tell()
        if isinstance(error, OSError):
            self._inlet.log.warning(f"not closed cleanly: {explain(self._output.path, error)}")


def file_sink(inlet: Inlet, output: Output) -> JobSink[FileBatch]:
    """SIGHUP opens the path again. It ends a wait for better times, too."""
    work = FileWork(inlet, output)
    sink = JobSink(inlet, work)

    def reopen() -> None:
        work.reopen()
        sink.retry()

    inlet.on_reopen(reopen)
    return sink
