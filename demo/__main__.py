"""`python -m demo`: exit code 0 if nothing is missing, altered or doubled; 1 if anything is; 2 if it did not get
that far."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from demo.client import Traffic
from demo.ledger import Ledger, audit
from demo.lines import Lines
from demo.server import FLOWS, PATIENCE, ROOT, Server, ServerFailed, free_port, write_flow
from demo.show import Show, print_ledger
from demo.spark import show as show_spark

LOOK: Final = 0.25  # seconds between lines of progress
WATCH: Final = 0.01  # seconds between looks at what the server says
FILE: Final = "server_out.log"


@dataclass(frozen=True)
class Plan:
    seconds: float
    kills: int
    connections: int
    rate: float | None
    seed: int
    flow: Path


@dataclass
class Outcome:
    ledger: Ledger
    kills: int
    exit_code: int  # of the server, asked to stop
    refused: bytes  # what the flow's console printed: events it could not read
    pulse: str
    errors: list[str]  # of our own

    def shortcomings(self, plan: Plan) -> list[str]:
        """What else makes the ledger worth nothing."""
        found = list(self.errors)
        if self.kills != plan.kills:
            found.append(f"{_kills(self.kills)} instead of {plan.kills}")
        if not self.ledger.echoed:
            found.append("no line came back")
        if self.exit_code:
            found.append(f"the server ended with exit code {self.exit_code}")
        if self.refused:
            found.append(f"the server could not read lines: {self.refused[:200].decode(errors='replace')}")
        return found


class Demo:
    """One run: traffic all the time, kills at random moments of it, then the ledger."""

    def __init__(self, plan: Plan, workdir: Path, console: Console) -> None:
        self._plan = plan
        self._workdir = workdir
        self._console = console
        self._lines = Lines(plan.seed)
        self._traffic = Traffic(plan.connections, self._lines, plan.rate)
        self._show = Show(console, plan.seconds)
        self._port = free_port()
        flow = write_flow(workdir, plan.flow, {"url": f"127.0.0.1:{self._port}"})
        self._server = Server(flow, workdir)
        self._kills = 0
        self._killed_at: float | None = None
        self._began = 0.0
        self._errors: list[str] = []

    async def run(self) -> Outcome:
        self._began = self._now()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self._errors.append(repr(context)))
        with self._server, self._show:
            self._server.start()
            await self._drive()
            self._show.say(self._elapsed(), "■", "every line is back, SIGTERM", "bold")
            exit_code = await asyncio.to_thread(self._server.stop)
        printed, pulse = self._server.printed(), self._show.pulse()
        return Outcome(self._audit(), self._kills, exit_code, printed, pulse, self._errors)

    async def _drive(self) -> None:
        """Raises ServerFailed."""
        clients = [asyncio.create_task(client.run(self._port)) for client in self._traffic.clients]
        watchers = [asyncio.create_task(self._watch()), asyncio.create_task(self._report())]
        acting = asyncio.create_task(self._act())
        try:
            await asyncio.wait((acting, *watchers), return_when=asyncio.FIRST_COMPLETED)
            for task in (*watchers, acting):
                if task.done():
                    task.result()
        finally:
            await _end([acting, *watchers, *clients])

    async def _act(self) -> None:
        async with asyncio.TaskGroup() as group:
            kills = group.create_task(self._kill_repeatedly())
            # on a machine with other work a start takes longer, and the last kill would come after the last line; or
            # the first line would never be sent
            group.create_task(
                self._traffic.flow(self._plan.seconds, lambda: not kills.done() or not self._traffic.echoed)
            )
        try:
            async with asyncio.timeout(PATIENCE):
                await _until(lambda: self._traffic.settled)
        except TimeoutError:
            missing = self._traffic.sent - self._traffic.echoed
            refused = self._server.printed()[:300].decode(errors="replace")
            raise ServerFailed(
                f"{missing:,} lines stayed without an echo\n{self._server.last_words()}\n{refused}"
            ) from None

    async def _kill_repeatedly(self) -> None:
        """At random moments, each in its share of the time; never before lines come back since the last one."""
        rng = random.Random(self._plan.seed)
        share = self._plan.seconds / (self._plan.kills + 1)
        for number in range(self._plan.kills):
            await asyncio.sleep(self._began + share * (number + 0.4 + 0.6 * rng.random()) - self._now())
            echoed = self._traffic.echoed
            while self._traffic.flowing:
                await asyncio.sleep(rng.random() * WATCH)
                if self._traffic.echoed > echoed and self._traffic.underway:
                    self._kill()
                    break

    def _kill(self) -> None:
        underway = self._traffic.underway
        self._server.kill()
        self._kills += 1
        self._killed_at = self._now()
        self._show.say(
            self._elapsed(), "✗", f"[red]kill -9[/], {underway:,} lines on their way there or back", "bold red"
        )
        self._server.start()

    async def _watch(self) -> None:
        while True:
            for event in self._server.events():
                self._note(event)
            await asyncio.sleep(WATCH)

    def _note(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "log open", "replays": int(replays)}:
                again = "" if self._killed_at is None else f" again after {self._now() - self._killed_at:.2f} s"
                count = f"[bold]{replays:,}[/] events" if replays else "nothing"
                self._show.say(
                    self._elapsed(), "●", f"the server is up{again}, replays {count} from its log", "green"
                )
            case {"level": "warning" | "error" | "critical"}:
                details = (
                    event[key] for key in ("component", "event", "found", "reason", "error", "cause") if key in event
                )
                self._show.say(self._elapsed(), "!", escape(": ".join(map(str, details))), "yellow")

    async def _report(self) -> None:
        before = self._traffic.echoed
        then = self._now()
        while True:
            await asyncio.sleep(LOOK)
            echoed, now = self._traffic.echoed, self._now()
            rate = (echoed - before) / (now - then)
            before, then = echoed, now
            self._show.progress(self._elapsed(), self._traffic.sent, echoed, rate, self._kills)

    def _audit(self) -> Ledger:
        file = self._workdir / FILE
        with self._console.status("reading the file back") as status:
            return audit(
                file if file.exists() else Path(os.devnull),  # if the server had no time to begin it
                self._lines,
                self._traffic.accounts,
                lambda count: status.update(f"reading the file back: {count:,} lines"),
            )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _elapsed(self) -> float:
        return self._now() - self._began


async def _until(met: Callable[[], bool]) -> None:
    while True:
        if met():
            return
        await asyncio.sleep(WATCH)


async def _end(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main(
    seconds: Annotated[float, typer.Option(min=1, help="How long lines are sent.")] = 25,
    kills: Annotated[int, typer.Option(min=0)] = 7,
    connections: Annotated[int, typer.Option(min=1)] = 6,
    rate: Annotated[
        float, typer.Option(min=0, help="Lines a second, all together; 0: as fast as they come back.")
    ] = 50_000,
    seed: Annotated[int | None, typer.Option(help="Of the lines and the moments of the kills.")] = None,
    flow: Annotated[Path, typer.Option(help="Another one with an `url`, and a file of the same name.")] = FLOWS
    / "server.troy",
    spark: Annotated[bool, typer.Option(help="Spark counts the lines, too, where there is a Java.")] = True,
    keep: Annotated[bool, typer.Option(help="Keep the log, the file and what the server said.")] = False,
) -> None:
    """An echo server with a write-ahead log, killed under load. Nothing it echoed may be missing from its file."""
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 110)
    plan = Plan(seconds, kills, connections, rate or None, random.randrange(10**6) if seed is None else seed, flow)
    workdir = Path(tempfile.mkdtemp(prefix="walflow-demo-"))
    keep_it = keep
    try:
        outcome = _run(plan, workdir, console)
        good = _conclude(console, plan, outcome)
        if good and spark:
            good = show_spark(console, workdir / FILE, outcome.ledger)
        keep_it = keep or not good
        raise typer.Exit(0 if good else 1)
    except (ServerFailed, subprocess.TimeoutExpired) as error:
        keep_it = True
        console.print(f"[bold red]It did not get to the ledger:[/] {escape(str(error))}")
        raise typer.Exit(2) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("stopped")
        raise typer.Exit(130) from None
    finally:
        if keep_it:
            console.print(f"kept: {workdir}")
        else:
            shutil.rmtree(workdir, ignore_errors=True)


def _run(plan: Plan, workdir: Path, console: Console) -> Outcome:
    rate = (
        "as many numbered lines a second as come back"
        if plan.rate is None
        else f"{plan.rate:,.0f} numbered lines a second"
    )
    console.print(
        f"\n[bold]walflow run {_short(plan.flow)}[/]: what comes by TCP is logged, then written to {FILE} and sent "
        f"back.\n{plan.connections} clients send {rate}; {_kills(plan.kills)} of the server. Seed {plan.seed}.\n"
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_terminated(Demo(plan, workdir, console)))


def _kills(count: int) -> str:
    return "1 kill" if count == 1 else f"{count} kills"


def _short(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


async def _until_terminated(demo: Demo) -> Outcome:
    """SIGTERM ends it as Ctrl-C does: with nothing left behind."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await demo.run()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


def _conclude(console: Console, plan: Plan, outcome: Outcome) -> bool:
    """Whether all is well."""
    ledger = outcome.ledger
    console.print(f"\n  echoes a second, {LOOK} s a bar: the gaps are the kills\n  [green]{outcome.pulse}[/]\n")
    print_ledger(console, ledger)
    if ledger.faults:
        console.print("\n[bold red]The promise is broken.[/]\n")
        return False
    shortcomings = outcome.shortcomings(plan)
    if shortcomings:
        console.print("\n[bold red]This proves nothing:[/]", *map(escape, shortcomings), sep="\n  ")
        return False
    console.print(
        f"\n[bold green]Nothing lost, nothing torn, nothing doubled.[/] {_kills(outcome.kills)}; each of the "
        f"{ledger.echoed:,} lines that came back is in the file, byte for byte.\n"
    )
    return True


if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # bars and dots, on a terminal that knows no UTF-8
    typer.run(main)
