"""The connector `spark`: its guarantees, and the parts of one run."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from connectors.spark.config import SparkConfig
from connectors.spark.consumers import PLAIN, Admission
from connectors.spark.job.driver import Driver
from connectors.spark.job.probe import probe
from connectors.spark.results.results import Results
from connectors.spark.serve.listener import SparkBridge
from connectors.spark.serve.secret import Token, find_token
from connectors.spark.settings import SparkSettings
from connectors.spark.socket.plain import PROMISE, PlainPort
from connectors.spark.spark_log import ServedLog, SparkLog
from walflow import Guarantee, HostSettings, Inlet, Lossless, Need, Objection, Outlet, Risk, Traits
from walflow.delivery import Arriving, Recalling, kept_note
from walflow.files import error_on_thread, made_directory, read_on_thread, unlocked
from walflow.net import Address, SocketOptions, credentials_written, listen_tcp, to_listen, to_read
from walflow.wal import Log, LogOptions
from walflow_kernel.shipped import shipped_of

BACKLOG: Final = 128  # connections that wait to be accepted


class Spark(SparkConfig):
    """A log that Spark reads. Spark may read any range again until each of its consumers has committed it."""

    traits: ClassVar[Traits] = SparkConfig.traits._replace(output_optional=True)
    settings: ClassVar[type[HostSettings]] = SparkSettings

    @classmethod
    def hosting(cls, settings: HostSettings, pipeline: str, folder: str) -> Self:
        assert isinstance(settings, SparkSettings)
        given = {
            "path": settings.dir or folder,
            "url": settings.url,
            "pipeline": pipeline,
            "master": settings.master,
            "conf": settings.conf,
            "checkpoint": settings.checkpoint,
            "options": {} if settings.partitions is None else {"numPartitions": str(settings.partitions)},
            "python": settings.python,
            "trigger_interval": settings.trigger_interval,
        }
        own = {"max_rows_per_batch": settings.max_rows_per_batch, "max_chunks": settings.max_chunks}
        return cls.model_validate(given | {name: value for name, value in own.items() if value is not None})

    def needs(self) -> Sequence[Need]:
        return [
            made_directory(self.path),
            unlocked(self.path),
            *to_read(self.token, "token"),
            *to_listen(self.address, SocketOptions(), self.tls),
        ]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        budget = self.chunk_size * self.max_chunks
        kept = f"the log in {self.path} takes up to {budget:,} bytes on disk, then it stops its sources"
        warnings: list[str] = []
        if not self.address.loopback and self.tls is None and self.insecure is not None:
            warnings.append(
                Risk("open-to-network", f"{self.address} is open to the network without TLS: {self.insecure}")
            )
        warnings += credentials_written(token=self.token)
        if self.socket_url is not None:
            warnings.append(Risk("unconfirmed", f"{self.socket_url} gives each event {PROMISE}"))
        return Guarantee(
            source=Lossless(
                "each batch of a query on Spark is taken once, even if Spark sends it again. Its rows are sent to "
                "every sink that the pipelines choose for them, and again after a failure or a restart, until that "
                "sink has acked or rejected them. A sink may get them twice. They are never lost"
            ),
            sink=Lossless(
                "an event is acked once it is in the log and fdatasync returned, and stays there until "
                f"{self._readers()} committed it"
            ),
            once=behind_log,
            warnings=tuple(warnings),
            notes=(
                f"{kept}; results take as much again where `out` is linked",
                *([more] if (more := kept_note(self.kept_bytes, self.retain)) else ()),
                *self._of_any(),
                *self._of_pipeline(),
            ),
        )

    def _readers(self) -> str:
        if not self.any_consumer:
            return _each_of(self.declared)
        return "each consumer that is known has"

    def _of_any(self) -> Sequence[str]:
        if not self.any_consumer:
            return ()
        told = (
            f"a consumer is known from its query's first start on; there are at most {self.max_consumers}. One that "
            f"has events before it and is not connected for {self.consumer_timeout / 1e9:,.0f} s is forgotten, and "
            "its events may be deleted"
        )
        return (told,)

    def _of_pipeline(self) -> Sequence[str]:
        """What is different from the daemon for a pipeline that runs here."""
        if self.pipeline is None:
            return ()
        keeping = shipped_of(self.pipeline).keeping
        tasks = (
            f"{self.options['numPartitions']} tasks" if "numPartitions" in self.options else "a task for each 16 MiB"
        )
        begin = (
            "the pipeline runs on Spark. An event leaves it at the end of the batch that it is read in, which takes "
            "some tenths of a second at least. "
        )
        repeats = f"A crash repeats what the log in front of it repeats, and no more; a batch has {tasks}"
        if keeping is None:
            return (f"{begin}At each output the events leave in the order of the log. {repeats}",)
        kept = "What windows and scripts keep is in Spark's checkpoint, and survives a crash. "
        if keeping.single is None:
            order = "Within a group the events leave in the order of the log; between groups there is no order. "
            dealt = (
                f" to read, and at most {keeping.buckets} for the groups, "
                f"which are dealt to {keeping.buckets} buckets"
            )
        else:
            order = "At each output the events leave in the order of the log. "
            dealt = f" to read, and one for the rest: {keeping.single}"
        return (f"{begin}{kept}{order}{repeats}{dealt}",)

    def probe(self) -> Sequence[Objection]:
        return probe(self)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        options = LogOptions(
            self.path,
            self.chunk_size,
            self.max_chunks,
            cache_bytes=0,
            retain_bytes=self.kept_bytes,
            retain_ns=self.retain,
        )
        log = Log(options)
        try:
            await self._serve(log, inlet, out)
        finally:
            # after what both threads have in hand, and the runtime has heard of it
            await error_on_thread(out, lambda: None)
            await error_on_thread(out, lambda: None, urgent=True)
            out.log.info("log closing", left=log.durable - log.low, durable=log.durable)
            await error_on_thread(out, log.close)
            if log.failure is not None:  # nothing is lost, and the disk has failed all the same
                out.fatal(log.failure)

    async def _serve(self, log: Log, inlet: Inlet, out: Outlet) -> None:
        for line in log.recovery.lines():
            out.log.info("recovery", found=line)
        out.log.info("log open", replays=log.durable - log.low, durable=log.durable, budget=log.budget)
        token = find_token(self.token, log, out)
        names = [*self.declared, PLAIN] if self.socket_url is not None else self.declared
        admission = Admission(self.max_consumers, self.consumer_timeout / 1e9) if self.any_consumer else None
        recalling = Recalling(log, inlet)
        if recalling.needed:
            recalling.tell(out, await read_on_thread(out, recalling.read))
        arriving = Arriving(log, inlet) if inlet.upstream.straight or inlet.upstream.straight_files else None
        if arriving is not None:
            arriving.tell(out, await read_on_thread(out, arriving.open))
        events = SparkLog(log, names, admission, inlet, out, arriving, self.retain)
        results: Results | None = None
        try:
            results = Results.open(self, inlet, out) if out.linked else None
            bridge = SparkBridge(self, events.served, events.ranges, token.text, results, inlet, out)
            await self._listen(bridge, events, token, out)
        finally:
            await events.end()
            if results is not None:
                await results.close()

    async def _listen(self, bridge: SparkBridge, events: SparkLog, token: Token, out: Outlet) -> None:
        sockets = listen_tcp(self.address, BACKLOG, SocketOptions())
        address = Address(self.address.host, int(sockets[0].getsockname()[1]))
        out.log.info("listening", address=str(address), tls=self.tls is not None)
        events.begin()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bridge.serve(sockets))
                await self._beside(bridge, events.served, address, token, out)  # ends first: see there
        except BaseExceptionGroup as error:
            raise _first(error) from None

    async def _beside(
        self, bridge: SparkBridge, served: ServedLog, address: Address, token: Token, out: Outlet
    ) -> None:
        """Ends before the bridge: the driver's last batch still needs that."""
        async with asyncio.TaskGroup() as group:
            if self.socket_url is not None:
                group.create_task(PlainPort(self, served, out, bridge.hand_over).run())
            if self.runs_spark:
                group.create_task(Driver(self, out, address, token.file, served.log.uuid).run())
            await asyncio.get_running_loop().create_future()


def _each_of(consumers: Sequence[str]) -> str:
    names = ", ".join(consumers)
    return f"each of {names} has" if len(consumers) > 1 else f"{names or 'the plain listener'} has"


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure, because an operator wants to read that one."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
