"""The scenes of tremor's pages on quality of service, with real listeners that print: `python -m demo.qos`.

Exit code 0 if nothing is missing; 1 if anything is; 2 if it did not get that far.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo.listener_process import ListenerProcess, lives
from demo.server import PATIENCE, ROOT, Server, ServerFailed, write_flow

FLOWS: Final = ROOT / "flows" / "qos"
AWAY: Final = 2.2  # events that are made while a listener is gone
LOOK: Final = 0.02
MILLISECOND: Final = 1_000_000  # ns


class Scene:
    """A title, then the lines of one listener as it prints them, with what is done in between."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._shown = 0
        console.print(f"\n[bold]{title}[/]\n")

    def show(self, listener: ListenerProcess, count: int) -> None:
        """So many more events. Raises ServerFailed."""
        goal = len(listener.events()) + count
        wait_until(lambda: len(listener.events()) >= goal, lambda: f"event {goal} was not printed")
        self.catch_up(listener)

    def catch_up(self, listener: ListenerProcess) -> None:
        text = listener.text()
        self._console.out(text[self._shown :], end="", highlight=False)
        self._shown = len(text)

    def say(self, text: str) -> None:
        self._console.print(f"[yellow]# {text}[/]")


def wait_until(true: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Raises ServerFailed."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise ServerFailed(otherwise())
        time.sleep(LOOK)


def walflow_dies(console: Console, workdir: Path, pace: float) -> bool:
    """Whether nothing is missing."""
    scene = Scene(console, "1. An event a second through a log on disk. walflow is killed, and started again.")
    with ListenerProcess(workdir / "printed") as listener:
        listener.start()
        with Server(_persistent(workdir, listener, pace), workdir) as server:
            server.start()
            scene.show(listener, 5)
            server.kill()
            scene.say("kill -9 walflow; walflow run flows/qos/persistent.troy")
            server.start()
            scene.show(listener, 5)
            server.stop()
        scene.catch_up(listener)
        return _conclude(console, listener)


def listener_dies(console: Console, workdir: Path, pace: float) -> bool:
    """Whether nothing is missing."""
    scene = Scene(
        console,
        "2. The same, and the listener dies with an event in its socket. Two seconds later it is started again.",
    )
    with ListenerProcess(workdir / "printed") as listener:
        listener.start()
        with Server(_persistent(workdir, listener, pace), workdir) as server:
            server.start()
            scene.show(listener, 5)
            listener.freeze()
            scene.say("kill -STOP of the listener: what is written to it now it does not read")
            wait_until(lambda: listener.unread() > 0, lambda: "nothing was written to the listener")
            listener.kill()
            scene.say("kill -9 of the listener")
            time.sleep(AWAY * pace)
            listener.start()
            scene.show(listener, 7)
            server.stop()
        scene.catch_up(listener)
        return _conclude(console, listener)


def _persistent(workdir: Path, listener: ListenerProcess, pace: float) -> Path:
    args = {"url": f"127.0.0.1:{listener.port}", "interval": round(pace * 1e9)}
    return write_flow(workdir, FLOWS / "persistent.troy", args)


def _conclude(console: Console, listener: ListenerProcess) -> bool:
    printed = listener.events()
    twice = len(printed) - len(set(printed))
    good = True
    console.print()
    for number, ids in enumerate(lives(printed), start=1):
        missing = sorted(set(range(ids[-1] + 1)) - set(ids))
        good &= not missing
        console.print(
            f"  run {number} of walflow: events 0 to {ids[-1]}, missing: {_listed(missing)}",
            style=_colour(not missing),
        )
    console.print(f"  printed twice: {twice}")
    return good


class Three:
    """The listeners of the round robin, and what each of them printed in each phase."""

    def __init__(self, listeners: Sequence[ListenerProcess]) -> None:
        self.listeners = listeners
        self._before = [0] * len(listeners)
        self.table = Table("", *(f"ws{number}" for number in range(len(listeners))), box=None, pad_edge=False)
        for column in self.table.columns[1:]:
            column.justify = "right"

    def different(self) -> int:
        return len(set(self._ids()))

    def wait_for(self, count: int) -> None:
        """So many different events more. Raises ServerFailed."""
        goal = self.different() + count
        wait_until(lambda: self.different() >= goal, lambda: f"{goal} events were to come, {self.different()} did")

    def phase(self, name: str) -> None:
        counts = [len(listener.events()) for listener in self.listeners]
        self.table.add_row(name, *(f"{count - before:,}" for count, before in zip(counts, self._before, strict=True)))
        self._before = counts

    def first_lines(self, console: Console) -> None:
        for number, listener in enumerate(self.listeners):
            console.out(f"ws{number}:", *listener.text().splitlines()[1:4], sep="\n", highlight=False)

    def conclude(self, console: Console) -> bool:
        times = Counter(self._ids())
        missing = sorted(set(range(max(times) + 1)) - set(times))
        console.print(
            f"\n  events 0 to {max(times):,}, missing: {_listed(missing)}",
            style=_colour(not missing),
            highlight=False,
        )
        console.print(f"  printed twice: {times.total() - len(times)} (in flight when a listener was killed)")
        return not missing

    def _ids(self) -> Iterable[int]:
        return [event.id for listener in self.listeners for event in listener.events()]


def round_robin(console: Console, workdir: Path, _: float) -> bool:
    """Whether nothing is missing."""
    scene = Scene(
        console, "3. A thousand events a second through a log in memory, to three listeners that are killed by turns."
    )
    with ExitStack() as stack:
        three = Three([stack.enter_context(ListenerProcess(workdir / f"ws{number}")) for number in range(3)])
        for listener in three.listeners:
            listener.start("--back")
        urls = {f"ws{number}": f"127.0.0.1:{listener.port}" for number, listener in enumerate(three.listeners)}
        flow = write_flow(workdir, FLOWS / "roundrobin.troy", {**urls, "interval": MILLISECOND, "ack": "message"})
        server = stack.enter_context(Server(flow, workdir))
        server.start()
        three.wait_for(3000)
        three.first_lines(console)
        _kill_and_restart(three, server, scene)
        server.stop()
        three.phase("all three are back")
        console.print("\n  printed while", three.table, sep="\n")
        return three.conclude(console)


def _kill_and_restart(three: Three, server: Server, scene: Scene) -> None:
    first, *others = three.listeners
    scene.say("kill -9 of ws0")
    first.kill()
    three.phase("all three are there")
    three.wait_for(3000)
    scene.say("kill -9 of ws1 and ws2")
    for listener in others:
        listener.kill()
    three.phase("ws0 is killed")
    while "in memory" not in (reason := str(server.wait_for("breaker triggered").get("reason"))):
        pass
    scene.say(f"walflow: breaker triggered: {reason}; the metronome stands still")
    three.phase("all three are killed")
    for listener in three.listeners:
        listener.start("--back")
    scene.say("all three are started again")
    three.wait_for(3000)


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:20])) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "") or "none"


