"""The command `walflow`, outside the package, whose import alone takes a third of a second:
Ctrl-C meanwhile is silent too."""

import gc
import sys

from walflow_kernel.version import __version__

INTERRUPTED = 130  # 128 + SIGINT, as shells have it; walflow/interrupted.py has the same for `python -m walflow`


def main() -> None:
    if sys.argv[1:] == ["--version"] and _printed_version():
        return
    try:
        gc.disable()  # an import makes what stays; looking through it for what does not is a quarter of a start
        from walflow.cli import main as walflow

        gc.freeze()
        gc.enable()
        walflow()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _printed_version() -> bool:
    try:
        print("walflow", __version__, flush=True)  # noqa: T201
    except OSError:
        return False  # a full disk, a pipe that nothing reads: the program has words and exit codes for both
    return True
