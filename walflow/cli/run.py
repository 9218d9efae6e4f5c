"""`walflow run`: the daemon."""

import ctypes
import gc
import math
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from walflow.admin.text import printable
from walflow.cli import logs
from walflow.cli.engine import EngineOption, SparkConfigFile, elsewhere, from_directory
from walflow.cli.filter import FilterOptions, is_filter, refuse_mixed, run_filter
from walflow.cli.flow_args import FlowArgs
from walflow.cli.stderr import Stderr
from walflow.cli.takeover import predecessor_of, refusing, take_over
from walflow.exit_codes import EX_CONFIG, EX_USAGE
from walflow.roles import DAEMON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walflow.admin.tap.rules import TapRules
    from walflow.admin.token import TokenFile
    from walflow.runtime.daemon import Beside

FILTER: Final = "Scripts and pipelines"
CREDENTIAL: Final = "admin-token"


def run(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Flow files. All their flows run in one daemon. Or one script (.tremor) or one pipeline (.trickle)."
        ),
    ],
    input: Annotated[  # the option's name
        Path | None,
        typer.Option(
            "--input", "-i", help="The file that events are read from. Default: stdin.", rich_help_panel=FILTER
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file that events are written to. Default: stdout.", rich_help_panel=FILTER
        ),
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option(
            "--port",
            "-p",
            help="Write the events of this output. Repeatable. Default: out.",
            rich_help_panel=FILTER,
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="Run this pipeline of a flow file, without the flow. FLOW::NAME if it is defined in a flow.",
            rich_help_panel=FILTER,
        ),
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option("--decoder", "-d", help="The codec of the input. Default: json.", rich_help_panel=FILTER),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            "-e",
            help="The codec of the output. Default: the codec of the input.",
            rich_help_panel=FILTER,
        ),
    ] = None,
    preprocessor: Annotated[
        list[str] | None,
        typer.Option(
            help="How the input is divided into events. Repeatable. Default: separate, by lines.",
            rich_help_panel=FILTER,
        ),
    ] = None,
    postprocessor: Annotated[
        list[str] | None,
        typer.Option(
            help="What is done with each event of the output. Repeatable. Default: separate, by lines.",
            rich_help_panel=FILTER,
        ),
    ] = None,
    loop: Annotated[Literal["uvloop", "asyncio"], typer.Option(help="The event loop.")] = "uvloop",
    workdir: Annotated[Path, typer.Option(help="The directory for relative paths in flow files.")] = Path(),
    log_format: Annotated[
        logs.Format, typer.Option(help="Format of log lines. auto: console on a terminal, otherwise json.")
    ] = "auto",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="Log lines below this level are not written.")
    ] = "info",
    drain_seconds: Annotated[
        float, typer.Option(help="Seconds that a stop waits for events that were read and are not delivered yet.")
    ] = 10.0,
    admin: Annotated[
        str,
        typer.Option(
            envvar="WALFLOW_ADMIN", help="The address of metrics and health checks: host:port, unix:/path or off."
        ),
    ] = "127.0.0.1:9898",
    admin_token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="WALFLOW_ADMIN_TOKEN_FILE",
            help="A file with the token for that address. Required if the address is not loopback.",
        ),
    ] = None,
    tap: Annotated[
        bool, typer.Option("--tap", help="Allow `walflow tap` and the page at the admin address to show events.")
    ] = False,
    tap_redact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="With --tap: never show this member, for example event.user.email, event.headers.* or $peer.host. "
            "Repeatable.",
        ),
    ] = None,
    args: FlowArgs = [],  # noqa: B006  # typer copies it
    engine: EngineOption = DAEMON,
    spark_config: SparkConfigFile = None,
    allow_cycles: Annotated[
        bool,
        typer.Option(
            "--allow-cycles",
            help="Allow a flow to feed itself through a log. Such a flow makes ever more events of one.",
        ),
    ] = False,
    flush: Annotated[
        bool,
        typer.Option(
            "--flush",
            help=(
                "At a stop, and at the end of a filter's input, close the open windows. Without it they are dropped."
            ),
        ),
    ] = False,
) -> None:
    """Run flows until SIGTERM or SIGINT. A second SIGTERM or SIGINT stops the daemon at once. SIGHUP reopens output
    files, and reads certificates and the admin token again.

    Or send a file through a script or a pipeline, without a flow and without a daemon:
    `walflow run SCRIPT.tremor -i IN -o OUT`. The input is read until it ends. Rejected events are printed on stderr,
    with the place in the script.
    """
    options = FilterOptions(input, output, decoder, encoder, preprocessor, postprocessor, port, pipeline)
    if is_filter(files, options):
        _keep_freed_memory()
        raise typer.Exit(run_filter(files, options, args, flush=flush))
    refuse_mixed(files, "run")
    # Until the daemon runs: nothing that a start makes is garbage, and looking for it is a fifth of the time.
    gc.disable()
    if os.getpid() == 1:
        from walflow.runtime.handover import parent

        parent.begin()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the daemon takes it: what it reopens is opened anew anyway
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    from walflow.diagnostics import render_all
    from walflow.plan import load
    from walflow.runtime.daemon import Settings, run as run_daemon
    from walflow.runtime.handover.spawned import CommandLine

    stderr = logs.configure(log_format, log_level)
    predecessor = predecessor_of(os.environ, stderr)
    command = CommandLine.own(os.environ)
    with refusing(predecessor, stderr):
        if not 0 <= drain_seconds < math.inf:
            raise _refused(stderr, f"--drain-seconds {drain_seconds}: a number of seconds, 0 or more")
        rules = tap_rules(tap_redact or [], stderr, allowed=tap)
        beside = _admin(admin, admin_token_file, rules, stderr)
        files = [file if file.is_absolute() else Path(os.path.relpath(file, workdir)) for file in files]
        settings = from_directory(spark_config, workdir)
        try:
            os.chdir(workdir)
        except OSError as error:
            raise _refused(stderr, f"--workdir {workdir}: {error.strerror}") from None
        assembly, diagnostics = load(
            files,
            args=args,
            allow_cycles=allow_cycles,
            engine=elsewhere(engine),
            spark_config=settings,
            reads_secrets=True,
        )
        if diagnostics:
            stderr.write(render_all(diagnostics))
        if assembly is None:
            raise typer.Exit(EX_CONFIG)
        if predecessor is not None:
            take_over(predecessor, assembly, stderr)
    _keep_freed_memory()
    raise typer.Exit(run_daemon(assembly, Settings(loop, drain_seconds, flush), beside, command, predecessor))