def _colour(good: bool) -> str:
    return "green" if good else "bold red"


class Scenes(StrEnum):
    WALFLOW_DIES = "walflow-dies"
    LISTENER_DIES = "listener-dies"
    ROUND_ROBIN = "round-robin"


SCENES: Final = {
    Scenes.WALFLOW_DIES: walflow_dies,
    Scenes.LISTENER_DIES: listener_dies,
    Scenes.ROUND_ROBIN: round_robin,
}


def main(
    scenes: Annotated[list[Scenes] | None, typer.Argument(help="Default: all of them.")] = None,
    pace: Annotated[
        float, typer.Option(min=0.01, help="Seconds from one event to the next, in the first two.")
    ] = 1.0,
) -> None:
    """A metronome, a log, and WebSocket listeners that print what comes; all of them are killed by turns."""
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 110)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    workdir = Path(tempfile.mkdtemp(prefix="walflow-demo-"))
    try:
        good = True
        for name in scenes or Scenes:
            (workdir / name).mkdir()
            good &= SCENES[name](console, workdir / name, pace)
        console.print("\n[bold green]Nothing lost.[/]\n" if good else "\n[bold red]Events are missing.[/]\n")
        raise typer.Exit(0 if good else 1)
    except (ServerFailed, subprocess.TimeoutExpired) as error:
        console.print(f"[bold red]It did not get to the end:[/] {escape(str(error))}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        console.print("stopped")
        raise typer.Exit(130) from None
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


if __name__ == "__main__":
    typer.run(main)
