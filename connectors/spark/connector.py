"""The connector `spark`: its log, and the parts that stand around it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from connectors.spark.config import SparkConfig
from connectors.spark.consumers import PLAIN, Consumers
from connectors.spark.durable_end import DurableEnd
from connectors.spark.job.driver import Driver
from connectors.spark.job.probe import probe
from connectors.spark.results.results import Results
from connectors.spark.serve.listener import SparkBridge
from connectors.spark.serve.ranges import LogRanges
from connectors.spark.serve.secret import find_token
from connectors.spark.serve.session import SessionStaging
from connectors.spark.socket.plain import PROMISE, PlainPort
from walflow import Guarantee, Inlet, Objection, Outlet
from walflow.net import Address, SocketOptions
from walflow.net.sockets import listen_tcp
from walflow.relay import Checkpoints, LogSink, measure
from walflow.relay.tag import Tags
from walflow.wal import Commit, Log, LogOptions

BACKLOG: Final = 128  # connections that wait to be accepted
LOOK: Final = 60.0  # seconds between looks for a consumer that holds the log
HELD: Final = 0.5  # of the budget: from here on it is said


class Spark(SparkConfig):
    """A log that Spark reads ranges of, as often as it likes, until each of its consumers has committed them."""

    output_optional: ClassVar[bool] = True

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        budget = self.chunk_size * self.max_chunks
        kept = f"the log in {self.path} takes up to {budget:,} bytes on disk, then it stops its sources"
        warnings = [f"{kept}; results take as much again where `out` is linked"]
        if not self.address.loopback and self.tls is None and self.insecure is not None:
            warnings.append(f"{self.address} is open to the network without TLS: {self.insecure}")
        if self.token is not None and self.token.inline:
            warnings.append("the token stands in the flow file; name a file, env or credential instead")
        if self.socket_url is not None:
            warnings.append(f"{self.socket_url} gives each event {PROMISE}")
        return Guarantee(
            source="each batch of a query on Spark is taken once, however often Spark sends it; its rows are sent to every "
            "sink that the pipelines choose for them, again after a failure or a restart, until that sink has acked or "
            "rejected them; then they may come twice, and they are never lost",
            sink="an event is acked once it is in the log and fdatasync returned, and stays there until "
            f"{_each_of(self.consumers)} committed it",
            warnings=tuple(warnings),
        )

    def probe(self) -> Sequence[Objection]:
        return probe(self)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        log = Log(LogOptions(self.path, self.chunk_size, self.max_chunks, cache_bytes=0))
        try:
            await _Running(self, log, inlet, out).serve()
        finally:
            await _on_thread(out, lambda: None)  # after what the thread has in hand, and the runtime has heard of it
            out.log.info("log closing", left=log.durable - log.low, durable=log.durable)
            await _on_thread(out, log.close)
            if log.failure is not None:  # nothing is lost, and the disk has failed all the same
                out.fatal(log.failure)


class _Running:
    """One run, put together."""

    def __init__(self, config: Spark, log: Log, inlet: Inlet, out: Outlet) -> None:
        self._config = config
        self._log = log
        self._inlet = inlet
        self._out = out
        for line in log.recovery.lines():
            out.log.info("recovery", found=line)
        out.log.info("log open", replays=log.durable - log.low, durable=log.durable, budget=log.budget)
        self._token, self._token_file = find_token(config.token, log, out)
        self._checkpoints = Checkpoints(log, inlet.scheduler, inlet, lambda: self._writer.room())
        names = [*config.consumers, PLAIN] if config.socket_url is not None else config.consumers
        self._durable_end = DurableEnd(log)
        self._ranges = LogRanges(log, self._durable_end, out)
        self._consumers = Consumers(log, names, out, self._checkpoints.acked)
        measured = measure(log, inlet, _Unread(log))

        def committed(commit: Commit) -> None:
            measured(commit)
            self._ranges.committed(commit)

        self._writer = LogSink(
            log, inlet, Tags(), self._durable_end.moved, self._checkpoints, committed, on_full=self._tell_full
        )

    async def serve(self) -> None:
        results = Results.open(self._config, self._inlet, self._out) if self._out.linked else None
        try:
            await self._serve(results)
        finally:
            self._writer.stop()
            self._checkpoints.stop()
            self._ranges.close()
            await self._consumers.close()
            if results is not None:
                await results.close()

    async def _serve(self, results: SessionStaging | None) -> None:
        config, out = self._config, self._out
        bridge = SparkBridge(
            config,
            self._log.uuid,
            self._token,
            self._consumers,
            self._durable_end,
            self._ranges,
            results,
            self._inlet,
            out,
        )
        sockets = listen_tcp(config.address, BACKLOG, SocketOptions())
        address = Address(config.address.host, int(sockets[0].getsockname()[1]))
        out.log.info("listening", address=str(address), tls=config.tls is not None)
        self._inlet.serve(self._writer.accept)
        self._checkpoints.acked()
        self._look()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bridge.serve(sockets))
                await self._beside(bridge, address)  # ends first: the driver's last batch still needs the bridge
        except BaseExceptionGroup as error:
            raise _first(error) from None

    async def _beside(self, bridge: SparkBridge, address: Address) -> None:
        config = self._config
        async with asyncio.TaskGroup() as group:
            if config.socket_url is not None:
                plain = PlainPort(config, self._log, self._consumers, self._durable_end, self._out, bridge.hand_over)
                group.create_task(plain.run())
            if config.runs_spark:
                driver = Driver(config, self._out, address, self._token_file, self._log.uuid)
                group.create_task(driver.run())
            await asyncio.get_running_loop().create_future()

    def _tell_full(self) -> None:
        self._consumers.tell(full=True)

    def _look(self) -> None:
        if self._log.fill >= HELD:
            self._consumers.tell(full=False)
        self._out.scheduler.call_later(LOOK, self._look)


class _Unread:
    """For the metrics. `out.backlog` is not told of it: a drain does not wait for Spark."""

    first_ingest_ns = 0

    def __init__(self, log: Log) -> None:
        self._log = log

    def backlog(self) -> int:
        log = self._log
        return sum(last - first + 1 for first, last in log.unacked(log.low + 1, log.durable))


def _each_of(consumers: Sequence[str]) -> str:
    names = ", ".join(consumers)
    return f"each of {names} has" if len(consumers) > 1 else f"{names or 'the plain listener'} has"


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What failed first is what an operator wants to read."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


async def _on_thread(out: Outlet, job: Callable[[], None]) -> None:
    done = asyncio.Event()
    out.scheduler.submit(job, lambda error: done.set())
    await done.wait()
