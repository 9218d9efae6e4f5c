"""The end of the process when it cannot go on: one log line, then the exit code. The data on disk is sound, and the
next start continues from it."""

import asyncio
import os
import traceback
from typing import Final, NoReturn

import structlog

from walflow.errors import DirectoryLocked, Misconfigured, Unavailable, WalflowError
from walflow.exit_codes import EX_CONFIG, EX_IOERR, EX_SOFTWARE, EX_TEMPFAIL, EX_UNAVAILABLE
from walflow.runtime.process import DaemonProcess

EXIT_CODES: Final[dict[type[WalflowError], int]] = {
    DirectoryLocked: EX_TEMPFAIL,
    Misconfigured: EX_CONFIG,
    Unavailable: EX_UNAVAILABLE,
}

log = structlog.get_logger()


def die(process: DaemonProcess, error: WalflowError) -> NoReturn:
    """Ends without any further message to a peer: no event may be acked any more."""
    code = EXIT_CODES.get(type(error), EX_IOERR)
    log.critical("fatal", error=str(error), exit_code=code)
    process.end(code)


def on_internal_error(process: DaemonProcess, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Handles an exception that is a bug of ours. If it was raised for a connection, only that connection is lost. If
    any other call of the loop raised it, it is unknown what was not done, so the process ends."""
    error = context.get("exception")
    at = where(error) if isinstance(error, BaseException) else ""
    log.error("internal error", error=repr(error or context.get("message")), at=at)
    log.debug("internal error", exc_info=error)
    if "handle" in context and isinstance(error, BaseException) and _is_ours(error):
        log.critical("fatal", error=f"internal error: {error!r}, in {at}", exit_code=EX_SOFTWARE)
        process.end(EX_SOFTWARE)


def where(error: BaseException) -> str:
    """The place in the code, for the developer who looks for the bug."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}, {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def _is_ours(error: BaseException) -> bool:
    """Whether walflow raised it, and not a connection that has begun or ended."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(frame.f_code.co_name in ("connection_made", "connection_lost") for frame in frames):
        return False
    return any(str(frame.f_globals.get("__name__")).split(".")[0] in ("walflow", "connectors") for frame in frames)