def tap_rules(redacted: "Sequence[str]", stderr: Stderr, *, allowed: bool) -> "TapRules":
    from walflow.admin.tap.rules import TapRules, parse_path

    if redacted and not allowed:
        raise _refused(stderr, "--tap-redact: no event is shown without --tap")
    try:
        return TapRules(allowed, [parse_path(one) for one in redacted])
    except ValueError as error:
        raise _refused(stderr, f"--tap-redact {error}") from None


def _admin(address: str, token_file: Path | None, rules: "TapRules", stderr: Stderr) -> "Beside":
    """What runs beside the flows: the admin server, or nothing."""
    from walflow.admin.endpoint import parse_endpoint
    from walflow.runtime.daemon import nothing_beside

    try:
        endpoint = parse_endpoint(address)
    except ValueError as error:
        raise _refused(stderr, f"--admin {error}") from None
    if endpoint is None:
        if rules.allowed:
            raise _refused(stderr, "--tap: events are shown by the admin interface, and --admin is off")
        return nothing_beside
    token = _token(token_file, stderr)
    if not endpoint.loopback and token is None:
        raise _refused(
            stderr, f"--admin {endpoint} can be reached from other machines, so it needs an --admin-token-file"
        )
    from walflow.admin.server import serve  # aiohttp takes a while

    return partial(serve, endpoint=endpoint, token=token, lines_dropped=lambda: stderr.dropped, rules=rules)


def _token(file: Path | None, stderr: Stderr) -> "TokenFile | None":
    """The token's file: as the option names it, otherwise systemd's credential `admin-token`."""
    from walflow.admin.token import TokenFile
    from walflow.net.secrets import CREDENTIALS, NoSecret

    credential = Path(os.environ.get(CREDENTIALS, ""), CREDENTIAL)
    if file is None and not (CREDENTIALS in os.environ and credential.is_file()):
        return None
    try:
        return TokenFile(file or credential)
    except NoSecret as error:
        raise _refused(stderr, f"--admin-token-file: {error}") from None


def _refused(stderr: Stderr, reason: str) -> typer.Exit:
    stderr.write(f"walflow: {printable(reason)}")
    return typer.Exit(EX_USAGE)


def _keep_freed_memory() -> None:
    """glibc gives the top of the heap back after each large free and faults it in again for the next read: 2 of
    3 microseconds per event where lists of thousands are made and dropped. M_TRIM_THRESHOLD, M_TOP_PAD and
    M_MMAP_THRESHOLD are set high instead."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
        ctypes.CDLL(None).gnu_get_libc_version  # noqa: B018  # raises elsewhere than on glibc
    except (OSError, AttributeError):
        return
    for option, size in ((-1, 1 << 30), (-2, 64 << 20), (-3, 32 << 20)):
        mallopt(option, size)
