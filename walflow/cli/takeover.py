"""`walflow run` as the next process of a running daemon: what it finds it says to the one before, which serves on."""

import asyncio
import gc
import hashlib
import importlib
import os
import signal
import socket
from collections.abc import Generator, Iterable, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import typer

from walflow.cli.stderr import Stderr
from walflow.exit_codes import EX_FINDINGS, EX_UNAVAILABLE
from walflow.world import handover
from walflow_kernel.version import __version__

if TYPE_CHECKING:
    from walflow.cli.restart_changes import AfterRestart
    from walflow.plan import Assembly
    from walflow.runtime.handover.predecessor import Predecessor


def predecessor_of(environment: MutableMapping[str, str], stderr: Stderr) -> "Predecessor | None":
    """None: this is the first process. Raises typer.Exit if the one before has ended meanwhile, or says what is not
    understood."""
    from walflow.runtime.handover.spawned import CHANNEL

    number = environment.pop(CHANNEL, None)
    if number is None:
        return None
    from walflow.runtime.handover import parent
    from walflow.runtime.handover.channel import ChannelClosed, SocketChannel
    from walflow.runtime.handover.messages import NotUnderstood
    from walflow.runtime.handover.predecessor import Predecessor

    end = socket.socket(fileno=int(number))
    for descriptor in (end.fileno(), *parent.descriptors(environment)):
        os.set_inheritable(descriptor, False)  # only the next process gets them
    before = os.getppid()
    predecessor = Predecessor(SocketChannel(end), before, partial(_kill, before))
    with refusing(predecessor, stderr):
        try:
            return asyncio.run(predecessor.meet())
        except ChannelClosed:
            raise typer.Exit(0) from None
        except NotUnderstood as error:
            raise _of_another_version(error, stderr) from None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def refusing(predecessor: "Predecessor | None", stderr: Stderr) -> Generator[None]:
    """If it ends here, the process before is told why, with what was written to stderr."""
    if predecessor is None:
        yield
        return
    said: list[str] = []
    stderr.copy_to = said.append
    try:
        yield
    except typer.Exit as end:
        lines = [line for text in said for line in text.splitlines()]
        asyncio.run(predecessor.refused(lines, end.exit_code))
        raise
    finally:
        stderr.copy_to = None


def take_over(predecessor: "Predecessor", assembly: "Assembly", stderr: Stderr) -> None:
    """Returns once the process before has stopped. Raises typer.Exit if the flows cannot run here, if events would
    be lost that `--lose` does not name, or if no more is wanted."""
    import msgspec

    from walflow.admin.document import Status
    from walflow.admin.nodes import RunningNodes
    from walflow.cli.environment import tried
    from walflow.cli.restart_changes import RunningNow, changes, running_lines
    from walflow.runtime.handover.messages import NotUnderstood

    failed = [one for one in tried(assembly, later=False) if one.wrong is not None]
    for one in failed:
        stderr.write(f"walflow: {one.subject}: {one.what}: {one.wrong}")
    if failed:
        raise typer.Exit(EX_UNAVAILABLE)
    try:
        nodes = msgspec.convert(predecessor.running.nodes, RunningNodes)
        now = RunningNow(nodes, msgspec.convert(predecessor.running.status, Status))
    except msgspec.MsgspecError as error:
        raise _of_another_version(error, stderr) from None
    found = changes(now, assembly)
    refused = [*_losing(found, predecessor.reload.lose), *_beginning(found, predecessor.reload.begin)]
    for line in refused:
        stderr.write(f"walflow: {line}")
    if refused and not predecessor.reload.dry:
        raise typer.Exit(EX_FINDINGS)
    lines = [line.plain for line in running_lines(found)[:-1]]
    if handover().wanted:
        lines.append(f"handed on: {', '.join(sorted(handover().wanted))}")
    importlib.import_module("uvloop")  # what a run needs is loaded, and looked through, while the one before serves
    gc.collect()
    gc.freeze()
    try:
        if not asyncio.run(predecessor.checked([*lines, *refused], flows_of(assembly))):
            raise typer.Exit(0)
    except NotUnderstood as error:
        raise _of_another_version(error, stderr) from None


def _of_another_version(error: Exception, stderr: Stderr) -> typer.Exit:
    stderr.write(f"walflow: what runs is another version, and what it says of itself is not understood: {error}")
    stderr.write(f"walflow: this is walflow {__version__}: stop that one, and start this")
    return typer.Exit(EX_UNAVAILABLE)


def _losing(found: "Sequence[AfterRestart]", lose: Sequence[str]) -> list[str]:
    return [
        f"{one.loses}: {one.words}: the reload is refused; `--lose {one.loses}` says that it is wanted"
        for one in found
        if one.loses and one.loses not in lose
    ]


def _beginning(found: "Sequence[AfterRestart]", begin: "Iterable[str]") -> list[str]:
    new = {one.begins for one in found}
    return [
        f"--begin {name}: no sink of that name is new behind a log with lanes" for name in begin if name not in new
    ]


def flows_of(assembly: "Assembly") -> str:
    """A hash of the flow files."""
    digest = hashlib.blake2b(digest_size=8)
    for source in assembly.sources:
        digest.update(source.text.encode(errors="surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()
